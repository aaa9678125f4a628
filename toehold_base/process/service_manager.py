"""Tells the service manager that started a program how it fares, as sd_notify(3) of systemd describes."""

import os
import socket
import threading
import time
from collections.abc import MutableMapping
from contextlib import suppress

from toehold_base.process.environment import OF_SERVICE_MANAGER

MAX_STATUS_CHARACTERS = 200


class ServiceManager:
    """The manager to tell; without one, calls do nothing. May be used by any thread."""

    def __init__(self, address: str = "", watchdog_s: float = 0.0) -> None:
        """`address` is that of a datagram socket; one that begins with @ is abstract. If the program says for
        `watchdog_s` that it is not alive, the manager ends it; 0: never."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._beat_s = watchdog_s / 3
        self._lock = threading.Lock()
        self._beaten_s: float | None = None

    @classmethod
    def of_process(cls, environment: MutableMapping[str, str] = os.environ) -> "ServiceManager":
        """The one that started this process. It leaves the environment, so that no child speaks to it."""
        address, microseconds, process = (environment.pop(name, "") for name in OF_SERVICE_MANAGER)
        is_mine = not process or process == str(os.getpid())
        watched = address and is_mine and microseconds.isascii() and microseconds.isdigit()
        return cls(address, int(microseconds) / 1e6 if watched else 0.0)

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._address)

    @property
    def beat_s(self) -> float:
        """How often it is told that the program is alive, at most: three times while it waits. 0: never."""
        return self._beat_s

    def ready(self, status: str) -> None:
        """The program serves."""
        self._tell("READY=1", _status(status))

    def stopping(self, status: str) -> None:
        """The program ends."""
        self._tell("STOPPING=1", _status(status))

    def status(self, text: str) -> None:
        """A line for people: what the program does at present."""
        self._tell(_status(text))

    def alive(self) -> None:
        """The program works. May be called more often than `beat_s`."""
        if not self._beat_s:
            return
        with self._lock:
            now_s = time.monotonic()
            if self._beaten_s is not None and now_s < self._beaten_s + self._beat_s:
                return
            self._beaten_s = now_s
        self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # A manager that is gone, or busy for now, costs a message and never the program's work.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto("\n".join(lines).encode(), self._address)


def _status(text: str) -> str:
    return f"STATUS={' '.join(text.split())[:MAX_STATUS_CHARACTERS]}"
