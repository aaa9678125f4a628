"""A client's connection: h2 speaks HTTP/2, and each stream is a call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import quote

import structlog
from grpc import StatusCode
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

from .call import Aborted, Call

MAX_CALLS = 1000
RESETS_WITHIN_S = 10.0
"""A client that resets more than MAX_CALLS calls within this time is sent away (CVE-2023-44487)."""

WINDOW_BYTES = 256 * 1024
IDLE_S = 600.0
"""A connection without calls is closed after this time. gRPC's clients connect again when they need to."""

_CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024
_MAX_HEADER_BYTES = 64 * 1024
_MAX_BUFFERED_BYTES = 1024 * 1024
_HEADERS = (
    (":status", "200"),
    ("content-type", "application/grpc"),
    ("grpc-accept-encoding", "identity"),
)

_log = structlog.get_logger()


class _Http(H2Connection):
    """h2 that goes on after a client's GOAWAY: gRPC's Java client sends it while its last calls still run."""

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        return [], []


class Connection(asyncio.Protocol):
    """One client."""

    _transport: asyncio.Transport

    def __init__(
        self, serve: Callable[[Call, dict[bytes, bytes]], Awaitable[None]], connections: set[Connection]
    ) -> None:
        self._serve, self._connections = serve, connections
        self._http = _Http(H2Configuration(client_side=False))
        self._http.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: MAX_CALLS,
                SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: _MAX_HEADER_BYTES,
            },
        )
        self._calls: dict[int, Call] = {}
        self._to_send: dict[Call, None] = {}  # a set in order
        self._resets_at_s: deque[float] = deque(maxlen=MAX_CALLS + 1)
        self._is_paused = self._will_send = self._is_draining = False
        self._idle: asyncio.TimerHandle | None = None

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)
        transport.set_write_buffer_limits(_MAX_BUFFERED_BYTES)
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_CONNECTION_WINDOW_BYTES)
        self._watch_idleness()
        self._send_all()

    def connection_lost(self, _: Exception | None) -> None:
        """The client has gone, and its calls end."""
        self._connections.discard(self)
        self._cancel_all()
        if self._idle is not None:
            self._idle.cancel()

    def pause_writing(self) -> None:
        """The client takes nothing. It may send nothing either, as answers would pile up."""
        self._is_paused = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client takes data again."""
        self._is_paused = False
        self._transport.resume_reading()
        self._send_soon(*self._calls.values())

    def data_received(self, data: bytes) -> None:
        """Takes all whole frames."""
        try:
            events = self._http.receive_data(data)
        except ProtocolError:  # h2 has prepared the GOAWAY that says why
            self._send_away()
            return
        for event in events:
            self._take(event)
        if self._resets_too_often():
            self._http.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._send_away()
            return
        self._send_soon()

    # for the server

    def drain(self) -> None:
        """Takes no more calls; those under way go on. h2's own GOAWAY would end them."""
        if not self._is_draining and not self._transport.is_closing():
            self._is_draining = True
            last = GoAwayFrame(0, last_stream_id=self._http.highest_inbound_stream_id)
            self._transport.write(last.serialize())

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Those that serve its calls."""
        return [call.task for call in self._calls.values()]

    def close(self) -> None:
        """Ends the connection once all that is ready has been sent."""
        self._send_all()
        self._transport.close()

    # what arrives

    def _take(self, event: Event) -> None:
        call = self._calls.get(getattr(event, "stream_id", 0))
        match event:
            case RequestReceived():
                self._begin(event.stream_id, dict(event.headers))
            case DataReceived() if call is not None:
                call.receive(event.data, event.flow_controlled_length)
            case StreamEnded() if call is not None:
                call.end()
            case StreamReset() if call is not None:
                self._cancel(call)
                self._resets_at_s.append(asyncio.get_running_loop().time())
            case RemoteSettingsChanged() | WindowUpdated():
                self._send_soon(*self._calls.values() if call is None else (call,))

    def _resets_too_often(self) -> bool:
        times_s = self._resets_at_s
        return len(times_s) > MAX_CALLS and times_s[-1] - times_s[0] < RESETS_WITHIN_S

    def _begin(self, stream: int, headers: dict[bytes, bytes]) -> None:
        if self._is_draining:
            with suppress(StreamClosedError):  # the client may have reset it at once
                self._http.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
            return
        if self._idle is not None:
            self._idle.cancel()
        call = self._calls[stream] = Call(stream, self._send_soon, self._acknowledge)
        call.task = asyncio.get_running_loop().create_task(self._run(call, headers))

    def _acknowledge(self, count: int, stream: int) -> None:
        self._http.acknowledge_received_data(count, stream)
        self._send_soon()

    # calls

    async def _run(self, call: Call, headers: dict[bytes, bytes]) -> None:
        """Serves a call, and sends its status."""
        code, message = StatusCode.UNAVAILABLE, "the server is shutting down"
        try:
            code, message = await self._served(call, headers)
            self._fill(call)
            await call.sent()
        finally:  # cancelled, perhaps
            if call.stream in self._calls:
                self._forget(call)
                self._finish(call, code, message)

    async def _served(self, call: Call, headers: dict[bytes, bytes]) -> tuple[StatusCode, str]:
        try:
            await self._serve(call, headers)
        except Aborted as aborted:
            return aborted.code, str(aborted)
        except Exception:
            _log.exception("call_failed", path=headers.get(b":path", b"").decode(errors="replace"))
            return StatusCode.UNKNOWN, "the server failed; its log has the reason"
        return StatusCode.OK, ""

    def _finish(self, call: Call, code: StatusCode, message: str) -> None:
        number, _name = code.value
        trailers = [("grpc-status", str(number)), ("grpc-message", _percent_encoded(message))]
        self._http.send_headers(
            call.stream, (() if call.has_begun else _HEADERS) + tuple(trailers), end_stream=True
        )
        if not call.has_all:  # the client need not send the rest
            self._http.reset_stream(call.stream, ErrorCodes.NO_ERROR)
        self._send_soon()

    def _cancel(self, call: Call) -> None:
        """Ends a call of which nothing may be sent any more."""
        self._forget(call)
        call.task.cancel()

    def _send_away(self) -> None:
        """Ends the connection, and with it all calls, after a GOAWAY that h2 has prepared."""
        self._cancel_all()
        self.close()

    def _cancel_all(self) -> None:
        for call in list(self._calls.values()):
            self._cancel(call)

    def _forget(self, call: Call) -> None:
        """Opens the connection's window by what the call has not read."""
        del self._calls[call.stream]
        self._http.acknowledge_received_data(call.unacknowledged_bytes, call.stream)
        if not self._calls:
            self._watch_idleness()

    def _watch_idleness(self) -> None:
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._leave)

    def _leave(self) -> None:
        self.drain()
        self.close()

    # what leaves

    def _send_soon(self, *calls: Call) -> None:
        """Sends what calls and h2 have to send, all together, in the next turn of the loop."""
        self._to_send.update(dict.fromkeys(calls))
        if not self._will_send:
            self._will_send = True
            asyncio.get_running_loop().call_soon(self._send_all)

    def _send_all(self) -> None:
        self._will_send = False
        calls, self._to_send = self._to_send, {}
        for call in calls:
            self._fill(call)
        data = self._http.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _fill(self, call: Call) -> None:
        """Gives h2 what the client's window lets a call send."""
        if self._is_paused or call.stream not in self._calls or not call.unsent:
            return
        if not call.has_begun:
            call.has_begun = True
            self._http.send_headers(call.stream, _HEADERS)
        room = min(len(call.unsent), self._http.local_flow_control_window(call.stream))
        for at in range(0, room, self._http.max_outbound_frame_size):
            end = min(room, at + self._http.max_outbound_frame_size)
            self._http.send_data(call.stream, bytes(call.unsent[at:end]))
        if room > 0:
            del call.unsent[:room]
            call.has_sent()


def _percent_encoded(message: str) -> str:
    return quote(message, safe=" !\"#$&'()*+,/:;<=>?@[\\]^`{|}")
