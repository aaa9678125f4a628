"""How the blocking client makes its calls: tries, rests, pages, streams, uploads and closing."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import grpc
from google.protobuf.message import Message

from toehold_client.errors import ToeholdError, unsendable

from .calls import Attempt, Page, Procedure, Rest, Stubs
from .channel import CHANNEL_OPTIONS
from .connection import Connection, stubs_of
from .streams import Following, Q, R, Stream
from .uploads import Upload

_T = TypeVar("_T")
_P = TypeVar("_P", bound=Page)
_Q = TypeVar("_Q", bound=Message)
_R = TypeVar("_R", bound=Message)


class Driver(Connection):
    """The connection of a blocking client."""

    def __init__(
        self, address: str, *, timeout_s: float = 30.0, patience_s: float = 0.0, operator: str = ""
    ) -> None:
        super().__init__(address, timeout_s=timeout_s, patience_s=patience_s, operator=operator)
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._stubs = stubs_of(self._channel)
        self._streams: weakref.WeakSet[Stream[Any, Any]] = weakref.WeakSet()
        self._closed = threading.Event()

    def close(self) -> None:
        """Ends all streams and the connection. Calls that are under way fail: ClientClosed."""
        self._closed.set()
        for stream in list(self._streams):
            stream.close()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise self._closed_error()

    def _run(self, procedure: Procedure[_T]) -> _T:
        try:
            step = next(procedure)
            while True:
                if isinstance(step, Rest):
                    self._closed.wait(step.seconds)
                    step = next(procedure)
                else:
                    answer = self._attempt(step)
                    step = (
                        procedure.throw(answer)
                        if isinstance(answer, ToeholdError)
                        else procedure.send(answer)
                    )
        except StopIteration as end:
            return cast(_T, end.value)
        except UnicodeEncodeError as error:
            unsendable(error)

    def _attempt(self, attempt: Attempt[_Q, _R]) -> _R | ToeholdError:
        timeout_s = self._timeout_s + attempt.wait_s
        try:
            return attempt.pick(self._stubs)(attempt.request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            failure = self._explained(error, timeout_s)
            return self._closed_error() if self._closed.is_set() else failure
        except ValueError:  # what gRPC raises on a closed channel
            if not self._closed.is_set():
                raise
            return self._closed_error()

    def _pages(self, page: Callable[[str], Procedure[_P]]) -> Iterator[_P]:
        token = ""
        while True:
            answer = self._run(page(token))
            yield answer
            token = answer.next_page_token
            if not token:
                return

    def _upload(
        self,
        pick: Callable[[Stubs], grpc.StreamUnaryMultiCallable[_Q, _R]],
        upload: Upload[_Q],
        timeout_s: float,
    ) -> _R:
        try:
            answer = pick(self._stubs)(iter(upload), timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            upload.raise_failure()
            self._check_open()
            raise self._explained(error, timeout_s) from None
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
        def connect(request: Q, timeout_s: float) -> grpc._CallIterator[R]:
            self._check_open()
            return pick(self._stubs)(request, timeout=timeout_s, metadata=self._metadata)

        following: Following[Q, R] = self._following(
            request, what=what, head=head, timeout_s=timeout_s, reconnect_s=reconnect_s
        )
        stream = Stream(following, connect)
        self._streams.add(stream)
        return stream
