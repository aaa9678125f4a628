"""The toe pool: its size, its numbers, and threads that die. Threads are real; what they fetch is not."""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType

import pytest
from frontier_harness.waiting import eventually
from node_doubles.leases import POLICY, lease
from node_doubles.stages import FakeFetcher, lines, page, stages

from crawler_node.extraction.links import FoundLinks
from crawler_node.leases.book import LeaseBook
from crawler_node.leases.report import FinishedPage
from crawler_node.output.visit import Stored
from crawler_node.toes.chain import Step, ToeChain
from crawler_node.toes.pool import EXTRACT_S, GRACE_S, ToePool
from crawler_node.toes.toe import ToeThread
from toehold.frontier.v1.frontier_pb2 import PoolStatistics


class Rig:
    """A pool over a book, with a fetcher that can be held."""

    def __init__(self) -> None:
        self.book = LeaseBook(lambda: self.now_s)
        self.fetcher = FakeFetcher()
        self.pages: list[FinishedPage] = []
        self.left_behind: list[tuple[str, int]] = []
        self.now_s = 0.0
        self.outlinks: Callable[..., FoundLinks] = lines
        chain = ToeChain(replace(stages(self.fetcher, self), outlinks=lambda *args: self.outlinks(*args)))
        self.pool = ToePool(
            lambda serial: ToeThread(serial, self.book, chain, self),
            self.book.resize,
            lambda held, serial: self.left_behind.append((held.lease.uri, serial)),
            lambda: self.now_s,
        )

    archives = False

    def append(self, visit: object) -> Stored:
        return Stored(0)

    def put(self, page: FinishedPage) -> None:
        self.pages.append(page)

    def add(self, *uris: str) -> None:
        assert self.book.add([(lease(uri), POLICY) for uri in uris]) == []

    def serials(self) -> list[int]:
        """The numbers of the threads that work on."""
        return [report.serial for report, _ in self.pool.reports() if not report.retired]

    def busy(self, count: int) -> bool:
        return self.pool.steps()[Step.FETCHING] == count


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.fetcher.answer = page
    rig.fetcher.let_go()
    rig.pool.set_size(0)
    rig.pool.join()


def test_a_new_pool_has_no_threads(rig: Rig) -> None:
    """S4.2: until it is given a size."""
    assert rig.serials() == [] and rig.pool.steps() == {}


def test_growing_starts_as_many_as_are_missing(rig: Rig) -> None:
    """S4.3: from two to five by three."""
    rig.pool.set_size(2)
    rig.pool.set_size(5)
    assert rig.serials() == [1, 2, 3, 4, 5]
    eventually(lambda: rig.pool.steps() == {Step.ABOUT_TO_GET_URI: 5})


def test_shrinking_spares_the_oldest(rig: Rig) -> None:
    """S4.4: the first threads stay, and the others retire."""
    rig.pool.set_size(5)
    rig.pool.set_size(2)
    assert rig.serials() == [1, 2]


def test_numbers_are_never_used_again(rig: Rig) -> None:
    """S4.7: each thread has the next one. S4.5: however often the size is set."""
    rig.pool.set_size(3)
    rig.pool.set_size(1)
    rig.pool.set_size(3)
    assert rig.serials() == [1, 4, 5]


def test_a_thread_that_waits_retires_at_once(rig: Rig) -> None:
    """D25: without another URI; S4.10: quietly."""
    rig.pool.set_size(3)
    rig.pool.set_size(0)
    rig.pool.join()
    assert rig.pool.steps() == {}


def test_a_thread_at_work_retires_after_its_uri(rig: Rig) -> None:
    """S4.14: it takes no other."""
    rig.fetcher.hold()
    rig.pool.set_size(1)
    rig.add("a", "b")
    eventually(lambda: rig.busy(1))
    rig.pool.set_size(0)
    assert rig.busy(1)
    rig.fetcher.let_go()
    rig.pool.join()
    assert [page.held.lease.uri for page in rig.pages] == ["a"]


def test_growing_again_does_not_count_on_those_that_retire(rig: Rig) -> None:
    rig.fetcher.hold()
    rig.pool.set_size(2)
    rig.add("a", "b")
    eventually(lambda: rig.busy(2))
    rig.pool.set_size(0)
    rig.pool.set_size(2)
    assert rig.serials() == [3, 4]


def test_a_closed_pool_stays_empty(rig: Rig) -> None:
    rig.pool.set_size(2)
    rig.pool.close()
    rig.pool.set_size(3)
    rig.pool.watch()
    rig.pool.join()
    assert rig.serials() == [] and rig.pool.size == 0


def test_a_dead_thread_is_replaced_and_its_lease_handed_back(rig: Rig) -> None:
    """D12, S4.13: another takes its place, and what it was at goes back with -7000."""

    def die(uri: str) -> object:
        raise SystemExit

    rig.fetcher.answer = die  # type: ignore[assignment]
    rig.pool.set_size(2)
    rig.add("a")
    eventually(lambda: len(rig.serials()) == 1)
    assert [page.report.fetch_status for page in rig.pages] == [-7000]
    rig.fetcher.answer = page
    rig.pool.watch()
    assert len(rig.serials()) == 2 and rig.serials()[-1] == 3
    rig.add("b", "c")
    eventually(lambda: {page.held.lease.uri for page in rig.pages} == {"a", "b", "c"})


def test_mending_a_whole_pool_changes_nothing(rig: Rig) -> None:
    rig.pool.set_size(2)
    rig.pool.watch()
    assert rig.serials() == [1, 2]


def test_a_negative_size_is_refused(rig: Rig) -> None:
    with pytest.raises(ValueError, match="size must be at least 0, got -1"):
        rig.pool.set_size(-1)


# Threads that are killed, and threads that do not end.


def test_a_killed_thread_breaks_off_its_uri_which_fails_and_another_takes_its_place(rig: Rig) -> None:
    """Section 2.20: killThread with replacement."""
    rig.fetcher.hold()
    rig.pool.set_size(2)
    rig.add("a", "b")
    eventually(lambda: rig.busy(2))
    rig.pool.kill(1, replace=True)
    eventually(lambda: rig.serials() == [2, 3] and len(rig.pages) == 1)
    assert [(page.report.fetch_status, page.report.toe_number) for page in rig.pages] == [(-7000, 1)]
    statistics = PoolStatistics(size=2, alive_count=2, died_count=0, killed_count=1, abandoned_count=0)
    eventually(lambda: rig.pool.statistics() == statistics)


def test_a_thread_killed_without_replacement_leaves_a_smaller_pool(rig: Rig) -> None:
    """Section 2.20: killThread without replacement."""
    rig.pool.set_size(3)
    rig.pool.kill(2, replace=False)
    rig.pool.watch()
    assert rig.serials() == [1, 3] and rig.pool.size == 2


def test_killing_twice_is_killing_once(rig: Rig) -> None:
    rig.fetcher.cuts = False
    rig.fetcher.hold()
    rig.pool.set_size(1)
    rig.add("a")
    eventually(lambda: rig.busy(1))
    rig.pool.kill(1, replace=False)
    rig.pool.kill(1, replace=False)
    assert rig.pool.statistics().killed_count == 1 and rig.pool.size == 0


def test_a_thread_that_retires_may_be_killed_and_is_not_missed(rig: Rig) -> None:
    rig.fetcher.hold()
    rig.pool.set_size(2)
    rig.add("a", "b")
    eventually(lambda: rig.busy(2))
    rig.pool.set_size(1)
    rig.pool.kill(2, replace=False)
    eventually(lambda: len(rig.pages) == 1)
    assert rig.pool.size == 1 and rig.serials() == [1]


def test_a_thread_that_there_is_not_cannot_be_killed(rig: Rig) -> None:
    rig.pool.set_size(1)
    with pytest.raises(LookupError, match="7"):
        rig.pool.kill(7, replace=True)


def stuck(rig: Rig) -> None:
    """A thread that nothing interrupts, at `a`."""
    rig.fetcher.cuts = False
    rig.fetcher.hold()
    rig.pool.set_size(1)
    rig.add("a")
    eventually(lambda: rig.busy(1))


def test_a_killed_thread_that_does_not_end_in_time_is_left_behind_and_its_uri_reported_once(rig: Rig) -> None:
    stuck(rig)
    rig.pool.kill(1, replace=True)
    rig.now_s = GRACE_S - 0.001
    rig.pool.watch()
    assert rig.left_behind == [] and rig.pool.statistics().alive_count == 2
    rig.now_s = GRACE_S
    rig.pool.watch()
    rig.pool.watch()
    assert rig.left_behind == [("a", 1)] and rig.pool.left_behind_count == 1
    assert rig.pool.statistics() == PoolStatistics(
        size=1, alive_count=1, died_count=0, killed_count=1, abandoned_count=1
    )
    assert [(report.serial, report.abandoned) for report, _ in rig.pool.reports()] == [(1, True), (2, False)]
    rig.fetcher.let_go()
    eventually(lambda: rig.pool.left_behind_count == 0)
    assert rig.pages == [], "what it brings late is discarded"


def test_one_left_behind_does_not_hold_up_the_end(rig: Rig) -> None:
    stuck(rig)
    rig.pool.kill(1, replace=False)
    rig.now_s = GRACE_S
    rig.pool.watch()
    rig.pool.join()
    assert rig.pool.left_behind_count == 1


def test_a_thread_whose_lease_has_ended_is_left_behind_like_one_that_was_killed(rig: Rig) -> None:
    """An extractor that loops: the frontier ends the lease at its hard limit."""
    stuck(rig)
    rig.book.end([b"a"])
    rig.now_s = GRACE_S
    rig.pool.watch()
    assert rig.left_behind == [("a", 1)] and rig.serials() == [2]


def test_a_thread_that_finds_no_end_of_a_page_is_broken_off(rig: Rig) -> None:
    chain_holds = threading.Event()

    def never(*args: object) -> FoundLinks:
        chain_holds.wait()
        return FoundLinks([])

    rig.outlinks = never
    rig.pool.set_size(1)
    rig.add("a")
    eventually(lambda: rig.pool.steps()[Step.EXTRACTING] == 1)
    ((report, _),) = rig.pool.reports()
    rig.now_s = report.step_since_s + EXTRACT_S
    rig.pool.watch()
    assert rig.left_behind == []
    rig.now_s += GRACE_S
    rig.pool.watch()
    assert rig.left_behind == [("a", 1)] and rig.serials() == [2]
    chain_holds.set()


def test_a_debugger_shows_the_step_and_the_lease_of_a_thread(rig: Rig) -> None:
    rig.fetcher.hold()
    rig.pool.set_size(1)
    rig.add("http://a/")
    eventually(lambda: rig.busy(1))
    (toe,) = rig.pool._toes
    toe.retire()
    found = re.fullmatch(r"<ToeThread 1: FETCHING for \d+\.\d s, retired, with (<.*>)>", repr(toe))
    assert found is not None and found[1] == repr(toe.held)
    assert repr(rig.pool) == "<ToePool of 1: 1 threads, 0 left behind>"


def test_it_tells_what_each_thread_is_at_and_where_in_the_program(rig: Rig) -> None:
    """S4.6: none is missed, busy or idle. Section 2.20: the report of a thread."""
    rig.fetcher.hold()
    rig.pool.set_size(2)
    rig.add("a")
    eventually(lambda: rig.busy(1) and rig.fetcher.asked == ["a"])
    (busy, stack), (idle, _) = sorted(rig.pool.reports(stacks=True), key=lambda each: each[0].held is None)
    assert busy.held is not None and busy.held.lease.uri == "a" and busy.step is Step.FETCHING
    assert "def fetch" in stack or "in fetch" in stack
    assert idle.held is None and idle.step is Step.ABOUT_TO_GET_URI


def test_stacks_of_all_threads_are_taken_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python tells those of all threads or none: one look a thread took a minute with ten thousand."""
    rig.pool.set_size(20)
    looks: list[int] = []

    def look() -> dict[int, FrameType]:
        looks.append(1)
        return current_frames()

    current_frames = sys._current_frames
    monkeypatch.setattr(sys, "_current_frames", look)
    told = rig.pool.reports(stacks=True)
    assert len(told) == 20 and all(stack for _, stack in told) and len(looks) == 1
    assert [stack for _, stack in rig.pool.reports()] == [""] * 20 and len(looks) == 1


class DyingToe(ToeThread):
    """A thread, never started, that is found alive so many times more."""

    looks = 1_000

    def start(self) -> None:
        pass

    def is_alive(self) -> bool:
        self.looks -= 1
        return self.looks >= 0


@pytest.mark.parametrize("looks", range(6))
def test_a_thread_is_told_of_at_whatever_moment_of_a_look_it_dies(rig: Rig, looks: int) -> None:
    """D12: it is counted once, and replaced, in this look or the next one."""
    chain = ToeChain(stages(rig.fetcher, rig))
    toes: list[DyingToe] = []

    def new_toe(serial: int) -> ToeThread:
        toes.append(DyingToe(serial, rig.book, chain, rig))
        return toes[-1]

    pool = ToePool(new_toe, rig.book.resize, lambda held, serial: None)
    pool.set_size(2)
    toes[0].looks = looks
    while toes[0].looks >= 0:
        pool.watch()
    pool.watch()
    assert pool.statistics() == PoolStatistics(
        size=2, alive_count=2, died_count=1, killed_count=0, abandoned_count=0
    )
    assert [report.serial for report, _ in pool.reports()] == [2, 3]
