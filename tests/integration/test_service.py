"""Every RPC of both services, and health, as a caller in any language sees them."""

import re
from typing import Any

import grpc
import pytest
from frontier_harness.calls import (
    PAUSE,
    TIMEOUT_S,
    Stubs,
    fresh_name,
    refusal,
    report,
    seconds,
    seed_of,
    spec,
)
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_health.v1 import health_pb2, health_pb2_grpc

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

SERVICES = ["toehold.frontier.v1.FrontierService", "toehold.frontier.v1.FrontierAdminService"]


# A crawl from its creation to its end.


def test_a_crawl_is_created_as_asked_with_every_default_filled_in(stubs: Stubs) -> None:
    name = fresh_name()
    asked = spec(limits=crawl_pb2.LimitSpec(max_documents=7))
    made = stubs.create(name, asked)
    assert made.crawl == name
    assert made.status.state == crawl_pb2.CRAWL_STATE_NASCENT
    assert made.status.exit_status == crawl_pb2.EXIT_STATUS_CREATED
    assert made.HasField("create_time") and not made.HasField("launch_time")
    assert (made.seed_count, made.announced_seed_count) == (0, 0)
    shown = made.spec
    assert shown.limits.max_documents == 7
    assert shown.politeness.delay_factor == 0 and shown.politeness.max_crawl_delay == seconds(300)
    assert (shown.scope.max_link_hops, shown.scope.max_redirect_hops) == (20, 10)
    assert shown.robots.unreachable == crawl_pb2.ROBOTS_UNREACHABLE_FORBID
    assert (shown.robots.max_attempts, shown.retry.max_attempts) == (5, 30)
    assert shown.fetch.timeout == seconds(1200) and shown.fetch.product_token == "toehold"
    assert stubs.describe(name) == made
    again = stubs.create(fresh_name(), shown)
    assert again.spec == shown  # what is shown can be given back


def test_seeds_wait_for_the_launch_and_are_announced_by_it(stubs: Stubs) -> None:
    name = fresh_name()
    stubs.create(name)
    answer = stubs.seed(name, seed_of(name), seed_of(name, "b."), seed_of(name))
    assert (answer.added_count, answer.rejected_count) == (3, 0)
    assert stubs.statistics(name).discovered_count == 0
    shown = stubs.describe(name)
    assert (shown.seed_count, shown.announced_seed_count) == (3, 0)
    launched = stubs.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=name), timeout=TIMEOUT_S)
    assert launched.status.state in (crawl_pb2.CRAWL_STATE_PREPARING, crawl_pb2.CRAWL_STATE_RUNNING)
    stubs.until(name, crawl_pb2.CRAWL_STATE_RUNNING)
    shown = stubs.describe(name)
    assert (shown.seed_count, shown.announced_seed_count) == (3, 3)
    assert shown.HasField("launch_time") and not shown.HasField("finish_time")
    assert stubs.statistics(name).discovered_count == 2


def test_schedule_answers_each_candidate_in_its_place(stubs: Stubs, crawl: str) -> None:
    offered = [
        seed_of(crawl),
        f"{seed_of(crawl)}new",
        f"{seed_of(crawl)}new#fragment",
        seed_of(crawl, "elsewhere."),
        "nope",
    ]
    verdicts = ["ALREADY_SEEN", "QUEUED", "ALREADY_SEEN", "OUT_OF_SCOPE", "MALFORMED"]
    assert stubs.schedule(crawl, *offered) == verdicts
    verdicts[1] = "ALREADY_SEEN"
    assert stubs.schedule(crawl, *offered) == verdicts


def test_a_lease_says_all_that_a_fetcher_needs(stubs: Stubs) -> None:
    name = fresh_name()
    whose: Any = {"contact": "https://example.org/bot", "operator": "Ex", "description": "All of it"}
    stubs.launch(name, seed_of(name), of=spec(**whose))
    answer = stubs.next(name, wait_s=TIMEOUT_S)
    (robots,) = answer.leases
    (policy,) = answer.fetch_policies
    assert robots.uri == f"{seed_of(name)}robots.txt"
    assert robots.purpose == frontier_pb2.PURPOSE_ROBOTS
    assert (robots.via, robots.path, robots.attempt) == (seed_of(name), "P", 1)
    assert robots.fetch_policy_id == policy.fetch_policy_id
    assert re.fullmatch(r"toehold/[0-9.]+ \(\+https://example\.org/bot\)", policy.user_agent)
    assert policy.provenance == crawl_pb2.Provenance(
        launch_time=stubs.describe(name).launch_time,
        user_agent=policy.user_agent,
        robots_policy="obey",
        **whose,
    )
    assert policy.timeout == seconds(1200) and policy.max_bytes == 100 * 1024 * 1024
    assert policy.allowed_addresses == ["loopback"]
    stubs.finish(report(robots, robots_body=b"User-agent: *\nAllow: /\n", fetch_status=200))
    request = frontier_pb2.NextRequest(
        crawl=name,
        node="node",
        session="session",
        max_leases=10,
        wait_duration=seconds(TIMEOUT_S),
        known_fetch_policy_ids=[policy.fetch_policy_id],
    )
    answer = stubs.frontier.Next(request, timeout=2 * TIMEOUT_S)
    (page,) = answer.leases
    assert not answer.fetch_policies  # which the node has
    assert (page.uri, page.purpose, page.seed) == (seed_of(name), frontier_pb2.PURPOSE_PAGE, True)
    assert (page.crawl, page.queue_key) == (name, f"example,{name},")
    assert (page.via, page.path, page.attempt) == ("", "", 1)
    assert page.expire_time.seconds > robots.expire_time.seconds - 60


def test_a_candidates_own_data_comes_back_in_its_lease(stubs: Stubs, crawl: str) -> None:
    (seed,) = stubs.pages(crawl)
    offered = frontier_pb2.Candidate(
        uri=f"{seed_of(crawl)}p?b=2&a=1", via=seed.uri, path="L", annotations=b"\x00mine\xff"
    )
    stubs.frontier.Schedule(frontier_pb2.ScheduleRequest(crawl=crawl, candidates=[offered]))
    stubs.finish(report(seed))
    (lease,) = stubs.pages(crawl)
    assert (lease.uri, lease.via, lease.path) == (offered.uri, seed.uri, "L")
    assert (lease.annotations, lease.seed) == (b"\x00mine\xff", False)


def test_a_report_counts_once_and_is_told_again_when_repeated(stubs: Stubs, crawl: str) -> None:
    (lease,) = stubs.pages(crawl)
    stubs.schedule(crawl, f"{seed_of(crawl)}more")
    sent = report(lease, body_bytes=123)
    assert stubs.finish(sent, sent) == [("SUCCEEDED", False), ("SUCCEEDED", True)]
    assert stubs.finish(sent) == [("SUCCEEDED", True)]
    assert stubs.finish(report(lease, 404)) == [("SUCCEEDED", True)]
    statistics = stubs.statistics(crawl)
    assert (statistics.succeeded_count, statistics.bytes_count) == (1, 123)
    assert statistics.fetch_status_counts == {200: 1}


def test_a_heartbeat_tells_limits_and_which_leases_to_let_go(stubs: Stubs, crawl: str) -> None:
    (lease,) = stubs.pages(crawl)
    answer = stubs.heartbeat([lease.token, b"forged"])
    assert list(answer.ended_tokens) == [b"forged"] and not answer.release_tokens
    assert answer.interval_duration == seconds(3) and answer.lease_duration == seconds(30)
    assert answer.limits.max_candidates == answer.limits.max_reports == 1000
    assert (answer.limits.max_message_bytes, answer.limits.max_uri_bytes) == (8 * 1024 * 1024, 8192)
    stubs.request(crawl, PAUSE)
    assert list(stubs.heartbeat([lease.token]).release_tokens) == [lease.token]
    stubs.finish(report(lease))
    assert list(stubs.heartbeat([lease.token]).ended_tokens) == [lease.token]


@pytest.mark.undivided("a crawl ends a moment after its last report")
def test_a_crawl_ends_by_itself_when_nothing_is_left(stubs: Stubs, crawl: str) -> None:
    (lease,) = stubs.pages(crawl)
    stubs.finish(report(lease))
    shown = stubs.describe(crawl)
    assert shown.status.state == crawl_pb2.CRAWL_STATE_FINISHED
    assert shown.status.exit_status == crawl_pb2.EXIT_STATUS_FINISHED
    states = [event.status_changed.state for event in stubs.events(crawl) if event.HasField("status_changed")]
    names = [crawl_pb2.CrawlState.Name(state).removeprefix("CRAWL_STATE_") for state in states]
    assert names == ["NASCENT", "PREPARING", "RUNNING", "EMPTY", "STOPPING", "FINISHED"]


# Figures and listings.


def test_the_server_describes_itself_and_its_nodes(stubs: Stubs, crawl: str) -> None:
    (lease,) = stubs.pages(crawl, node="described", session="one")
    beat = frontier_pb2.HeartbeatRequest(
        node="described",
        session="one",
        tokens=[lease.token],
        toe_steps=[frontier_pb2.ToeStepCount(step="FETCHING", count=3)],
    )
    stubs.frontier.Heartbeat(beat, timeout=TIMEOUT_S)
    answer = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=TIMEOUT_S)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", answer.version)
    assert answer.lease_duration == seconds(30)
    assert answer.limits.max_candidates == 1000
    latest = answer.nodes[0]
    assert (latest.node, latest.session, latest.leased_count) == ("described", "one", 1)
    assert [(step.step, step.count) for step in latest.toe_steps] == [("FETCHING", 3)]
    started: Timestamp = answer.start_time
    assert latest.last_seen_time.ToMilliseconds() >= started.ToMilliseconds() > 0


# Health.


@pytest.mark.parametrize("service", ["", *SERVICES])
def test_health_says_that_it_serves(stubs: Stubs, service: str) -> None:
    request = health_pb2.HealthCheckRequest(service=service)
    health: Any = health_pb2_grpc.HealthStub(stubs.channel)
    answer = health.Check(request, timeout=TIMEOUT_S)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_health_knows_no_other_service(stubs: Stubs) -> None:
    request = health_pb2.HealthCheckRequest(service="no.such.Service")
    health: Any = health_pb2_grpc.HealthStub(stubs.channel)
    assert refusal(lambda: health.Check(request, timeout=TIMEOUT_S)).code == grpc.StatusCode.NOT_FOUND
