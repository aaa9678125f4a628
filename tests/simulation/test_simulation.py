"""Simulated crawls, from fixed seeds; and that what is wrong with a server shows in them."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from core_doubles.small_shares import small_shares
from frontier_harness.soaking import Soak
from property.mutations import ROOT, Mutation, core_module, is_noticed
from simulation import server
from simulation.campaign import Result, fault_of, play, told
from simulation.history import History
from simulation.mutants import MUTANTS, found
from simulation.plan import Plan, drawn
from simulation.shrink import smaller
from simulation.transcript import transcript

FIRST, HISTORIES = 1, 500  # some 800 crawls, in about fifteen seconds of one core
SOAKED_CRAWLS = 100_000
SHARES = 4  # which processes may play at the same time
BATCH = 100


def transcript_of(plan: Plan) -> str:
    """What happens in a plan."""
    with small_shares():
        return transcript(plan)


def well(result: Result) -> None:
    """Fail with the transcript of what went wrong."""
    if result.failure is not None:
        pytest.fail(told(result.failure), pytrace=False)


@pytest.mark.timeout(3600)
def test_nothing_acknowledged_is_lost_and_every_crawl_ends_in_simulated_histories() -> None:
    result = play(range(FIRST, FIRST + HISTORIES))
    well(result)
    assert result.statistics.crawls >= 750
    assert result.statistics.checked["lapses"] and result.statistics.faults > HISTORIES


@pytest.mark.soak("simulation")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_a_hundred_thousand_simulated_crawls(soak: Soak, share: int) -> None:
    """Each share from a seed of its own."""
    crawls, seed = 0, (soak.seed << 8) + (share << 40)
    while crawls < soak.cycles(SOAKED_CRAWLS) / SHARES:
        result = play(range(seed, seed + BATCH))
        statistics = result.statistics
        soak.count(
            faults=statistics.faults,
            checked=sum(statistics.checked.values()),
            violated=result.failure is not None,
        )
        well(result)
        crawls, seed = crawls + statistics.crawls, seed + BATCH


SOME_SEEDS = (7, 11, 19)


def test_a_seed_is_played_the_same_again_in_every_process() -> None:
    """So that one that fails can be looked at."""
    script = (
        "import sys; from simulation.plan import drawn; from simulation.transcript import transcript;"
        "from core_doubles.small_shares import small_shares\n"
        "with small_shares(): print(*(transcript(drawn(int(seed))) for seed in sys.argv[1:]), sep='\\n')"
    )
    said = [
        subprocess.run(
            (sys.executable, "-c", script, *map(str, SOME_SEEDS)),
            env={"PYTHONHASHSEED": chance, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for chance in ("1", "2")
    ]
    assert said[0] == said[1]
    assert said[0].count("\nat ") > 100


# Defects of the server's shell, which the simulation has one of its own of.


def hasty(self: server.Server, reply: Callable[[Any], None], answer: Any) -> None:
    """Answers leave before the flush."""
    self.acknowledged = self.written
    self.want_flush()
    reply(answer)


def covering(self: server.Server, life: int, mark: int) -> None:
    """A flush is taken to cover what was written while it ran."""
    if life == self.life and self.up and not self.stopped:
        covered = sum(bool(entry.changes) for entry in self.entries[: mark - self.durable])
        self.store.flushed(covered)
        self.flushing = False
        for wanted, reply, answer in self.answers:
            self.acknowledged = max(self.acknowledged, wanted)
            reply(answer)
        entries, self.entries = self.entries, self.entries[mark - self.durable :]
        for entry in entries[: mark - self.durable]:
            self.ledger.take(entry)
        self.answers, self.durable = [], max(self.durable, mark)


@pytest.mark.parametrize(("method", "defect"), [("answer", hasty), ("_flushed", covering)])
def test_answers_that_leave_before_the_flush_that_covers_them_are_noticed(
    method: str, defect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.Server, method, defect)
    failure = play(range(1, 300)).failure
    assert failure is not None and "was answered, and is lost" in failure.said


def test_a_failing_history_is_made_smaller_and_told_as_a_transcript(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.Server, "answer", hasty)
    failure = play(range(130, 300)).failure  # soon one that takes a second to make smaller, not ten
    assert failure is not None
    plan, said = smaller(failure.plan, failure.said, fault_of)
    assert "is lost" in said
    assert len(transcript_of(plan)) < len(transcript_of(failure.plan))
    assert fault_of(plan) == said, "it is played the same again"
    lines = transcript_of(plan).splitlines()
    assert lines[-1].startswith("# Violated: ") and any(line.startswith("at ") for line in lines)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.rule)
def test_each_defect_has_its_place_in_the_core(mutant: Mutation) -> None:
    assert core_module(ROOT, mutant).read_text().count(mutant.source) == 1


AT_ONCE = ("A lease is stored", "Counters are in", "The session that", "Overrides are stored")


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            one, marks=() if one.rule.startswith(AT_ONCE) else pytest.mark.soak("mutants"), id=one.rule
        )
        for one in MUTANTS
    ],
)
@pytest.mark.timeout(0)
def test_each_defect_is_found_within_some_histories(mutant: Mutation, soak: Soak) -> None:
    """Some of them with every change, all of them in the soak."""
    said, _ = found(mutant)
    soak.count(faults=1, violated=not is_noticed(mutant, said))
    assert is_noticed(mutant, said), said


def test_a_history_without_faults_and_wishes_is_a_crawl_of_the_whole_web() -> None:
    plan = next(plan for seed in range(1, 100) if len((plan := drawn(seed)).sites) == 3)
    quiet = replace(plan, wishes=(), faults=(), crawls=plan.crawls[:1])
    with small_shares():
        history = History(quiet)
        history.play()
    (book,) = history.ledger.books.values()
    assert book.finished and book.done and not book.waiting
