"""A supervisor says that it lives as long as each of its workers is attended to, and no longer."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from frontier_harness.waiting import PATIENCE_S, eventually

from crawler_node.control import supervisor as module
from crawler_node.control.supervisor import Supervisor
from crawler_node.fetching.cookies import CookieJars
from crawler_node.process import NodeExitCode


class FakeWorker:
    """A worker without a process, which lives until it is told to end, or whose keeper fails."""

    def __init__(self, number: int, *rest: Any) -> None:
        self.number = number
        self.restarts = 0
        self.failing = threading.Event()
        self._told = threading.Event()

    def live(self, ready: Callable[[], None]) -> int:
        ready()
        while not self._told.wait(0.001):
            if self.failing.is_set():
                raise ValueError("nobody attends to the worker any more")
        return NodeExitCode.DRAINED

    def tell_to_end(self) -> None:
        self._told.set()


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    monkeypatch.setattr(module, "Worker", FakeWorker)
    monkeypatch.setattr(module, "KEEPALIVE_S", 0.002)
    return Supervisor(2, 2, lambda number, share: (), 1.0, CookieJars())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_it_lives_as_long_as_each_worker_is_attended_to(supervisor: Supervisor) -> None:
    alive, ready = threading.Semaphore(0), threading.Event()
    supervisor.on_keepalive(alive.release)
    codes: list[int] = []
    running = threading.Thread(target=lambda: codes.append(supervisor.run(ready.set)))
    running.start()
    for _ in range(3):
        assert alive.acquire(timeout=PATIENCE_S)
    workers: list[Any] = supervisor.workers
    keepers = [each for each in threading.enumerate() if "_keep" in each.name]
    workers[0].failing.set()
    eventually(lambda: not all(each.is_alive() for each in keepers))
    eventually(lambda: not alive.acquire(timeout=0.1))
    assert ready.is_set()
    supervisor.drain()
    supervisor._events.put(module._SupervisorEvent.ENDED)  # in place of the keeper that failed
    running.join(PATIENCE_S)
    assert codes == [NodeExitCode.DRAINED]
