"""Owners of one log, in any order of their requests, while requests fail in every way: nothing that was
acknowledged is lost.

Each owner is a thread, and waits before each of its requests until it is its turn. Whose turn it is, and what
happens to the request, is chance from a seed. So an owner may stand still anywhere, while others go on.
"""

import json
import random
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from frontier_harness.buckets import Fault, FaultyBucket, MemoryBucket, random_faults
from frontier_harness.soaking import Soak
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.replicated import object_log
from frontier_server.replicated.log import Fenced, Kind, Log
from frontier_server.replicated.object_log import LIST_LAG_S, ObjectLog

OWNERS, LIVES, DEEDS, TURNS = 3, 3, 12, 400
FAILURES, CHANGES = 0.15, 0.15  # how many requests fail, and after how many it is another one's turn
HISTORIES, SOAKED_HISTORIES = 100, 20_000


class Turn:
    """Lets a thread go on from one request to the next."""

    def __init__(self, life: Callable[[], None]) -> None:
        self.is_over = False
        self.problem: BaseException | None = None
        self._goes, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(life,))
        self._thread.start()

    def stand(self) -> None:
        """Wait for the next turn; called before each request."""
        self._stands.release()
        self._goes.acquire()

    def take(self) -> None:
        """Let it make one request, and what follows until the next one."""
        self._goes.release()
        self._stands.acquire()
        if self.is_over:
            self._thread.join()

    def _run(self, life: Callable[[], None]) -> None:
        self._goes.acquire()
        try:
            life()
        except BaseException as problem:
            self.problem = problem
        self.is_over = True
        self._stands.release()


class History:
    """Some owners, the store that they share, and what they were told."""

    def __init__(self, seed: int) -> None:
        self.now_s = 0.0
        self.acknowledged: dict[int, str] = {}
        self.read: list[list[str]] = []
        self.faults = 0
        self.choices = random.Random(seed)
        self.memory = MemoryBucket(lambda: self.now_s)
        self.seen = [FaultyBucket(self.memory) for _ in range(OWNERS)]
        self.are_failing = True
        self.turns: list[Turn] = []

    def play(self) -> list[str]:
        """Let them live, then all end their lives with a network that is good; what the next owner reads."""
        for who, sees in enumerate(self.seen):
            sees.chance = self._chance(who, random_faults(self.choices, FAILURES))
            self.turns.append(Turn(lambda who=who: self._live(who)))  # type: ignore[misc]  # bound by its default
        turns, turn = 0, self.turns[0]
        while left := [turn for turn in self.turns if not turn.is_over]:
            self.are_failing = turns < TURNS
            turns += 1
            self._change()
            if turn not in left or self.choices.random() < CHANGES:
                turn = self.choices.choice(left)
            turn.take()
        for turn in self.turns:
            if turn.problem is not None:
                raise turn.problem
        self.memory.lag_s = 0.0
        log = self._log(self.memory)
        log.open()
        return self._store(log)

    def _chance(self, who: int, chance: Callable[[str], Fault]) -> Callable[[str], Fault]:
        def stood(method: str) -> Fault:
            self.turns[who].stand()
            fault = chance(method) if self.are_failing else Fault.NONE
            self.faults += fault is not Fault.NONE
            return fault

        return stood

    def _change(self) -> None:
        """What nobody does: time passes, lists lag, requests arrive."""
        choose = self.choices
        self.memory.lag_s = choose.choice((0.0, 1.0, LIST_LAG_S))
        if choose.random() < 0.2:
            self.now_s += choose.choice((0.5, 5.0, LIST_LAG_S))
        if choose.random() < 0.1:
            choose.choice(self.seen).release()

    def _log(self, sees: Any) -> ObjectLog:
        return ObjectLog(sees, "shard-1", "cluster-1", "1.0", lambda: self.now_s, lambda rest_s: None)

    def _live(self, who: int) -> None:
        for life in range(LIVES):
            log = self._log(self.seen[who])
            try:
                self._own(log, f"{who}.{life}")
            except Fenced:
                continue

    def _own(self, log: ObjectLog, name: str) -> None:
        before = list(self.acknowledged)
        log.open()
        assert all(number < log.epoch for number in before), "the fence lies behind"
        store = self._store(log)
        missing = [
            text for number, text in self.acknowledged.items() if number < log.epoch and text not in store
        ]
        assert missing == [], f"owner {log.epoch} has not read them"
        self.read.append(list(store))
        beyond, replay_from = list[int](), 0  # the records that go beyond its last copy, and the first one
        for deed in range(DEEDS):
            match self.choices.choice("AAAAMT"):
                case "A":
                    text = f"{name}.{deed}"
                    beyond.append(log.append(json.dumps(text).encode()))
                    self.acknowledged[beyond[-1]] = text
                    store.append(text)
                case "M":  # when it is told of, the copy is already some records old
                    copied = max(len(beyond) - self.choices.randrange(3), 0)
                    told = json.dumps([beyond[copied:], store[: len(store) - len(beyond[copied:])]])
                    number = log.set_checkpoint(told.encode())
                    beyond = beyond[copied:]
                    replay_from = beyond[0] if beyond else number
                case _:
                    log.truncate(replay_from)

    @staticmethod
    def _store(log: Log) -> list[str]:
        """What a store is rebuilt from."""
        manifest = log.checkpoint()
        if manifest is None:
            first, store = 1, list[str]()
        else:
            beyond, store = json.loads(manifest.payload)
            first = beyond[0] if beyond else manifest.number
        changes = [record.payload for record in log.read(first) if record.kind is Kind.CHANGES]
        return [*store, *map(json.loads, changes)]


def played(seed: int) -> History:
    """A history in which nothing was lost."""
    history = History(seed)
    with patch.object(object_log, "READERS", 1):  # one request at a time
        found = history.play()
    acknowledged = [history.acknowledged[number] for number in sorted(history.acknowledged)]
    assert [text for text in found if text in set(acknowledged)] == acknowledged
    for read in history.read:
        assert found[: len(read)] == read, "an owner has read what no later one has"
    return history


@given(st.integers(0, 1 << 32))
def test_every_owner_reads_what_was_acknowledged_before_it_in_order(seed: int) -> None:
    played(seed)


def test_the_same_histories_have_take_overs_and_deletions_each_time() -> None:
    """So that the test above tests something."""
    histories = [played(seed) for seed in range(HISTORIES)]
    assert sum(len(history.read) for history in histories) > 5 * HISTORIES
    assert sum(len(history.acknowledged) for history in histories) > 30 * HISTORIES
    assert sum(history.memory.deleted for history in histories) > 8 * HISTORIES
    assert sum(history.faults for history in histories) > 20 * HISTORIES


@pytest.mark.soak("interleavings")
@pytest.mark.timeout(0)
def test_owners_lose_nothing_in_thousands_of_histories(soak: Soak) -> None:
    for seed in range(soak.seed, soak.seed + soak.cycles(SOAKED_HISTORIES)):
        history = played(seed)
        soak.count(faults=history.faults, checked=len(history.acknowledged))
