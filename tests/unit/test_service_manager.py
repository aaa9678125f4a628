"""Messages of a program to the service manager that started it."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from toehold_base.process.service_manager import MAX_STATUS_CHARACTERS, ServiceManager

MINUTE = "60000000"


class Listening:
    """A service manager's socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)

    def heard(self) -> list[str]:
        """The messages since the last time."""
        messages = []
        while True:
            try:
                messages.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return messages

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def listening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listening]:
    is_path = request.param == "path"
    listening = Listening(str(tmp_path / "notify") if is_path else f"@toehold-test-{os.getpid()}")
    yield listening
    listening.close()


def test_a_manager_hears_when_the_program_is_ready_and_when_it_ends(listening: Listening) -> None:
    manager = ServiceManager(listening.address)
    manager.status("Opening it")
    manager.ready("Serving\non a:1")
    manager.stopping("Stopping")
    assert bool(manager)
    assert listening.heard() == [
        "STATUS=Opening it",
        "READY=1\nSTATUS=Serving on a:1",
        "STOPPING=1\nSTATUS=Stopping",
    ]


def test_a_status_is_short(listening: Listening) -> None:
    ServiceManager(listening.address).status("x" * 5_000)
    assert listening.heard() == [f"STATUS={'x' * MAX_STATUS_CHARACTERS}"]


def test_a_watchdog_hears_three_times_while_it_waits_and_not_more_often(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr("toehold_base.process.service_manager.time.monotonic", lambda: now_s)
    manager = ServiceManager(listening.address, watchdog_s=30.0)
    heard = []
    for now_s in (100.0, 100.1, 105.0, 109.9, 110.0, 119.9, 120.1):
        manager.alive()
        heard.append((now_s, listening.heard()))
    assert [at_s for at_s, messages in heard if messages == ["WATCHDOG=1"]] == [100.0, 110.0, 120.1]


def test_no_watchdog_hears_anything_if_none_was_asked_for(listening: Listening) -> None:
    ServiceManager(listening.address).alive()
    assert listening.heard() == []


def test_the_environment_names_the_manager_and_children_do_not_get_it() -> None:
    environment = {
        "NOTIFY_SOCKET": "/run/x",
        "WATCHDOG_USEC": MINUTE,
        "WATCHDOG_PID": str(os.getpid()),
        "A": "b",
    }
    manager = ServiceManager.of_process(environment)
    assert (bool(manager), manager.beat_s) == (True, 20.0)
    assert environment == {"A": "b"}


@pytest.mark.parametrize(
    "environment",
    [
        {"WATCHDOG_USEC": MINUTE},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": MINUTE, "WATCHDOG_PID": "1"},  # another process's
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": ""},
    ],
)
def test_a_watchdog_that_does_not_wait_for_this_process_is_not_fed(environment: dict[str, str]) -> None:
    assert ServiceManager.of_process(environment).beat_s == 0


@pytest.mark.parametrize("address", ["", "/nonexistent/socket", "@nobody-listens-here", "x" * 500])
def test_without_a_manager_that_listens_the_program_goes_on(address: str) -> None:
    manager = ServiceManager(address, watchdog_s=1.0)
    manager.ready("Serving")
    manager.alive()
    manager.stopping("Stopping")
