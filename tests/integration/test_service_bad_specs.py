"""Crawls that cannot be, over real gRPC: all that is wrong is told at once, each by its path."""

import math

import grpc
import pytest
from frontier_harness.calls import INVALID, Stubs, fresh_name, refused, seconds, spec

from toehold.frontier.v1 import crawl_pb2

MIB = 1024 * 1024


@pytest.mark.parametrize("name", ["", "A", "-a", "a" * 65, "../a", "a\n", "é", "a" * MIB])
def test_a_name_that_cannot_be_a_crawls_is_refused(stubs: Stubs, name: str) -> None:
    refused(lambda: stubs.create(name), INVALID, "INVALID_NAME", repr(name[:10])[1:-1], "1 to 64")


def test_a_name_of_all_that_is_allowed_is_taken(stubs: Stubs) -> None:
    name = "0-_." + "z" * 60
    assert stubs.create(name).crawl == name
    problem = refused(lambda: stubs.create(name), grpc.StatusCode.ALREADY_EXISTS, "CRAWL_EXISTS", name)
    assert problem.metadata == {"crawl": name}


BAD = crawl_pb2.CrawlSpec(
    contact="nobody",
    allowed_addresses=["loopback", "nowhere"],
    limits=crawl_pb2.LimitSpec(max_documents=-1, host_quota=crawl_pb2.QuotaSpec(max_successes=-1)),
    scope=crawl_pb2.ScopeSpec(accept_patterns=["good", "a(?=b)"]),
    politeness=crawl_pb2.PolitenessSpec(delay_factor=math.nan),
    groups=[crawl_pb2.HostGroup(name="g", hosts=["g.example", "g.example:80:80"], min_gap=seconds(-1))],
    queues=crawl_pb2.QueueSpec(partition="nonsense", success_thresholds=[1, 0]),
    fetch=crawl_pb2.FetchSpec(reject_media_types=["text/"]),
    weight=-1,
)
BAD.robots.unreachable = 99  # type: ignore[assignment]  # any number may come
WRONG = {
    *("contact", "allowed_addresses[1]", "limits.max_documents", "limits.host_quota.max_successes"),
    *("scope.accept_patterns[1]", "politeness.delay_factor", "groups[0].hosts[1]", "groups[0].min_gap"),
    *("queues.partition", "queues.success_thresholds[1]", "weight", "robots.unreachable"),
    *("allowed_addresses[0]", "fetch.reject_media_types[0]"),
}
"""Of each kind of field, in each kind of place, one; tests/unit/test_settings.py has them all."""


def test_all_that_is_wrong_is_told_at_once_by_its_path_with_what_would_be_right(stubs: Stubs) -> None:
    crawl = fresh_name()
    problem = refused(lambda: stubs.create(crawl, BAD), INVALID, "INVALID_SPEC", "contact")
    assert set(problem.metadata) == WRONG
    assert "registered-domain" in problem.metadata["queues.partition"]
    refused(lambda: stubs.describe(crawl), grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL")


@pytest.mark.sampled("text", ["x" * 300, "é" * 300, "\N{PILE OF POO}" * 300])
@pytest.mark.sampled("count", [1, 40, 1000])
def test_the_refusal_of_a_spec_is_short_enough_to_arrive(stubs: Stubs, text: str, count: int) -> None:
    """gRPC throws away trailers beyond 8 KiB, and the refusal with them."""
    bad = spec()
    bad.scope.hosts.extend(f"{number}/{text}" for number in range(count))
    bad.contact = text
    problem = refused(lambda: stubs.create(fresh_name(), bad), INVALID, "INVALID_SPEC", "contact")
    assert "contact" in problem.metadata


def test_a_spec_with_more_entries_than_can_be_handled_at_once_is_refused(stubs: Stubs) -> None:
    """The server does nothing else while it looks at them; seeds' hosts are in scope anyway."""
    many = spec()
    many.scope.hosts.extend(f"h{number}.example" for number in range(100_000))
    problem = refused(
        lambda: stubs.create(fresh_name(), many), INVALID, "INVALID_SPEC", "scope.hosts", "100000"
    )
    assert set(problem.metadata) == {"scope.hosts"}
    many = spec(contact="bot@example.org")
    many.allowed_addresses[:] = [f"10.{number // 250}.{number % 250}.0/24" for number in range(50_000)]
    refused(lambda: stubs.create(fresh_name(), many), INVALID, "INVALID_SPEC", "allowed_addresses", "50000")
