"""The blocking client's connection: one call, one stream, one upload, a rest, and the end of all of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import grpc
from google.protobuf.message import Message

from toehold_client.credentials import Credentials

from .channel import CHANNEL_OPTIONS
from .channels import Channels, UsedChannel
from .connection import Connection
from .contract import Stubs
from .request_ids import request_id_in
from .streams import Following, Q, R, Stream
from .uploads import Upload

_Q = TypeVar("_Q")
_M = TypeVar("_M", bound=Message)
_R = TypeVar("_R")


class Driver(Connection):
    """The connection of a blocking client."""

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = 30.0,
        patience_s: float = 0.0,
        operator: str = "",
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(
            address,
            timeout_s=timeout_s,
            patience_s=patience_s,
            operator=operator,
            credentials=credentials,
        )
        self._renewing = threading.Lock()
        self._channels = Channels(self._opened(self._security.channel_credentials()))
        self._streams: weakref.WeakSet[Stream[Any, Any]] = weakref.WeakSet()
        self._closed = threading.Event()

    def close(self) -> None:
        """Ends all streams and the connection. Calls that are under way fail: ClientClosed."""
        self._closed.set()
        for stream in list(self._streams):
            stream.close()
        for channel in self._channels.all():
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise self._closed_error()

    def _opened(self, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
        if credentials is None:
            return grpc.insecure_channel(self.address, options=CHANNEL_OPTIONS)
        return grpc.secure_channel(self.address, credentials, options=CHANNEL_OPTIONS)

    @contextmanager
    def _used_channel(self) -> Iterator[UsedChannel[grpc.Channel]]:
        """A context for a call: the channel with the present credentials."""
        with self._renewing:
            self._check_open()
            if (renewed := self._security.renewed()) is not None:
                self._channels.renew(self._opened(renewed))
            for channel in self._channels.idle():
                channel.close()
            used = self._channels.present
            used.begin()
        try:
            yield used
        finally:
            with self._renewing:
                used.end()

    def _rest(self, seconds: float) -> None:
        self._closed.wait(seconds)

    def _attempt(
        self,
        pick: Callable[[Stubs], grpc.UnaryUnaryMultiCallable[_Q, _R]],
        request: _Q,
        wait_s: float = 0.0,
    ) -> _R:
        """Makes one call; its deadline is the client's own and `wait_s` more."""
        timeout_s, metadata = self._timeout_s + wait_s, self._call_metadata()
        try:
            with self._used_channel() as used:
                return pick(used.stubs)(request, timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            self._check_open()
            raise self._explained(error, timeout_s, metadata) from None
        except ValueError:  # what gRPC raises on a closed channel
            self._check_open()
            raise

    def _upload(
        self,
        pick: Callable[[Stubs], grpc.StreamUnaryMultiCallable[_M, _R]],
        upload: Upload[_M],
        timeout_s: float,
    ) -> _R:
        metadata = self._call_metadata()
        try:
            with self._used_channel() as used:
                answer = pick(used.stubs)(iter(upload), timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            upload.raise_failure()
            self._check_open()
            raise self._explained(error, timeout_s, metadata) from None
        except ValueError:  # what gRPC raises on a closed channel
            self._check_open()
            raise
        upload.raise_failure()
        return answer

    def _stream(
        self,
        pick: Callable[[Stubs], grpc.UnaryStreamMultiCallable[Q, R]],
        request: Q,
        *,
        what: str,
        head: str = "",
        timeout_s: float | None,
        reconnect_s: float,
    ) -> Stream[Q, R]:
        metadata = self._call_metadata()
        identity = request_id_in(metadata)

        def connect(request: Q, timeout_s: float) -> grpc._CallIterator[R]:
            with self._used_channel() as used:
                call = pick(used.stubs)(request, timeout=timeout_s, metadata=self._call_metadata(identity))
                used.keep(call)
                return call

        following: Following[Q, R] = self._following(
            request, metadata, what=what, head=head, timeout_s=timeout_s, reconnect_s=reconnect_s
        )
        stream = Stream(following, connect)
        self._streams.add(stream)
        return stream
