"""One HTTP exchange over a socket: with deadlines, an address check and cancellation."""

import gzip
import re
import socket
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

UNRESOLVABLE, CONNECT_FAILED, CONNECT_LOST, TIMEOUT, UNFETCHABLE, PROTOCOL_ERROR = -1, -2, -3, -4, -7, -10
LENGTH, TIME, FILTER, DISCONNECT = "LENGTH", "TIME", "FILTER", "DISCONNECT"

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] +([1-9][0-9]{2})\b")
_MOST_HEAD_BYTES = 300_000
_MOST_DECODED_BYTES = 10_000_000
_SLICE_S = 0.1


class Failed(Exception):
    """The fetch brought no answer: its fetch status."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


class Cancelled(Exception):
    """The fetch is wanted no more."""


class _Silence(Exception):
    """Nothing came for the longest wait."""


class _Deadline(Exception):
    """The time for the whole fetch is over."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How to fetch."""

    user_agent: str
    timeout_s: float
    connect_timeout_s: float
    read_timeout_s: float
    max_bytes: int
    allowed: Sequence[str]
    wants: Callable[[str, int], bool]
    """Whether to read a body of this media type and length (0 if unknown)."""
    cancelled: Callable[[], bool] = lambda: False
    keeps_parts: bool = True
    """Whether what came of a body counts when the server falls silent."""


@dataclass(slots=True)
class Answer:
    """An answer, or with a status below zero the lack of one."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    truncation: str = ""
    peer: str = ""

    @property
    def media_type(self) -> str:
        """The media type without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def decoded(self) -> bytes | None:
        """The body without its content coding; None if that cannot be undone."""
        if self.headers.get("content-encoding", "").lower() != "gzip":
            return self.body
        try:
            if not self.truncation:
                return gzip.decompress(self.body)
            return zlib.decompressobj(wbits=47).decompress(self.body, _MOST_DECODED_BYTES)
        except (OSError, EOFError, zlib.error):
            return None


def fetch(uri: str, rules: Rules, validators: Mapping[str, str]) -> Answer:
    """Fetches a URI. Raises Cancelled."""
    deadline_s = time.monotonic() + rules.timeout_s
    parts = urlsplit(uri)
    host, port = parts.hostname or "", parts.port or 80
    try:
        peer = _address(host, port, rules.allowed)
        with _connected(peer, port, rules) as sock:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {
                "Host": parts.netloc,
                "User-Agent": rules.user_agent,
                "Accept-Encoding": "gzip",
                "Connection": "close",
                **validators,
            }
            lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
            sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
            answer = _read(_Reader(sock, rules, deadline_s), rules)
            answer.peer = peer
            return answer
    except Failed as failed:
        return Answer(failed.status)
    except (_Silence, _Deadline):
        return Answer(TIMEOUT)
    except OSError:
        return Answer(CONNECT_LOST)


def _address(host: str, port: int, allowed: Sequence[str]) -> str:
    try:
        rows = socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM)
    except OSError:
        raise Failed(UNRESOLVABLE) from None
    for row in rows:
        if any(_allows(each, str(row[4][0])) for each in allowed):
            return str(row[4][0])
    raise Failed(UNFETCHABLE)


def _allows(rule: str, address: str) -> bool:
    if rule in ("public", "loopback"):
        return ip_address(address).is_global if rule == "public" else ip_address(address).is_loopback
    return ip_address(address) in ip_network(rule)


def _connected(peer: str, port: int, rules: Rules) -> socket.socket:
    try:
        return socket.create_connection((peer, port), rules.connect_timeout_s)
    except OSError:
        raise Failed(CONNECT_FAILED) from None


class _Reader:
    """Reads from a connection, within the time that is left."""

    def __init__(self, sock: socket.socket, rules: Rules, deadline_s: float) -> None:
        sock.settimeout(_SLICE_S)
        self._sock = sock
        self._rules = rules
        self._deadline_s = deadline_s
        self.rest = b""
        """What has been received and not yet taken."""

    def more(self) -> bytes:
        """The next bytes; empty at the end of the connection."""
        if self.rest:
            part, self.rest = self.rest, b""
            return part
        silent_s = time.monotonic() + self._rules.read_timeout_s
        while True:
            now_s = time.monotonic()
            if self._rules.cancelled():
                raise Cancelled
            if now_s >= self._deadline_s:
                raise _Deadline
            if now_s >= silent_s:
                raise _Silence
            try:
                return self._sock.recv(65_536)
            except TimeoutError:
                continue

    def until(self, end: bytes, failure: int) -> bytes:
        """The bytes before a mark. Raises Failed with `failure` if there is no such mark."""
        received = b""
        while end not in received:
            part = self.more()
            received += part
            if not part or len(received) > _MOST_HEAD_BYTES:
                raise Failed(failure)
        found, _, self.rest = received.partition(end)
        return found


def _read(reader: _Reader, rules: Rules) -> Answer:
    status = 100
    while status < 200:
        head = reader.until(b"\r\n\r\n", CONNECT_LOST)
        found = _STATUS_LINE.match(head)
        if found is None or b"\0" in head:
            raise Failed(PROTOCOL_ERROR)
        status = int(found[1])
    pairs = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    answer = Answer(status, {name.strip().lower(): value.strip() for name, _, value in pairs})
    length = answer.headers.get("content-length", "0")
    if not length.isdecimal():
        raise Failed(PROTOCOL_ERROR)
    if status in (204, 304):
        return answer
    if not rules.wants(answer.media_type, int(length)):
        answer.truncation = FILTER
        return answer
    try:
        _read_body(reader, answer, rules.max_bytes)
    except _Silence:
        if not rules.keeps_parts:
            raise
        answer.truncation = TIME
    except _Deadline:
        answer.truncation = TIME
    except OSError:
        answer.truncation = DISCONNECT
    if len(answer.body) > rules.max_bytes:
        answer.body, answer.truncation = answer.body[: rules.max_bytes], LENGTH
    return answer


def _read_body(reader: _Reader, answer: Answer, most: int) -> None:
    """Reads a body into the answer, so that what has come is there whatever happens."""
    if answer.headers.get("transfer-encoding", "").lower() == "chunked":
        _read_chunks(reader, answer, most)
        return
    length = int(answer.headers["content-length"]) if "content-length" in answer.headers else None
    while len(answer.body) <= most and (length is None or len(answer.body) < length):
        part = reader.more()
        if not part:
            answer.truncation = DISCONNECT if length is not None else ""
            return
        answer.body += part
    if length is not None:
        answer.body = answer.body[:length]


def _read_chunks(reader: _Reader, answer: Answer, most: int) -> None:
    first = True
    while len(answer.body) <= most:
        try:
            line = reader.until(b"\r\n", CONNECT_LOST)
        except Failed:
            answer.truncation = DISCONNECT
            return
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            if first:
                raise Failed(PROTOCOL_ERROR) from None
            answer.truncation = DISCONNECT
            return
        if size == 0:
            return
        first = False
        content = b""
        while len(content) < size + 2:
            try:
                part = reader.more()
            except (_Deadline, _Silence, OSError):
                answer.body += content[:size]
                raise
            if not part:
                answer.body += content[:size]
                answer.truncation = DISCONNECT
                return
            content += part
        answer.body += content[:size]
        reader.rest = content[size + 2 :] + reader.rest
