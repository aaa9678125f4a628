"""Supervisor: several processes that are one node, with an interpreter lock each. It starts the processes,
replaces those that die, keeps the cookies of all, and ends all of them together.

To the frontier each process is a node of its own, `NAME/1` and so on. So the leases of a process that is
replaced go back at once.
"""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum, auto
from queue import Empty, SimpleQueue

import structlog

from toehold_base.process.restarts import Rests

from ..fetching.cookies import CookieJars
from ..process import NodeExitCode
from .worker import Worker

FIRST_REST_S = 0.5
LONGEST_REST_S = 60.0
"""A worker that died soon is started again after a rest between these two, which doubles each time."""

GOOD_LIFE_S = 60.0
"""A worker that lived for so long did not die soon."""

KEEPALIVE_S = 0.5
"""How often it looks whether each worker is attended to."""

log = structlog.get_logger()


class Supervisor:
    """Workers, one for each process. `run` it; `drain` and `orphaned` make it end."""

    def __init__(
        self,
        processes: int,
        toes: int,
        command: Callable[[int, int], Sequence[str]],
        hang_s: float,
        jars: CookieJars,
    ) -> None:
        """`command` makes the command line of a worker from its number and its number of toe threads. `toes`
        is the number of threads of all workers together. `jars` has the cookies of all workers."""
        self._shares = shares(toes, processes)
        self._events: SimpleQueue[_SupervisorEvent] = SimpleQueue()
        self._draining = threading.Event()
        self._codes: list[int] = []
        self._ready: set[int] = set()
        self._lock = threading.Lock()
        self._on_ready: Callable[[], None] = lambda: None
        self._on_draining: Callable[[], None] = lambda: None
        self._on_keepalive: Callable[[], None] = lambda: None
        self.workers = [
            Worker(number, _command_of(command, number, self._shares), hang_s, jars)
            for number in range(1, processes + 1)
        ]

    @property
    def draining(self) -> bool:
        """Whether it takes no more leases, for good."""
        return self._draining.is_set()

    def when_draining(self, act: Callable[[], None]) -> None:
        """Sets what to do when the node begins to end."""
        self._on_draining = act

    def on_keepalive(self, act: Callable[[], None]) -> None:
        """Sets what to do, again and again, as long as each worker is attended to."""
        self._on_keepalive = act

    def keep_shares(self, toes: int) -> list[int]:
        """Gives workers that start from now on their share of so many toe threads. Returns the shares."""
        self._shares[:] = shares(toes, len(self.workers))
        return list(self._shares)

    def drain(self) -> None:
        """Asks all workers to end in order. A second call makes them hurry."""
        self._events.put(_SupervisorEvent.ASKED)

    def orphaned(self) -> None:
        """Tells the node that its parent has died. It then ends soon."""
        self._events.put(_SupervisorEvent.ORPHANED)

    def pass_on(self, number: signal.Signals) -> None:
        """Sends a signal to each worker process that runs."""
        for worker in self.workers:
            worker.send(number)

    def run(self, on_ready: Callable[[], None]) -> int:
        """Starts the workers, and waits until they have ended. Returns the exit code of the node. Calls
        `on_ready` when all workers have begun to work."""
        self._on_ready = on_ready
        keepers = [
            threading.Thread(target=self._keep, args=(worker,), daemon=True) for worker in self.workers
        ]
        for keeper in keepers:
            keeper.start()
        ended = 0
        while ended < len(self.workers):
            try:
                event = self._events.get(timeout=KEEPALIVE_S)
            except Empty:
                if ended + sum(keeper.is_alive() for keeper in keepers) >= len(keepers):
                    self._on_keepalive()
                continue
            if event is _SupervisorEvent.ENDED:
                ended += 1
                continue
            self._draining.set()
            self._on_draining()
            for worker in self.workers:
                if event is _SupervisorEvent.ORPHANED:
                    worker.orphan()
                else:
                    worker.tell_to_end()
        return worst(self._codes)

    def _keep(self, worker: Worker) -> None:
        """Runs a worker, again and again, until it has ended for good."""
        rests = Rests(FIRST_REST_S, LONGEST_REST_S, GOOD_LIFE_S)
        code: int = NodeExitCode.DRAINED
        try:
            while not self._draining.is_set():
                started_s = time.monotonic()
                code = worker.live(lambda: self._note_ready(worker))
                if self._draining.is_set() or code in _FOR_GOOD:
                    break
                worker.restarts += 1
                log.error("worker_ended", worker=worker.number, code=code)
                self._draining.wait(rests.after(time.monotonic() - started_s))
        except OSError as error:  # it could not be started
            log.error("worker_not_started", worker=worker.number, error=str(error))
            code = NodeExitCode.UNREPORTED
        with self._lock:
            self._codes.append(code)
        if code in _TROUBLE:
            self._events.put(_SupervisorEvent.ASKED)  # the other workers have the same trouble
        self._events.put(_SupervisorEvent.ENDED)

    def _note_ready(self, worker: Worker) -> None:
        with self._lock:
            is_last = len(self._ready) < len(self.workers) == len(self._ready | {worker.number})
            self._ready.add(worker.number)
        if self._draining.is_set():  # it was starting while the others were told to end
            worker.tell_to_end()
        elif is_last:
            self._on_ready()


def shares(toes: int, processes: int) -> list[int]:
    """The number of toe threads of each process."""
    each, more = divmod(toes, processes)
    return [each + (number < more) for number in range(processes)]


def worst(codes: Sequence[int]) -> int:
    """The exit code of a node, from those of its workers."""
    bad_codes = [code for code in codes if code not in (NodeExitCode.DRAINED, NodeExitCode.WORN_OUT)]
    if not bad_codes:
        return NodeExitCode.DRAINED
    return bad_codes[0] if bad_codes[0] > 0 else NodeExitCode.UNREPORTED


class _SupervisorEvent(Enum):
    ASKED = auto()
    ORPHANED = auto()
    ENDED = auto()


_TROUBLE = frozenset({NodeExitCode.BAD_ARGUMENT, NodeExitCode.SUPERSEDED, NodeExitCode.OUTPUT_UNUSABLE})
_FOR_GOOD = frozenset({NodeExitCode.DRAINED, *_TROUBLE})


def _command_of(
    command: Callable[[int, int], Sequence[str]], number: int, toes: list[int]
) -> Callable[[], Sequence[str]]:
    return lambda: command(number, toes[number - 1])
