"""The frontier's shell, simulated: operations, flushes, answers behind them, timer, jobs, deaths.

It does what `runner` and `exchange` in `frontier_server.shell` do, in the same order: an operation's changes
are written at once, one flush covers what was written before it began, and an answer leaves once a flush has
covered all that it could have read.
"""

import copy
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from core_doubles.codec import PlainCodec, settings_of
from core_doubles.memory_store import MemoryStore
from core_doubles.placing import SUFFIXES
from core_doubles.shell import SECRET, VERSION
from simulation.calls import Call
from simulation.entry import Entry, Reply, Violated, Waiter, demand
from simulation.ledger import Ledger
from simulation.logs import Logs
from simulation.loop import Loop
from simulation.recovery import Recovered
from simulation.store import CrashStore

from frontier_server.core.core import Core
from frontier_server.core.opening import opening
from frontier_server.core.opening.shard import Shard
from frontier_server.core.rows.errors import FrontierError, UnknownCheckpoint
from frontier_server.core.rows.store import Store
from frontier_server.core.state.model import EmptyReason, NextAnswer
from frontier_server.shell.absence import Absence

PATIENCE_MS = 30_000  # of a Next that waits for leases
LOG_MS = 40  # until outcomes are in the crawl log for good
SLICE_MS = 3


class Server:
    """A frontier that can die at any moment, and come back."""

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        ledger: Ledger,
        period_ms: int,
        flush_ms: int,
        told: Callable[[Entry], None],
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.ledger = ledger
        self.period_ms = period_ms
        self.tolerated_ms = period_ms // 3
        self.flush_ms = flush_ms
        self.told = told
        self.store = CrashStore()
        self.store.write(opening.new_store(SECRET, loop.now_ms, SUFFIXES))
        self.store.flushed(1)
        self.checkpoints: dict[str, MemoryStore] = {}
        self.logs = Logs()
        self.life = 0  # of this process; timers and answers of earlier ones are void
        self.up = False
        self.operations = 0
        self.stopped = False  # by a signal: it will go on
        self.held_up: list[tuple[Call, Reply]] = []  # what came meanwhile
        self.awaited: list[Callable[[], None]] = []
        self.put_back_once = False  # an older copy of its store was: logs tell of more
        self.strict = False  # nothing disturbs it any more: nothing may be slept through
        self._present_ms = 0
        self._since_ms = loop.now_ms
        self.start()

    # Life and death.

    def build(self) -> Core:
        """A frontier from what is stored. The bits that tell a start from others are few here."""
        shard = Shard(
            self.store,
            PlainCodec(),
            settings_of,
            VERSION,
            self.period_ms,
            self.loop.now_ms,
            self.rng.randrange(2),
            self.checkpoint_of,
        )
        return Core(shard)

    @property
    def now_ms(self) -> int:
        """The time, for what takes this as a shell."""
        return self.loop.now_ms

    def checkpoint_of(self, name: str) -> Store:
        """A checkpoint."""
        if name not in self.checkpoints:
            raise UnknownCheckpoint(f"there is no checkpoint {name!r}")
        return self.checkpoints[name]

    def start(self) -> None:
        """The process begins."""
        self.life += 1
        self.core = self.build()
        self.up, self.stopped = True, False
        self.entries: list[Entry] = []  # whose flush is to come
        self.answers: list[tuple[int, Reply, Any]] = []  # that wait for it, and for which entry
        self.written = self.durable = self.acknowledged = 0
        self.flushing = self.working = self.logging = False
        self.waiters: list[Waiter] = []
        self.timer_ms: int | None = None
        self._since_ms = self.loop.now_ms
        self.ledger.started_ms = self.present_ms
        self.absence = Absence(self.tolerated_ms, self.loop.now_ms)
        for callback in self.awaited:
            self.loop.after(self.rng.randint(1, 2_000), callback)
        self.awaited = []
        self.after_operation(True)

    def when_up(self, callback: Callable[[], None]) -> None:
        """Call somebody who tries until the process is there."""
        if self.up:
            callback()
        else:
            self.awaited.append(callback)

    @property
    def present_ms(self) -> int:
        """How long it could answer so far, all in all."""
        up = self.up and not self.stopped
        return self._present_ms + (self.loop.now_ms - self._since_ms if up else 0)

    def crash(self, down_ms: int, thorough: bool = False) -> None:
        """It dies: writes since the last flush are lost, or only the last ones; answers never leave."""
        if not self.up:
            return
        kept = self.rng.choice((0, self.store.unflushed, self.rng.randint(0, self.store.unflushed)))
        self._go()
        self.store.crash(kept)
        survived, mark = 0, self.durable
        for entry in self.entries:
            mark += 1
            survived += bool(entry.changes)
            if survived > kept:
                demand(mark > self.acknowledged, f"{entry.call.kind} was answered, and is lost")
                break
            if entry.changes:
                self.ledger.take(entry)
        self._recover(thorough)
        self.loop.after(down_ms, self._again, self.life)

    def _go(self) -> None:
        self._present_ms = self.present_ms
        self.up = False
        self.held_up.clear()

    def restart(self, down_ms: int) -> None:
        """It ends in order: what was written is flushed, and answered. Memory was what is stored."""
        if not self.up or self.stopped:
            return
        self.flush()
        while self.entries:  # an answer that nobody awaited has led to more
            self.flush()
        self._go()
        self._recover(False)
        self.loop.after(down_ms, self._again, self.life)

    def _again(self, life: int) -> None:
        if self.life == life and not self.up:
            self.start()
            ahead = self.logs.cut(self.core, self.put_back_once)
            self.put_back_once = False
            if ahead:
                self.run(Call("lost", "", (dict.fromkeys(ahead, "its log tells of more"),)))

    def _recover(self, thorough: bool) -> None:
        Recovered(self.store, self.build()).check(self.ledger, self.loop.now_ms, thorough)

    def checkpoint(self, name: str) -> bool:
        """Keep everything that is durable, as it is now, and what was acknowledged by then."""
        if not self.up or self.stopped:
            return False
        self.flush()
        if self.store.unflushed:  # answers that left have led to more
            return False
        self.checkpoints[name] = self.store.copy()
        ledger = copy.copy(self.ledger)
        ledger.copies = {}
        self.ledger.copies[name] = copy.deepcopy(ledger)
        return True

    def put_back(self, store: CrashStore, ledger: Ledger) -> None:
        """While it is down an older copy of its store is put in its place."""
        self.store, self.ledger = store, ledger
        self.put_back_once = True

    def stop(self, length_ms: int) -> None:
        """It is stopped by a signal, or its disk hangs, for a while."""
        if self.up and not self.stopped:
            self.absence.answered(self.loop.now_ms)
            self._present_ms = self.present_ms
            self.stopped = True
            self.loop.after(length_ms, self._go_on, self.life, length_ms)

    def _go_on(self, life: int, length_ms: int) -> None:
        """It wakes up: what came meanwhile and what fell due come in any order."""
        if life != self.life or not self.up:
            return
        self._present_ms += min(length_ms, self.tolerated_ms)  # for which nodes are not excused
        self.stopped, self._since_ms = False, self.loop.now_ms
        came: list[Callable[[], None]] = [partial(self._fell_due, self.life, None)]
        for call, reply in self.held_up:
            came.append(partial(self.handle, call, reply))
        self.held_up = []
        overdue = [waiter for waiter in self.waiters if waiter.end_ms <= self.loop.now_ms]
        for waiter in overdue:
            came.append(partial(self._patience, life, waiter))
        self.rng.shuffle(came)
        for each in came:
            each()
        self._excuse()
        self.absence.answered(self.loop.now_ms)
        if self.flushing:
            self._flushed(self.life, self.written)

    # Requests.

    def receive(self, call: Call, reply: Reply) -> None:
        """A request has arrived."""
        if self.stopped:
            self.held_up.append((call, reply))
        elif self.up:
            self.handle(call, reply)

    def handle(self, call: Call, reply: Reply) -> None:
        """Do what is asked; the answer leaves when it is durable."""
        if not self.up:
            return
        if call.kind == "next":
            self._ask(Waiter(call, reply, self.loop.now_ms + PATIENCE_MS, None, self.loop.now_ms))
        else:
            self.answer(reply, self.run(call))

    def run(self, call: Call) -> Any:
        """Run an operation and write its changes; its answer, or what refused it."""
        self.operations += 1
        now_ms = self.loop.now_ms
        answer: Any
        try:
            answer, changes = call.run(self.core, now_ms)
        except FrontierError as refusal:
            answer, changes = refusal, {}
        entry = Entry(now_ms, self.present_ms, call, answer, changes)
        self.entries.append(entry)
        self.written += 1
        if changes:
            self.store.write(changes)
        self.told(entry)
        self.after_operation(bool(changes))
        return answer

    def _ask(self, waiter: Waiter, slept: bool = False) -> None:
        """Ask for leases; one that has `slept` to the end of its patience was not told of any."""
        timed_out = waiter.end_ms <= self.loop.now_ms
        at_rest = self.strict and (self.timer_ms is None or self.timer_ms > self.loop.now_ms)
        while True:
            answer = self.run(waiter.call)
            if not (isinstance(answer, NextAnswer) and answer.again and not answer.grants):
                break
        waits = isinstance(answer, NextAnswer) and not answer.grants
        if waits:
            waiter.first = waiter.first or answer.empty_reason
            done = timed_out or answer.empty_reason in (EmptyReason.FINISHED,)
            if not done and answer.empty_reason is waiter.first:
                self.waiters.append(waiter)
                self.loop.at(waiter.end_ms, self._patience, self.life, waiter)
                return
        elif slept and at_rest and waiter.begin_ms < self.loop.now_ms and isinstance(answer, NextAnswer):
            raise Violated(f"nobody was told that there was {answer.grants[0].uri}")
        self.answer(waiter.reply, answer)

    def _patience(self, life: int, waiter: Waiter) -> None:
        if life == self.life and self.up and not self.stopped and waiter in self.waiters:
            self.waiters.remove(waiter)
            self._ask(waiter, slept=True)

    def answer(self, reply: Reply, answer: Any) -> None:
        """Let an answer leave, once what it could have read is durable."""
        self.answers.append((self.written, reply, answer))
        self.want_flush()

    # What follows from operations.

    def want_flush(self) -> None:
        """Begin a flush, unless one runs."""
        if not self.flushing and self.up:
            self.flushing = True
            slow = 200 if self.rng.random() < 0.01 else 1
            self.loop.after(self.flush_ms * slow, self._flushed, self.life, self.written)

    def _flushed(self, life: int, mark: int) -> None:
        if life != self.life or not self.up or self.stopped:
            return
        self.flushing = False
        covered, self.entries = self.entries[: mark - self.durable], self.entries[mark - self.durable :]
        self.store.flushed(sum(bool(entry.changes) for entry in covered))
        self.durable = max(self.durable, mark)
        for entry in covered:
            self.ledger.take(entry)
        ready = [each for each in self.answers if each[0] <= mark]
        self.answers = [each for each in self.answers if each[0] > mark]
        for wanted, reply, answer in ready:
            self.acknowledged = max(self.acknowledged, wanted)
            reply(answer)
        if self.answers:
            self.want_flush()
        if not self.logging and self.core.upkeep.log_positions():
            self.logging = True
            self.loop.after(LOG_MS, self._write_log, self.life)

    def flush(self) -> None:
        """Make everything durable now."""
        self.flushing = True
        self._flushed(self.life, self.written)

    def _write_log(self, life: int) -> None:
        """The writer of crawl logs: what is durable is written and synced, then that is noted."""
        if life != self.life or not self.up:
            return
        if self.stopped:
            self.loop.after(LOG_MS, self._write_log, life)
            return
        self.logging = False
        for number, last in self.logs.write(self.core, self.ledger):
            self.run(Call("logged", "", (number, last, 100 * last)))
        if self.core.upkeep.log_positions():
            self.want_flush()

    def after_operation(self, changed: bool) -> None:
        """Whom it concerns: those who wait, the worker, the timer."""
        if changed:
            told = bool(self.core.upkeep.take_news())
            if self.core.upkeep.has_work and not self.working:
                self.working = True
                self.loop.after(SLICE_MS, self._work, self.life)
            if self.waiters and (told or self.core.frontier.leasable()):
                self._wake()
            if self.store.unflushed > 40 or told:
                self.want_flush()
        self._arm()

    def _wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            self.loop.after(0, self._woken, self.life, waiter)

    def _woken(self, life: int, waiter: Waiter) -> None:
        if life != self.life or not self.up:
            return
        if self.stopped:
            self.held_up.append((waiter.call, waiter.reply))
        else:
            self._ask(waiter)

    def _work(self, life: int) -> None:
        if life != self.life or not self.up:
            return
        if self.stopped:
            self.loop.after(1_000, self._work, life)
            return
        self.working = False
        if self.core.upkeep.has_work:
            self.working = True
            self.run(Call("work"))
            self.loop.after(SLICE_MS, self._work, life)

    def _arm(self) -> None:
        due_ms = self.core.upkeep.next_due_ms()
        if due_ms is None or (self.timer_ms is not None and self.timer_ms <= due_ms):
            return
        self.timer_ms = due_ms
        self.loop.at(due_ms, self._fell_due, self.life, due_ms)

    def _fell_due(self, life: int, due_ms: int | None) -> None:
        if (
            life != self.life
            or not self.up
            or self.stopped
            or (due_ms is not None and due_ms != self.timer_ms)
        ):
            return
        self.timer_ms = None
        if due_ms is None:
            self._excuse()
        else:
            self.absence.answered(self.loop.now_ms)  # it was there all the time
        self.run(Call("tick"))
        if self.waiters and self.core.frontier.leasable():
            self._wake()

    def _excuse(self) -> None:
        if more_ms := self.absence.more_ms(self.loop.now_ms):
            self.core.upkeep.excuse(more_ms, self.loop.now_ms)
