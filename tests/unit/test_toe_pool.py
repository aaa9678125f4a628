"""The toe pool: its size, its numbers, and threads that die. Threads are real; what they fetch is not."""

from collections.abc import Iterator

import pytest
from node_doubles.leases import POLICY, lease
from node_doubles.stages import FakeFetcher, page, stages
from node_doubles.waiting import eventually

from crawler_node.book import LeaseBook
from crawler_node.page import Page
from crawler_node.pool import ToePool
from crawler_node.toe import Step, ToeThread
from crawler_node.visit import Stored


class Rig:
    """A pool over a book, with a fetcher that can be held."""

    def __init__(self) -> None:
        self.book = LeaseBook()
        self.fetcher = FakeFetcher()
        self.pages: list[Page] = []
        self.pool = ToePool(
            lambda serial: ToeThread(serial, self.book, stages(self.fetcher, self), self), self.book.resize
        )

    def append(self, visit: object) -> Stored:
        return Stored(0)

    def put(self, page: Page) -> None:
        self.pages.append(page)

    def add(self, *uris: str) -> None:
        assert self.book.add([(lease(uri), POLICY) for uri in uris]) == []

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
    """S4.2"""
    assert rig.pool.serials() == [] and rig.pool.steps() == {}


def test_growing_starts_as_many_as_are_missing(rig: Rig) -> None:
    """S4.3"""
    rig.pool.set_size(2)
    rig.pool.set_size(5)
    assert rig.pool.serials() == [1, 2, 3, 4, 5]
    eventually(lambda: rig.pool.steps() == {Step.ABOUT_TO_GET_URI: 5})


def test_shrinking_spares_the_oldest(rig: Rig) -> None:
    """S4.4"""
    rig.pool.set_size(5)
    rig.pool.set_size(2)
    assert rig.pool.serials() == [1, 2]


def test_numbers_are_never_used_again(rig: Rig) -> None:
    """S4.5 and S4.7"""
    rig.pool.set_size(3)
    rig.pool.set_size(1)
    rig.pool.set_size(3)
    assert rig.pool.serials() == [1, 4, 5]


def test_a_thread_that_waits_retires_at_once(rig: Rig) -> None:
    """D25: without another URI."""
    rig.pool.set_size(3)
    rig.pool.set_size(0)
    rig.pool.join()
    assert rig.pool.steps() == {}


def test_a_thread_at_work_retires_after_its_uri(rig: Rig) -> None:
    """S4.14"""
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
    assert rig.pool.serials() == [3, 4]


def test_a_closed_pool_stays_empty(rig: Rig) -> None:
    rig.pool.set_size(2)
    rig.pool.close()
    rig.pool.set_size(3)
    rig.pool.mend()
    rig.pool.join()
    assert rig.pool.serials() == [] and rig.pool.size == 0


def test_a_dead_thread_is_replaced_and_its_lease_handed_back(rig: Rig) -> None:
    """D12 and S4.13"""

    def die(uri: str) -> object:
        raise SystemExit

    rig.fetcher.answer = die  # type: ignore[assignment]
    rig.pool.set_size(2)
    rig.add("a")
    eventually(lambda: len(rig.pool.serials()) == 1)
    assert [page.report.fetch_status for page in rig.pages] == [-7000]
    rig.fetcher.answer = page
    rig.pool.mend()
    assert len(rig.pool.serials()) == 2 and rig.pool.serials()[-1] == 3
    rig.add("b", "c")
    eventually(lambda: {page.held.lease.uri for page in rig.pages} == {"a", "b", "c"})


def test_mending_a_whole_pool_changes_nothing(rig: Rig) -> None:
    rig.pool.set_size(2)
    rig.pool.mend()
    assert rig.pool.serials() == [1, 2]


def test_a_negative_size_is_refused(rig: Rig) -> None:
    with pytest.raises(ValueError, match="-1 toe threads"):
        rig.pool.set_size(-1)
