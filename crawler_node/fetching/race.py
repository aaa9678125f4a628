"""Race: connects to the first of a host's addresses that answers (Happy Eyeballs, RFC 8305 section 5).

An address that leads nowhere costs a quarter of a second, and not the whole patience for a connection. One
thread waits for all attempts. Libraries that do this need an event loop, whereas a fetch is a thread.
"""

import errno
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from toehold_client.worker.addresses import Address

from .cancellation import Cancellation, shut

ATTEMPT_DELAY_S = 0.25
"""How long an attempt has before the next one joins it (RFC 8305: Connection Attempt Delay)."""


class AttemptFailed(OSError):
    """The last attempt of a race has failed, at this address."""

    def __init__(self, problem: OSError, address: Address) -> None:
        super().__init__(*problem.args)
        self.address = address


def first_to_answer(
    addresses: Sequence[Address],
    port: int,
    *,
    attempt_s: float,
    patience_s: Callable[[float], float],
    cancellation: Cancellation,
    prepare: Callable[[socket.socket], None],
) -> tuple[socket.socket, Address]:
    """Connects to the first address that answers, and ends the other attempts. Returns the connection and its
    address.

    Attempts begin in the order of `addresses`, ATTEMPT_DELAY_S apart, or at once after a failure and when
    none is under way. Each may take `attempt_s`. `patience_s` says how much of a wait is left, or raises.
    `prepare` gets each socket before it connects. Raises Cancelled, and AttemptFailed when all have
    failed.
    """
    ahead = deque(addresses)
    race = _Race(port, attempt_s, prepare)
    next_s = 0.0  # when the next attempt may begin, on the monotonic clock
    try:
        while ahead or race.running:
            cancellation.check()
            failures = race.failures
            if ahead and (not race.running or time.monotonic() >= next_s):
                winner = race.begin(ahead.popleft())
                next_s = time.monotonic() + ATTEMPT_DELAY_S
            else:
                cancellation.watch(partial(_shut_all, [each.sock for each in race.running.values()]))
                wait_s = race.soonest_end_s(next_s if ahead else None) - time.monotonic()
                winner = race.wait(patience_s(max(0.0, wait_s)))
            if winner is not None:
                return winner.sock, winner.address
            if race.failures > failures:
                next_s = 0.0
        raise race.problem
    finally:
        cancellation.watch(None)
        race.close()


@dataclass(frozen=True, slots=True)
class _Attempt:
    address: Address
    sock: socket.socket
    end_s: float  # when it has taken too long, on the monotonic clock


class _Race:
    """The attempts under way. Their sockets have begun to connect: shutting any other socket would do
    nothing, and the cancellation would be lost."""

    def __init__(self, port: int, attempt_s: float, prepare: Callable[[socket.socket], None]) -> None:
        self._port = port
        self._attempt_s = attempt_s
        self._prepare = prepare
        self._answers = select.poll()
        self.running: dict[int, _Attempt] = {}  # by file descriptor
        self.failures = 0
        self.problem = OSError("no address")
        """The error of the last attempt that failed."""

    def begin(self, address: Address) -> _Attempt | None:
        """Begins an attempt. Returns it if it connects at once."""
        sock = None
        try:
            family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            self._prepare(sock)
            error = sock.connect_ex((str(address), self._port))
            if error not in (0, errno.EINPROGRESS):
                raise _described(error)
        except BaseException as problem:
            if sock is not None:
                sock.close()
            if not isinstance(problem, OSError):
                raise
            self._failed(address, problem)  # such as a system without IPv6
            return None
        attempt = _Attempt(address, sock, time.monotonic() + self._attempt_s)
        if not error:
            return attempt
        self.running[sock.fileno()] = attempt
        self._answers.register(sock, select.POLLOUT)
        return None

    def soonest_end_s(self, other_s: float | None) -> float:
        """When the first attempt will have taken too long, or `other_s` if that is sooner."""
        ends_s = [each.end_s for each in self.running.values()]
        return min(ends_s if other_s is None else [*ends_s, other_s])

    def wait(self, most_s: float) -> _Attempt | None:
        """Waits for an attempt to connect or fail. Returns one that is connected."""
        for descriptor, _ in self._answers.poll(most_s * 1000):
            attempt = self._take(descriptor)
            error = attempt.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not error:
                return attempt
            attempt.sock.close()
            self._failed(attempt.address, _described(error))
        now_s = time.monotonic()
        for descriptor in [each for each, attempt in self.running.items() if attempt.end_s <= now_s]:
            attempt = self._take(descriptor)
            attempt.sock.close()
            self._failed(attempt.address, _described(errno.ETIMEDOUT))
        return None

    def close(self) -> None:
        """Ends the attempts under way."""
        for attempt in self.running.values():
            attempt.sock.close()
        self.running.clear()

    def _take(self, descriptor: int) -> _Attempt:
        self._answers.unregister(descriptor)
        return self.running.pop(descriptor)

    def _failed(self, address: Address, problem: OSError) -> None:
        self.failures += 1
        self.problem = AttemptFailed(problem, address)


def _described(error: int) -> OSError:
    return OSError(error, os.strerror(error))


def _shut_all(socks: Sequence[socket.socket]) -> None:
    for sock in socks:
        shut(sock)
