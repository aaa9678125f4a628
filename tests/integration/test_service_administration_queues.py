"""Operators look at work queues and change them, over real gRPC; every refusal names what is wrong."""

from typing import Any

import grpc
import pytest
from frontier_harness.calls import INVALID, Stubs, fresh_name, refused, report, seconds, seed_of, spec

from toehold.frontier.v1 import admin_pb2, crawl_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND
INACTIVE, INELIGIBLE = crawl_pb2.QUEUE_STATE_INACTIVE, crawl_pb2.QUEUE_STATE_INELIGIBLE
RETIRED, SNOOZED = crawl_pb2.QUEUE_STATE_RETIRED, crawl_pb2.QUEUE_STATE_SNOOZED


def key_of(crawl: str, host: str = "") -> str:
    """The key of the queue of `seed_of`."""
    return f"example,{crawl},{host.replace('.', ',')}"


def queue(stubs: Stubs, crawl: str, key: str = "") -> admin_pb2.WorkQueue:
    (found,) = stubs.ask("GetQueue", crawl, queue_key=key or key_of(crawl)).queues
    assert isinstance(found, admin_pb2.WorkQueue)
    return found


def change(stubs: Stubs, crawl: str, **change: Any) -> admin_pb2.WorkQueue:
    (found,) = stubs.ask("UpdateQueue", crawl, queue_key=key_of(crawl), change=change).queues
    assert found == queue(stubs, crawl)
    assert isinstance(found, admin_pb2.WorkQueue)
    return found


def test_a_queue_tells_all_statistics_of_it(stubs: Stubs) -> None:
    """Heritrix 2.15: key, precedence, size, enqueues, balance, cost, times, budget, errors."""
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl), of=spec(queues={"session_budget": 500, "total_budget": 900}))
    stubs.schedule(crawl, *(f"{seed_of(crawl)}{page}" for page in ("good", "bad", "left")))
    for status in (200, 200, -4):
        (lease,) = stubs.pages(crawl, most=1)
        stubs.finish(report(lease, status))
    found = queue(stubs, crawl)
    assert (found.queue_key, found.host) == (key_of(crawl), f"{crawl}.example")
    assert (found.queued_count, found.enqueued_count, found.leased_count) == (1, 4, 0)
    assert (found.succeeded_count, found.failed_count) == (2, 1)
    assert found.expenditure == found.session_expenditure == 3 + 100  # S1.13: the penalty
    assert (found.session_budget, found.total_budget) == (500, 900)
    assert (found.last_cost, found.average_cost) == (1, 1.0)
    assert (found.precedence, found.precedence_fixed, found.paused) == (3, False, False)
    assert found.HasField("queue_time") and found.HasField("lease_time")
    (listed,) = stubs.queues(crawl)
    assert listed == found


def test_a_queue_that_is_not_there_is_named(stubs: Stubs, crawl: str) -> None:
    for rpc, more in (("GetQueue", {}), ("UpdateQueue", {"change": {"wake": True}}), ("ListUris", {})):
        problem = refused(
            lambda rpc=rpc, more=more: stubs.ask(rpc, crawl, queue_key="no,such,", **more),  # type: ignore[misc]
            NOT_FOUND,
            "UNKNOWN_QUEUE",
            "'no,such,'",
        )
        assert problem.metadata == {"crawl": crawl, "queue": "no,such,"}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "change must set at least one field"),
        ({"precedence": 256}, "precedence must be between -1 and 255, got 256"),
        ({"total_budget": 2**63 - 1}, f"total_budget must be between -2 and {1 << 62}, got {2**63 - 1}"),
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(
    stubs: Stubs, crawl: str, asked: dict[str, int], told: str
) -> None:
    before = queue(stubs, crawl)
    refused(
        lambda: stubs.ask("UpdateQueue", crawl, queue_key=key_of(crawl), change={**asked}),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
        told,
    )
    assert queue(stubs, crawl) == before


@pytest.mark.parametrize("state", [crawl_pb2.QUEUE_STATE_UNSPECIFIED, RETIRED, INELIGIBLE])
def test_pages_have_every_queue_of_a_state_once(stubs: Stubs, state: crawl_pb2.QueueState.ValueType) -> None:
    crawl = fresh_name()
    seeds = [seed_of(crawl, f"h{number}.") for number in range(9)]
    stubs.launch(crawl, *seeds)
    keys = sorted(each.queue_key for each in stubs.queues(crawl))
    for key in keys[:3]:
        stubs.ask("UpdateQueue", crawl, queue_key=key, change={"retired": True})
    for key in keys[3:5]:
        stubs.ask("UpdateQueue", crawl, queue_key=key, change={"paused": True})
    leases = stubs.pages(crawl, most=2)
    stubs.finish(*(report(lease, -2) for lease in leases))
    expected = sorted(
        each.queue_key
        for each in stubs.queues(crawl)
        if state in (crawl_pb2.QUEUE_STATE_UNSPECIFIED, each.state)
    )
    pages = stubs.pages_of("ListQueues", crawl, "queues", state=state, page_size=2)
    assert all(len(page) <= 2 for page in pages)
    assert sorted(each.queue_key for page in pages for each in page) == expected
    assert expected


def test_a_page_token_is_good_for_its_own_listing_only(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, *(seed_of(crawl, f"h{number}.") for number in range(3)))
    token = stubs.ask("ListQueues", crawl, page_size=1).next_page_token
    for rpc, more in (
        ("ListQueues", {"state": INACTIVE}),
        ("ListUris", {}),
        ("ListHosts", {}),
        ("ListSources", {}),
        ("ListSeeds", {}),
        ("ListJobs", {}),
        ("ListOverrides", {}),
    ):
        for wrong in (token, "x", "00", "é", f"{token[:-2]}00", token[2:]):
            problem = refused(
                lambda rpc=rpc, more=more, wrong=wrong: stubs.ask(rpc, crawl, page_token=wrong, **more),  # type: ignore[misc]
                INVALID,
                "INVALID_ARGUMENT_VALUE",
                "page_token",
            )
            assert problem.metadata == {"field": "page_token"}
    assert len(stubs.ask("ListQueues", crawl, page_token=token).queues) == 2


@pytest.mark.sampled(
    "rpc", ["ListUris", "ListHosts", "ListSources", "ListSeeds", "ListJobs", "ListOverrides"]
)
@pytest.mark.sampled("size", [-1, 1001])
def test_a_page_size_that_cannot_be_had_is_refused(stubs: Stubs, crawl: str, rpc: str, size: int) -> None:
    refused(
        lambda: stubs.ask(rpc, crawl, page_size=size), INVALID, "INVALID_ARGUMENT_VALUE", str(size), "1000"
    )


def test_the_slowest_queues_come_first_and_what_limits_the_crawl_is_told(stubs: Stubs) -> None:
    crawl = fresh_name()
    politeness = crawl_pb2.PolitenessSpec(delay_factor=1, max_delay=seconds(3_600))
    seeds = [seed_of(crawl, f"h{number}.") for number in range(4)]
    stubs.launch(crawl, *seeds, of=spec(politeness=politeness))
    stubs.schedule(crawl, *(f"{seed}more" for seed in seeds))
    assert stubs.statistics(crawl).limited_by == "No node has asked for leases since the server started"
    leases = stubs.pages(crawl)
    rests_s = [100, 400, 300, 200]
    reports = (report(lease, fetch_duration=seconds(s)) for lease, s in zip(leases, rests_s, strict=True))
    stubs.finish(*reports)
    slowest = stubs.ask("ListSlowestQueues", crawl).queues
    assert [each.queue_key for each in slowest] == [leases[n].queue_key for n in (1, 2, 3, 0)]
    assert {each.state for each in slowest} == {SNOOZED}
    assert stubs.statistics(crawl).limited_by == (
        "Limited by politeness: 4 hosts wait as long as a fetch takes"
    )
