"""CrawlController: teardown, copies, settings, pools and statistics, by both kinds."""

import inspect
import threading
import time
from typing import Any

import grpc
import pytest
from client_doubles.blocking import Connect, controller_of, of_both_clients
from client_doubles.fake_frontier import SILENCE, UNAVAILABLE, Answer, FakeFrontier, Refusal, serving
from client_doubles.told import (
    FILLED,
    FINISHED,
    NASCENT,
    PAUSED,
    RUNNING,
    SPEC,
    STOPPING,
    became,
    found,
    present,
    torn_down,
)
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1.admin_pb2 import (
    AddSeedsResponse,
    CreateCrawlResponse,
    GetStatisticsResponse,
    ListSeedsResponse,
    Seed,
    SetPoolSizeResponse,
    TearDownCrawlResponse,
    UpdateCrawlResponse,
)
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, CrawlStatus
from toehold_client import CrawlController, errors

UNKNOWN = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL")
EXISTS = Refusal(grpc.StatusCode.ALREADY_EXISTS, "crawl 'd' already exists", "CRAWL_EXISTS")
BUSY = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many readers", "OVERLOADED")
FAILED = Refusal(grpc.StatusCode.UNAVAILABLE, "its disk failed", "STORE_FAILED")
COMPLETE = TearDownCrawlResponse(status=CrawlStatus(state=FINISHED, tearing_down=True, torn_down=True))
BEGUN = TearDownCrawlResponse(status=CrawlStatus(state=STOPPING, tearing_down=True), begun=True)


# teardown


def test_a_teardown_that_is_complete_at_once_is_not_waited_for(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    """S0.26: complete within the wait."""
    frontier.will("TearDownCrawl", COMPLETE)
    assert controller.teardown() is True
    assert not frontier.asked["StateEvents"]


@of_both_clients
@pytest.mark.parametrize(
    "line",
    [
        [present(STOPPING), became(1, FINISHED), torn_down(2)],
        [present(FINISHED, torn_down=True)],
        [present(STOPPING), UNAVAILABLE],
    ],
    ids=["by its last event", "since it was asked for", "after a restart"],
)
def test_a_teardown_that_completes_within_the_wait_is_true(
    frontier: FakeFrontier, controller: CrawlController, line: list[Answer]
) -> None:
    """S0.26."""
    frontier.will("TearDownCrawl", BEGUN)
    frontier.will("StateEvents", line, [present(FINISHED), torn_down(2)])
    assert controller.teardown(PATIENCE_S) is True
    assert len(frontier.asked["TearDownCrawl"]) == 1


def test_a_teardown_waits_no_longer_than_it_is_told_to(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    """S0.25: the wait is bounded. S0.26: and then the frontier goes on with it."""
    silent: list[Answer] = [present(STOPPING), became(1, FINISHED), SILENCE]
    frontier.will("TearDownCrawl", BEGUN)
    frontier.will("StateEvents", *[silent] * 20)
    began_s = time.monotonic()
    assert controller.teardown(0.3) is False
    assert 0.3 <= time.monotonic() - began_s < PATIENCE_S
    assert len(frontier.asked["TearDownCrawl"]) == 1


def test_a_teardown_waits_as_long_as_heritrixs() -> None:
    """S0.25: 11 times 300 ms."""
    assert inspect.signature(CrawlController.teardown).parameters["timeout_s"].default == 3.3


@pytest.mark.parametrize("refusal", [UNAVAILABLE, FAILED, BUSY], ids=["away", "failed", "busy"])
def test_a_frontier_that_goes_away_after_it_was_asked_completes_the_teardown_later(
    frontier: FakeFrontier, address: str, connect: Connect, refusal: Refusal
) -> None:
    """S0.26: what was acknowledged is deferred, not lost."""
    frontier.will("TearDownCrawl", BEGUN)
    frontier.will("StateEvents", *[refusal] * 50)
    assert controller_of(connect(address), "c").teardown(0.3) is False


@of_both_clients
def test_a_frontier_that_dies_during_the_wait_leaves_the_teardown_deferred(connect: Connect) -> None:
    frontier = FakeFrontier()
    frontier.will("TearDownCrawl", BEGUN)
    frontier.will("StateEvents", [present(STOPPING), SILENCE])
    complete: list[bool] = []
    with serving(frontier) as address:
        controller = controller_of(connect(address), "c")
        waiting = threading.Thread(target=lambda: complete.append(controller.teardown(2)))
        waiting.start()
        eventually(lambda: frontier.asked["StateEvents"])
    waiting.join(PATIENCE_S)
    assert complete == [False]


@pytest.mark.parametrize("is_torn_down", [False, True])
def test_events_that_end_without_saying_so_are_not_taken_for_the_end_of_a_teardown(
    frontier: FakeFrontier, controller: CrawlController, is_torn_down: bool
) -> None:
    frontier.will("TearDownCrawl", BEGUN)
    frontier.will("StateEvents", [present(FINISHED)])
    frontier.will("GetCrawl", found(FINISHED, torn_down=is_torn_down))
    assert controller.teardown(PATIENCE_S) is is_torn_down


def test_a_deferred_teardown_may_be_asked_about_again(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    """S0.30: it is done once; to ask again is harmless."""
    silent: list[Answer] = [present(STOPPING), SILENCE]
    frontier.will("TearDownCrawl", BEGUN, COMPLETE, COMPLETE)
    frontier.will("StateEvents", *[silent] * 20)
    assert [controller.teardown(0.1), controller.teardown(0.1), controller.teardown()] == [False, True, True]


def test_each_of_several_controllers_learns_that_the_teardown_is_complete(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    """S0.30."""
    joined = TearDownCrawlResponse(status=BEGUN.status)
    frontier.will("TearDownCrawl", BEGUN, joined, joined, joined)
    frontier.will("StateEvents", *[[present(STOPPING), became(1, FINISHED), torn_down(2)]] * 4)
    complete: list[bool] = []
    client = connect(address)
    tearing = [
        threading.Thread(target=lambda: complete.append(controller_of(client, "c").teardown(PATIENCE_S)))
        for _ in range(4)
    ]
    for each in tearing:
        each.start()
    for each in tearing:
        each.join(PATIENCE_S)
    assert complete == [True] * 4


def test_there_is_nothing_to_tear_down_of_a_crawl_that_is_not_there(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will("TearDownCrawl", UNKNOWN)
    with pytest.raises(errors.UnknownCrawl):
        controller.teardown()
    assert not frontier.asked["StateEvents"]


@of_both_clients
def test_a_teardown_that_is_waited_for_ends_with_the_client(
    frontier: FakeFrontier, address: str, connect: Connect
) -> None:
    frontier.will("TearDownCrawl", BEGUN)
    frontier.will("StateEvents", [present(STOPPING), SILENCE])
    client = connect(address)
    failures: list[errors.ToeholdError] = []

    def tear_down() -> None:
        try:
            controller_of(client, "c").teardown(None)
        except errors.ToeholdError as failure:
            failures.append(failure)

    tearing = threading.Thread(target=tear_down)
    tearing.start()
    eventually(lambda: frontier.asked["StateEvents"])
    client.close()
    tearing.join(PATIENCE_S)
    assert [type(failure) for failure in failures] == [errors.ClientClosed]


# seeds, settings, pools


def test_seeds_are_added_to_a_crawl_that_runs(frontier: FakeFrontier, controller: CrawlController) -> None:
    frontier.will("GetCrawl", found(RUNNING))
    frontier.will("AddSeeds", AddSeedsResponse(added_count=2))
    assert controller.add_seeds(["http://a.example/", "http://b.example/"]).added_count == 2
    ((message,),) = frontier.asked["AddSeeds"]
    assert (message.crawl, list(message.uris)) == ("c", ["http://a.example/", "http://b.example/"])


@pytest.mark.parametrize("paths", [(), ("limits.max_documents", "politeness")])
def test_settings_change_while_the_crawl_runs(
    frontier: FakeFrontier, controller: CrawlController, paths: tuple[str, ...]
) -> None:
    before, changed = found(RUNNING), found(RUNNING).crawl
    changed.spec.max_toes = 3
    changed.spec.limits.max_documents = 1_000
    frontier.will("GetCrawl", before)
    frontier.will("UpdateCrawl", UpdateCrawlResponse(crawl=changed))
    updated = controller.update(CrawlSpec(max_toes=3), paths)
    assert updated == changed
    assert str(updated) == "limits.max_documents was 0, is 1000; max_toes was 0, is 3"
    (asked,) = frontier.asked["UpdateCrawl"]
    assert (asked.crawl, asked.spec, tuple(asked.update_mask.paths)) == ("c", CrawlSpec(max_toes=3), paths)


def test_what_cannot_be_changed_is_told_by_its_path(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    problems = {"identity": "fixed when the crawl is created"}
    frontier.will("GetCrawl", found(RUNNING))
    frontier.will("UpdateCrawl", Refusal(grpc.StatusCode.INVALID_ARGUMENT, "no", "INVALID_SPEC", problems))
    with pytest.raises(errors.InvalidSpec) as caught:
        controller.update(CrawlSpec())
    assert caught.value.problems == problems


@pytest.mark.parametrize("size", [0, 7, None])
def test_the_pools_of_all_nodes_get_their_size(
    frontier: FakeFrontier, controller: CrawlController, size: int | None
) -> None:
    frontier.will("SetPoolSize", SetPoolSizeResponse())
    controller.set_pool_size(size)
    (asked,) = frontier.asked["SetPoolSize"]
    assert (asked.node, asked.size if asked.HasField("size") else None) == ("", size)


# copies


@pytest.mark.parametrize("count", [0, 3, 2500])
def test_a_copy_has_the_spec_and_if_wanted_the_seeds(
    frontier: FakeFrontier, controller: CrawlController, count: int
) -> None:
    uris = [f"http://www.example.com/{number}" for number in range(count)]
    pages = [uris[at : at + 100] for at in range(0, count, 100)] or [[]]
    frontier.will(
        "ListSeeds",
        *(
            ListSeedsResponse(
                seeds=[Seed(uri=uri) for uri in page],
                next_page_token=str(number) if number < len(pages) else "",
            )
            for number, page in enumerate(pages, start=1)
        ),
    )
    frontier.will("GetCrawl", found(PAUSED), *[found(NASCENT)] * 5)
    frontier.will("CreateCrawl", CreateCrawlResponse())
    frontier.will("AddSeeds", *[AddSeedsResponse()] * 5)
    copied = controller.copy("d", seeds=True)
    assert copied.crawl == "d"
    (created,) = frontier.asked["CreateCrawl"]
    assert (created.crawl, created.spec) == ("d", FILLED)
    messages = [message for stream in frontier.asked["AddSeeds"] for message in stream]
    assert [uri for message in messages for uri in message.uris] == uris
    assert {message.crawl for message in messages} <= {"d"}
    assert {asked.crawl for asked in frontier.asked["ListSeeds"]} == {"c"}


def test_a_copy_without_seeds_asks_for_none(frontier: FakeFrontier, controller: CrawlController) -> None:
    frontier.will("GetCrawl", found(FINISHED), found(NASCENT))
    frontier.will("CreateCrawl", CreateCrawlResponse())
    assert controller.copy("d").crawl == "d"
    assert not frontier.asked["ListSeeds"] and not frontier.asked["AddSeeds"]


def test_copying_again_goes_on_with_the_copy_that_is_there(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will("GetCrawl", found(RUNNING, SPEC), found(NASCENT, FILLED), found(NASCENT))
    frontier.will("CreateCrawl", EXISTS)
    assert controller.copy("d").crawl == "d"


def test_a_copy_touches_no_other_crawl_of_its_name(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will("GetCrawl", found(RUNNING, SPEC), found(RUNNING, SPEC))
    frontier.will("CreateCrawl", EXISTS)
    with pytest.raises(errors.CrawlExists):
        controller.copy("d", seeds=True)
    assert not frontier.asked["AddSeeds"]


# statistics


def statistics(state: CrawlState.ValueType) -> GetStatisticsResponse:
    return GetStatisticsResponse(status=CrawlStatus(state=state))


@of_both_clients
def test_statistics_come_at_their_pace_to_the_end_of_the_crawl(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    told = [statistics(RUNNING), statistics(RUNNING), statistics(FINISHED)]
    frontier.will("GetStatistics", told[0], UNAVAILABLE, *told[1:])
    began_s = time.monotonic()
    assert list(controller.statistics_every(0.2)) == told
    assert 0.4 <= time.monotonic() - began_s < PATIENCE_S


def test_the_first_statistics_come_at_once(frontier: FakeFrontier, controller: CrawlController) -> None:
    frontier.will("GetStatistics", statistics(RUNNING))
    assert next(iter(controller.statistics_every(3600))) == statistics(RUNNING)


@pytest.mark.parametrize("interval_s", [0, -1, float("nan")])
def test_what_is_no_interval_is_told(
    frontier: FakeFrontier, controller: CrawlController, interval_s: float
) -> None:
    with pytest.raises(errors.InvalidArgument, match=f"the interval must be more than 0 s, got {interval_s}"):
        next(iter(controller.statistics_every(interval_s)))
    assert not frontier.asked


@of_both_clients
def test_leaving_a_controller_changes_nothing_of_its_crawl(frontier: FakeFrontier, controller: Any) -> None:
    frontier.will("GetCrawl", found(RUNNING))
    with controller as entered:
        assert entered.status().state == RUNNING
    assert set(frontier.asked) == {"GetCrawl"}
