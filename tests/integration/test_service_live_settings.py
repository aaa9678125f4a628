"""Settings that are changed while a crawl runs count from then on: limits, bounds, toes, politeness."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Stubs,
    named,
    released,
    report,
    seconds,
    seed_of,
    spec,
)
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.waiting import eventually
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import crawl_pb2, frontier_pb2


def told(stubs: Stubs, crawl: str) -> list[str]:
    """What happened to the crawl, in a word each."""
    return [named(event) for event in stubs.events_so_far(crawl)]


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Hosted]:
    with hosted(HeldStore(), tmp_path) as made:
        yield made


def test_the_number_of_toes_counts_at_once_up_and_down(at: Hosted) -> None:
    """S4.3 to S4.5, for the crawl: what is out beyond a smaller number comes back by itself."""
    stubs = at.stubs
    hosts = [seed_of("t", f"{letter}.") for letter in "abcdef"]
    stubs.launch("t", *hosts, of=spec(max_toes=2))
    out = stubs.next("t", 100, TIMEOUT_S).leases
    assert len(out) == 2
    assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_NOTHING_DUE
    stubs.update("t", max_toes=5)
    more = stubs.next("t", 100, TIMEOUT_S).leases
    assert len(more) == 3
    stubs.update("t", max_toes=1)
    stubs.finish(*(released(lease) for lease in more))
    assert not stubs.next("t").leases
    assert stubs.statistics("t").leased_count == 2  # they are finished as ever
    stubs.finish(*(released(lease) for lease in out))
    assert len(stubs.next("t", 100, TIMEOUT_S).leases) == 1
    stubs.update("t", "max_toes")
    assert len(stubs.next("t", 100, TIMEOUT_S).leases) == 5


def test_who_waits_for_a_lease_gets_one_when_more_toes_are_allowed(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t", "a."), seed_of("t", "b."), of=spec(max_toes=1))
    assert len(stubs.next("t", 100, TIMEOUT_S).leases) == 1
    request = frontier_pb2.NextRequest(
        crawl="t", node="waits", session="s", max_leases=9, wait_duration=seconds(60)
    )
    waiting: Any = stubs.frontier.Next.future(request, timeout=70)
    eventually(lambda: at.served.runner.waiting, "a node that waits")
    stubs.update("t", max_toes=2)
    assert len(waiting.result(timeout=TIMEOUT_S).leases) == 1


@pytest.mark.parametrize(
    ("limit", "exit_status"),
    [
        ({"max_documents": 2}, "FINISHED_DOCUMENT_LIMIT"),
        ({"max_bytes": 20}, "FINISHED_DATA_LIMIT"),
        ({"max_elapsed": Duration(nanos=1_000_000)}, "FINISHED_TIME_LIMIT"),
    ],
)
@pytest.mark.parametrize("state", ["RUNNING", "EMPTY", "PAUSED"])
def test_a_limit_that_is_reached_already_ends_the_crawl_as_soon_as_it_runs(
    at: Hosted, state: str, limit: dict[str, Any], exit_status: str
) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"), f"{seed_of('t')}more", of=spec(run_while_empty=True))
    for _ in range(2):
        stubs.finish(*(report(lease, body_bytes=10) for lease in stubs.pages("t")))
    if state != "EMPTY":
        stubs.schedule("t", f"{seed_of('t')}left")
    if state == "PAUSED":
        stubs.request("t", PAUSE)
    assert crawl_pb2.CrawlState.Name(stubs.describe("t").status.state) == f"CRAWL_STATE_{state}"
    stubs.update("t", limits=crawl_pb2.LimitSpec(**limit))
    if state == "PAUSED":
        assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_PAUSED
        stubs.request("t", RUN)
    stubs.until("t", crawl_pb2.CRAWL_STATE_FINISHED)
    status = stubs.describe("t").status
    assert crawl_pb2.ExitStatus.Name(status.exit_status) == f"EXIT_STATUS_{exit_status}"
    (reached,) = [event.limit_reached for event in stubs.events("t") if event.HasField("limit_reached")]
    assert reached.limit == next(iter(limit))


def test_a_limit_that_is_raised_lets_a_crawl_go_on(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch(
        "t",
        *(seed_of("t", f"{letter}.") for letter in "abc"),
        of=spec(limits=crawl_pb2.LimitSpec(max_documents=1)),
    )
    (lease,) = stubs.pages("t")
    assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_LIMIT_REACHED
    stubs.update("t", limits=crawl_pb2.LimitSpec(max_documents=2))
    (second,) = stubs.pages("t")
    stubs.finish(report(lease), report(second))
    stubs.until("t", crawl_pb2.CRAWL_STATE_FINISHED)
    assert stubs.statistics("t").succeeded_count == 2


def test_a_crawl_that_waits_while_empty_ends_when_it_need_not_wait_any_more(at: Hosted) -> None:
    """S0.51, switched off while it holds."""
    stubs = at.stubs
    stubs.launch("t", seed_of("t"), of=spec(run_while_empty=True))
    stubs.finish(*(report(lease) for lease in stubs.pages("t")))
    assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_EMPTY
    stubs.update("t", "run_while_empty")
    assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_FINISHED
    assert stubs.describe("t").status.exit_status == crawl_pb2.EXIT_STATUS_FINISHED


def test_politeness_counts_from_the_next_rest_on(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"), f"{seed_of('t')}more", f"{seed_of('t')}another")
    (lease,) = stubs.pages("t")
    stubs.update("t", politeness=spec(1000).politeness)
    stubs.finish(report(lease))
    answer = stubs.next("t")
    assert answer.empty_reason == frontier_pb2.EMPTY_REASON_NOTHING_DUE
    (queue,) = stubs.queues("t")
    now_ms = stubs.statistics("t").snapshot_time.ToMilliseconds()
    assert queue.wake_time.ToMilliseconds() > now_ms + 900_000


@pytest.mark.parametrize("how", ["politeness", "groups", "override"])
def test_more_requests_at_once_are_made_at_once(at: Hosted, how: str) -> None:
    """They do not wait for the one that is out, which may be slow."""
    stubs = at.stubs
    group = crawl_pb2.HostGroup(name="g", hosts=["a.t.example", "b.t.example", "c.t.example"])
    first = spec(queues=crawl_pb2.QueueSpec(parallel_queues=9))
    seeds = [f"{seed_of('t')}{folder}/" for folder in range(20)]
    if how == "groups":
        first, seeds = spec(groups=[group]), [f"http://{host}/" for host in group.hosts]
    stubs.launch("t", *seeds, of=first)
    (slow,) = stubs.pages("t")
    request = frontier_pb2.NextRequest(
        crawl="t", node="waits", session="s", max_leases=9, wait_duration=seconds(60)
    )
    waiting: Any = stubs.frontier.Next.future(request, timeout=70)
    eventually(lambda: at.served.runner.waiting, "a node that waits")
    parallel = crawl_pb2.PolitenessSpec(max_parallel=3)
    if how == "override":
        stubs.ask(
            "PutOverride", "t", override={"surt_prefix": "t.example", "settings": {"politeness": parallel}}
        )
    elif how == "politeness":
        stubs.update("t", politeness=parallel)
    else:
        group.max_parallel = 3
        stubs.update("t", groups=[group])
    assert len(waiting.result(timeout=TIMEOUT_S).leases) == 2
    assert stubs.statistics("t").leased_count == 3
    stubs.finish(released(slow))


def test_leases_given_from_now_on_are_fetched_by_the_new_policy(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t", "a."), seed_of("t", "b."))
    (first,) = stubs.next("t", 1, TIMEOUT_S).leases
    stubs.update("t", contact="https://example.org/bot", fetch=crawl_pb2.FetchSpec(max_bytes=77))
    answer = stubs.next("t", 1, TIMEOUT_S)
    (second,), (policy,) = answer.leases, answer.fetch_policies
    assert first.fetch_policy_id != second.fetch_policy_id == policy.fetch_policy_id
    assert "https://example.org/bot" in policy.user_agent and policy.max_bytes == 77


def test_the_scope_counts_from_the_next_candidate_on_and_its_hosts_grow(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"))
    uri, elsewhere = f"{seed_of('t')}private/1", "http://elsewhere.example/"
    assert stubs.schedule("t", elsewhere) == ["OUT_OF_SCOPE"]
    stubs.update(
        "t", scope=crawl_pb2.ScopeSpec(hosts=["elsewhere.example"], reject_patterns=[".*/private/.*"])
    )
    assert stubs.schedule("t", elsewhere, uri) == ["QUEUED", "OUT_OF_SCOPE"]
    stubs.update("t", "scope.reject_patterns")
    assert stubs.schedule("t", uri) == ["QUEUED"]
    assert list(stubs.describe("t").spec.scope.hosts) == ["elsewhere.example"]


def test_queues_that_wait_get_what_a_changed_policy_gives_them(at: Hosted) -> None:
    """D20: with all of them below the floor nothing is left that may be fetched."""
    stubs = at.stubs
    seeds = [seed_of("t", f"{letter}.") for letter in "abc"]
    stubs.launch("t", *seeds, of=spec(pause_with_uris_left=True))
    stubs.update("t", queues=crawl_pb2.QueueSpec(precedence_floor=0))
    stubs.until("t", crawl_pb2.CRAWL_STATE_PAUSED)
    assert {queue.state for queue in stubs.queues("t")} == {crawl_pb2.QUEUE_STATE_INELIGIBLE}
    assert "ineligible" in stubs.describe("t").status.reason
    assert [word for word in told(stubs, "t") if word != "statistics"][-7:] == [
        *("RUNNING", "by update", "job_ended", "EMPTY", "uris_left", "PAUSING", "PAUSED")
    ]
    stubs.update("t", "queues.precedence_floor")
    eventually(
        lambda: {queue.state for queue in stubs.queues("t")} == {crawl_pb2.QUEUE_STATE_INACTIVE},
        "the queues to be admitted again",
    )
    assert stubs.request("t", RUN).state == crawl_pb2.CRAWL_STATE_RUNNING
    assert len(stubs.next("t", wait_s=TIMEOUT_S).leases) == 3


@pytest.mark.parametrize(
    ("target", "timeout", "end"),
    [(PAUSE, "pause_timeout", "PAUSED"), (FINISH, "stop_timeout", "FINISHED")],
)
def test_a_wait_that_is_under_way_is_cut_short_by_a_shorter_bound(
    at: Hosted, target: crawl_pb2.TargetState.ValueType, timeout: str, end: str
) -> None:
    stubs = at.stubs
    long: dict[str, Any] = {timeout: seconds(86_400)}
    stubs.launch("t", seed_of("t"), of=spec(**long))
    (lease,) = stubs.pages("t")
    stubs.request("t", target)
    stubs.update("t", **{timeout: seconds(1)})
    eventually(
        lambda: crawl_pb2.CrawlState.Name(stubs.describe("t").status.state) == f"CRAWL_STATE_{end}",
        "the new bound to count",
    )
    (cancelled,) = [e.flights_cancelled for e in stubs.events_so_far("t") if e.HasField("flights_cancelled")]
    assert (cancelled.leased_count, cancelled.bound) == (1, timeout)
    assert stubs.finish(report(lease)) == [("STALE", False)]


def test_figures_are_told_as_often_as_is_said_now(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"), of=spec(statistics_interval=seconds(86_400)))
    assert "statistics" not in told(stubs, "t")
    stubs.update("t", statistics_interval=seconds(1))
    eventually(lambda: "statistics" in told(stubs, "t"), "statistics")
