"""Decodes requests, for NodeService, health and reflection alike. gRPC by itself would take a request that is
no message for an error of the node, and log each."""

import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from structlog.contextvars import bound_contextvars

from toehold.access.roles import ROLES
from toehold.request_ids import given_request_id

MAX_REQUEST_BYTES = 64 * 1024
"""The longest request that is taken: requests hold some numbers, or a name."""

RECEIVE_S = 10.0
"""The time that a request may take. Its caller holds a thread meanwhile."""

_WATCH = "Watch"
_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")

Refuse = Callable[[str, grpc.ServicerContext], object]
"""Ends a call with a message of what is wrong; raises."""

Admit = Callable[[str, grpc.ServicerContext], None]
"""Ends a call of an RPC, by its full name, unless its caller may make it; then it raises."""


def is_told(record: logging.LogRecord) -> bool:
    """Whether a line of gRPC's belongs into the log, unlike those about metadata that are no text."""
    return not str(record.msg).startswith("Invalid encoding on")


def keep_log_clean() -> None:
    """Keeps lines out of the log that callers could fill it with."""
    logging.getLogger("grpc._cython.cygrpc").addFilter(is_told)


class Guarded:
    """Stands in for a server while services are added to it, and guards their handlers."""

    def __init__(
        self,
        server: grpc.Server,
        refuse: Refuse,
        admit: Admit,
        pools: Mapping[str, ThreadPoolExecutor],
        admit_watch: Callable[[grpc.ServicerContext], object],
    ) -> None:
        """`pools` work for services that everybody may ask, by their names: silent callers hold up no others
        then. `admit_watch` ends a watch of the health unless there is room for it; then it raises."""
        self._server = server
        self._pools = pools
        self._refuse = refuse
        self._admit = admit
        self._admit_watch = admit_watch

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Does nothing, as the same handlers also come as registered ones."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Adds a service to the server."""
        guarded = {
            name: self._guarded(f"{service}/{name}", handler)
            if f"{service}/{name}" in ROLES
            else self._open(service, name, handler)
            for name, handler in handlers.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, guarded),))
        self._server.add_registered_method_handlers(service, guarded)

    def _guarded(self, method: str, handler: Any) -> Any:
        """A handler that is given a stream, which on the wire looks the same as one message.

        So it refuses a caller without waiting for the message, which might never come.
        """
        behaviour, decode = handler.unary_unary, handler.request_deserializer

        def guarded(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            request_id = given_request_id(context.invocation_metadata())
            with bound_contextvars(method=method.rpartition("/")[2], request_id=request_id):
                self._admit(method, context)
                with _in_time(context):
                    data = next(requests, None)
                if data is None:
                    return self._refuse("the call ended without a message; it must send one", context)
                return behaviour(self._decoded(decode, data, context), context)

        return grpc.stream_unary_rpc_method_handler(guarded, None, handler.response_serializer)

    def _open(self, service: str, name: str, handler: Any) -> Any:
        """A handler that is given bytes. Lines that are logged within it name the call."""
        kind = next(each for each in _KINDS if getattr(handler, each) is not None)
        behaviour, decode = getattr(handler, kind), handler.request_deserializer

        # `wraps` keeps the attributes that gRPC reads, such as one that says that a watch holds no thread.
        @functools.wraps(behaviour)
        def opened(request: Any, context: grpc.ServicerContext, *more: Any) -> Any:
            request_id = given_request_id(context.invocation_metadata())
            with bound_contextvars(method=name, request_id=request_id):
                if handler.request_streaming:
                    return behaviour(self._each(decode, request, context), context, *more)
                if name == _WATCH:
                    self._admit_watch(context)
                return behaviour(self._decoded(decode, request, context), context, *more)

        vars(opened)["experimental_thread_pool"] = self._pools[service]  # gRPC reads it
        return handler._replace(request_deserializer=None, **{kind: opened})

    def _each(
        self, decode: Callable[[bytes], Any], requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[Any]:
        while True:
            with _in_time(context):
                data = next(requests, None)
            if data is None:
                return
            yield self._decoded(decode, data, context)

    def _decoded(self, decode: Callable[[bytes], Any], data: bytes, context: grpc.ServicerContext) -> Any:
        if len(data) > MAX_REQUEST_BYTES:
            self._refuse(f"a request must have at most {MAX_REQUEST_BYTES} bytes, got {len(data)}", context)
        try:
            return decode(data)
        except DecodeError:
            return self._refuse("the request is no message of this call", context)


@contextmanager
def _in_time(context: grpc.ServicerContext) -> Iterator[None]:
    """Cancels a call whose message does not arrive in time."""
    patience = threading.Timer(RECEIVE_S, context.cancel)
    patience.daemon = True
    patience.start()
    try:
        yield
    finally:
        patience.cancel()
