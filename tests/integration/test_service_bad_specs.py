"""Crawls that cannot be, over real gRPC: all that is wrong is told at once, each by its path."""

import functools
import math

import grpc
import pytest
from frontier_harness.calls import INVALID, Stubs, fresh_name, refusal, refused, seconds, spec
from frontier_harness.odd_values import ODD_SECONDS
from google.protobuf.duration_pb2 import Duration

from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.spec.table import rows_of
from toehold.frontier.v1 import crawl_pb2

MIB = 1024 * 1024


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A",
        "-a",
        ".a",
        "_a",
        "a" * 65,
        "a/b",
        "../a",
        "a b",
        "a\n",
        "a\x00",
        "é",
        "..",
        "a" * MIB,
        "\N{PILE OF POO}" * 10_000,
    ],
)
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


def durations() -> list[str]:
    """The paths of all lengths of time in a spec."""
    parts: list[tuple[str, type]] = [("", CrawlSettings)]
    parts += [(f"{row.name}.", row.kind) for row in rows_of(CrawlSettings) if row.is_part]
    return [f"{path}{row.contract_name}" for path, part in parts for row in rows_of(part) if row.ms]


def put(spec: crawl_pb2.CrawlSpec, path: str, length: Duration) -> None:
    """Set a length of time of a spec."""
    *parts, field = path.split(".")
    getattr(functools.reduce(getattr, parts, spec), field).CopyFrom(length)


@pytest.mark.parametrize("path", durations())
def test_a_length_of_time_that_no_crawl_can_use_is_refused_by_its_path(stubs: Stubs, path: str) -> None:
    for length in (*ODD_SECONDS, 10**9):
        bad = spec()
        put(bad, path, Duration(seconds=length))
        problem = refusal(lambda bad=bad: stubs.create(fresh_name(), bad))  # type: ignore[misc]  # bound by its default
        assert (problem.code, problem.reason) == (INVALID, "INVALID_SPEC"), problem
        assert path in problem.metadata


@pytest.mark.parametrize("path", ["pause_timeout", "stop_timeout", "statistics_interval"])
def test_a_wait_of_a_crawls_life_is_between_a_second_and_a_day(stubs: Stubs, path: str) -> None:
    for length in (Duration(), Duration(nanos=999_000_000), Duration(seconds=86_400, nanos=1_000_000)):
        bad = spec()
        put(bad, path, length)
        problem = refused(lambda bad=bad: stubs.create(fresh_name(), bad), INVALID, "INVALID_SPEC", path)  # type: ignore[misc]  # bound by its default
        assert set(problem.metadata) == {path}
    for length in (Duration(seconds=1), Duration(seconds=86_400)):
        good = spec()
        put(good, path, length)
        assert getattr(stubs.create(fresh_name(), good).spec, path) == length


@pytest.mark.parametrize("most", [-(2**31), -1, 1_000_001, 2**31 - 1])
def test_a_number_of_toes_that_no_crawl_has_is_refused(stubs: Stubs, most: int) -> None:
    bad = spec(max_toes=most)
    problem = refused(lambda: stubs.create(fresh_name(), bad), INVALID, "INVALID_SPEC", "max_toes", str(most))
    assert set(problem.metadata) == {"max_toes"}


@pytest.mark.parametrize("text", ["x" * 300, "é" * 300, "\N{PILE OF POO}" * 300])
@pytest.mark.parametrize("count", [1, 40, 1000])
def test_the_refusal_of_a_spec_is_short_enough_to_arrive(stubs: Stubs, text: str, count: int) -> None:
    """gRPC throws away trailers beyond 8 KiB, and the refusal with them."""
    bad = spec()
    bad.scope.hosts.extend(f"{number}/{text}" for number in range(count))
    bad.contact = text
    problem = refused(lambda: stubs.create(fresh_name(), bad), INVALID, "INVALID_SPEC", "contact")
    assert "contact" in problem.metadata


@pytest.mark.parametrize("addresses", [[], ["public"], ["10.0.0.0/8"], ["127.0.0.0/8"]])
def test_a_crawl_beyond_loopback_needs_a_contact(stubs: Stubs, addresses: list[str]) -> None:
    name = fresh_name()
    without = crawl_pb2.CrawlSpec(allowed_addresses=addresses)
    problem = refused(lambda: stubs.create(name, without), INVALID, "INVALID_SPEC", "contact")
    assert set(problem.metadata) == {"contact"}
    for contact in ("https://example.org/bot", "crawler@example.org"):
        with_one = crawl_pb2.CrawlSpec(allowed_addresses=addresses, contact=contact)
        assert stubs.create(fresh_name(), with_one).spec.contact == contact
    refused(lambda: stubs.create(name, crawl_pb2.CrawlSpec()), INVALID, "INVALID_SPEC", "contact")


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
