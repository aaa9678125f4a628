"""Requests that are no messages: gRPC by itself would take them for errors of the node, and tell of each in
its log. They are decoded here instead, for NodeService, health and reflection alike."""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError

MAX_REQUEST_BYTES = 64 * 1024
"""Most of a request: there are some numbers in it, or a name."""

_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")

Refuse = Callable[[str, grpc.ServicerContext], object]
"""Ends a call with what is wrong with it; raises."""


def is_told(record: logging.LogRecord) -> bool:
    """Whether a line of gRPC's belongs into the log: not one for each caller whose metadata are no text."""
    return not str(record.msg).startswith("Invalid encoding on")


def keep_log_clean() -> None:
    """Lets the log be without what callers could fill it with."""
    logging.getLogger("grpc._cython.cygrpc").addFilter(is_told)


class Guarded:
    """A server, as services are added to it."""

    def __init__(self, server: grpc.Server, refuse: Refuse) -> None:
        self._server = server
        self._refuse = refuse

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Nothing: the same ones come as registered ones, too."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Lets the server serve a service."""
        guarded = {name: self._guarded(handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, guarded),))
        self._server.add_registered_method_handlers(service, guarded)

    def _guarded(self, handler: Any) -> Any:
        """A handler that is given bytes."""
        kind = next(each for each in _KINDS if getattr(handler, each) is not None)
        behaviour, decode = getattr(handler, kind), handler.request_deserializer

        def decoded(data: bytes, context: grpc.ServicerContext) -> Any:
            if len(data) > MAX_REQUEST_BYTES:
                self._refuse(
                    f"a request of {len(data)} bytes; at most {MAX_REQUEST_BYTES} are taken", context
                )
            try:
                return decode(data)
            except DecodeError:
                return self._refuse("the request is no message of this call", context)

        # `wraps` keeps what gRPC reads off a behaviour, such as that it holds no thread while it watches.
        @functools.wraps(behaviour)
        def guarded(request: Any, context: grpc.ServicerContext, *more: Any) -> Any:
            if handler.request_streaming:
                return behaviour((decoded(data, context) for data in request), context, *more)
            return behaviour(decoded(request, context), context, *more)

        return handler._replace(request_deserializer=None, **{kind: guarded})
