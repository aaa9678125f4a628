"""SharedCookies: the cookies of a node of several processes, which its supervisor keeps for all of them.

Each process asks over a pair of connected sockets of its own, of which no other program can have an end. It
waits for each answer: so a cookie that a page sets is there for every process before the page is reported,
and thus before the host's next URI is given out. It also outlives the process that it came through.

A message goes at once or not at all (SOCK_SEQPACKET), so one that nobody waits for any more leaves nothing
half done. A process that is silent holds up only the thread that serves it.
"""

import socket
import threading
import time
from collections.abc import Iterable, Iterator

import msgspec
import structlog

from .cookies import (
    MARK_BYTES,
    MAX_HEADER_BYTES,
    NO_COOKIES,
    Cookie,
    CookieHeader,
    CookieJars,
    cookies_in,
)
from .failure import FetchFailure

WAIT_S = 5.0
"""How long a process waits for the supervisor."""

_COOKIES_PER_MESSAGE = 4
_MAX_BYTES = _COOKIES_PER_MESSAGE * 32 * 1024  # URIs have at most 8 KiB, and sockets take so much at once
_SERIAL_BYTES = 8

log = structlog.get_logger()


class CookiesUnavailable(FetchFailure):
    """The supervisor does not answer. A page that is fetched without its cookies may be another page."""


class _Question(msgspec.Struct, array_like=True):
    serial: int
    until_s: float  # when nobody waits any more, by the machine's monotonic clock, which all processes share
    crawl: str
    https: bool
    host: str = ""  # for the Cookie header of a request
    path: str = ""
    found: list[tuple[str, Cookie]] = []  # to be kept


def channel_ends() -> tuple[socket.socket, socket.socket]:
    """The two ends of a channel, of the supervisor and of a process."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def channel_of(descriptor: str) -> socket.socket:
    """The end that this process was started with; the programs that it starts do not get it."""
    channel = socket.socket(fileno=int(descriptor))
    channel.set_inheritable(False)
    return channel


class SharedCookies:
    """Cookies, kept by the supervisor at the other end of `channel`. Calls raise CookiesUnavailable."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._serial = 0
        self._answers = True

    def header(self, crawl: str, host: str, path: str, *, https: bool) -> CookieHeader:
        answer = self._ask(_Question(0, 0.0, crawl, https, host, path.partition("?")[0]))
        return CookieHeader(answer[MARK_BYTES:], answer[:MARK_BYTES]) if answer else NO_COOKIES

    def take(self, crawl: str, host: str, path: str, lines: Iterable[bytes], *, https: bool) -> None:
        cookies = cookies_in(lines, host, path, time.time(), https=https)
        for part in _parts(cookies):
            self._ask(_Question(0, 0.0, crawl, https, found=part))

    def _ask(self, question: _Question) -> bytes:
        question.until_s = time.monotonic() + WAIT_S
        try:
            if not self._lock.acquire(timeout=WAIT_S):
                raise TimeoutError
            try:
                answer = self._answer(question)
            finally:
                self._lock.release()
        except OSError as error:
            cause = f"did not answer for {WAIT_S:g} s" if isinstance(error, TimeoutError) else "is gone"
            self._note(answers=False, cause=cause)
            raise CookiesUnavailable(f"the node's supervisor, which keeps the cookies, {cause}") from error
        self._note(answers=True)
        return answer

    def _answer(self, question: _Question) -> bytes:
        self._serial += 1
        question.serial = self._serial
        self._wait_until(question.until_s)
        self._channel.send(msgspec.msgpack.encode(question))
        while True:
            self._wait_until(question.until_s)
            answer = self._channel.recv(_SERIAL_BYTES + MARK_BYTES + MAX_HEADER_BYTES)
            if not answer:
                raise ConnectionResetError
            if int.from_bytes(answer[:_SERIAL_BYTES], "big") == question.serial:
                return answer[_SERIAL_BYTES:]  # others are late: nobody waits for them any more

    def _wait_until(self, until_s: float) -> None:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._channel.settimeout(left_s)

    def _note(self, *, answers: bool, cause: str = "") -> None:
        """Logs when the supervisor falls silent, and when it answers again."""
        if answers is self._answers:
            return
        self._answers = answers
        if answers:
            log.info("cookies_back")
        else:
            log.error("cookies_unavailable", cause=cause)


def serve_cookies(channel: socket.socket, jars: CookieJars) -> None:
    """Answers a process, whose end of `channel` SharedCookies has, until that end is closed."""
    decoder = msgspec.msgpack.Decoder(_Question)
    with channel:
        while True:
            try:
                message = channel.recv(_MAX_BYTES)
                if not message:
                    return
                question = decoder.decode(message)
                if time.monotonic() >= question.until_s:
                    continue
                answer = _answered(question, jars)
                channel.send(question.serial.to_bytes(_SERIAL_BYTES, "big") + answer)
            except OSError:
                return


def _answered(question: _Question, jars: CookieJars) -> bytes:
    if question.found:
        jars.keep(question.crawl, question.found, https=question.https)
        return b""
    header = jars.header(question.crawl, question.host, question.path, https=question.https)
    return header.mark + header.text


def _parts(cookies: list[tuple[str, Cookie]]) -> Iterator[list[tuple[str, Cookie]]]:
    for at in range(0, len(cookies), _COOKIES_PER_MESSAGE):
        yield cookies[at : at + _COOKIES_PER_MESSAGE]
