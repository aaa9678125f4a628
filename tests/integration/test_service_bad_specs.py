"""Crawls that cannot be, over real gRPC: all that is wrong is told at once, each by its path."""

import functools
import math
import re
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from frontier_harness.calls import INVALID, Stubs, fresh_name, refusal, refused, spec
from frontier_harness.odd_values import ODD_SECONDS
from google.protobuf.duration_pb2 import Duration

from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.spec.table import OneOf, Text, Within, rows_of
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


def bad_spec() -> tuple[crawl_pb2.CrawlSpec, set[str]]:
    """A spec with every field wrong that can be, and their paths."""
    bad = crawl_pb2.CrawlSpec(contact="nobody", allowed_addresses=["loopback", "10.0.0.1/8", "nowhere"])
    wrong = set(spoilt(CrawlSettings, bad))
    bad.scope.hosts.extend(["a.example", "http://a.example/", ""])
    bad.scope.surt_prefixes.extend(["+a.example", "-no host", "http://(com,example"])
    bad.scope.accept_patterns.extend(["good", "a(?=b)"])
    bad.scope.reject_patterns.append("[")
    bad.robots.unreachable = 99  # type: ignore[assignment]  # any number may come
    bad.retry.statuses.add(fetch_status=404)
    bad.retry.statuses.add(fetch_status=200, max_attempts=0)
    bad.fetch.proxy = "socks5://proxy.example:1080"
    bad.fetch.credentials.add(surt_prefix="no host", user="a:b", password="\n")
    bad.identity.rewrites.add(pattern="(", replacement="")
    bad.identity.rewrites.add(pattern="a", replacement=r"\1")
    bad.groups.add(name="no good", hosts=["g.example", "g.example:80:80"], max_parallel=0)
    return bad, wrong | {
        "contact",
        "allowed_addresses[0]",
        "allowed_addresses[1]",
        "allowed_addresses[2]",
        "scope.hosts[1]",
        "scope.hosts[2]",
        "scope.surt_prefixes[1]",
        "scope.accept_patterns[1]",
        "scope.reject_patterns[0]",
        "robots.unreachable",
        "retry.statuses[1].fetch_status",
        "retry.statuses[1].max_attempts",
        "fetch.proxy",
        "fetch.credentials[0].surt_prefix",
        "fetch.credentials[0].user",
        "fetch.credentials[0].password",
        "identity.rewrites[0].pattern",
        "identity.rewrites[1].replacement",
        "groups[0].name",
        "groups[0].hosts[1]",
        "groups[0].max_parallel",
    }


def spoilt(part: type, message: Any, path: str = "") -> Iterator[str]:
    """Set each field of a spec that has a bound in the table to what is beyond it; their paths."""
    for row in rows_of(part):
        name, bound = row.contract_name, row.element_bound or row.bound
        at = f"{path}{name}[0]" if row.element is not None else f"{path}{name}"
        if row.is_part:
            yield from spoilt(row.kind, getattr(message, name), f"{at}.")
        elif isinstance(bound, Within | OneOf | Text):
            bad: Any = (
                "not so"
                if not isinstance(bound, Within)
                else math.nan
                if row.kind is float
                else bound.least - 1
            )
            if row.element is not None:
                getattr(message, name).append(bad)
            elif row.ms:
                getattr(message, name).FromMilliseconds(bad)
            else:
                setattr(message, name, bad)
            yield at


def durations() -> list[str]:
    """The paths of all lengths of time in a spec."""
    parts: list[tuple[str, type]] = [("", CrawlSettings)]
    parts += [(f"{row.name}.", row.kind) for row in rows_of(CrawlSettings) if row.is_part]
    return [f"{path}{row.contract_name}" for path, part in parts for row in rows_of(part) if row.ms]


def put(spec: crawl_pb2.CrawlSpec, path: str, length: Duration) -> None:
    """Set a length of time of a spec."""
    *parts, field = path.split(".")
    getattr(functools.reduce(getattr, parts, spec), field).CopyFrom(length)


@pytest.mark.parametrize("part", sorted({re.split(r"[.\[]", path)[0] for path in bad_spec()[1]}))
def test_all_that_is_wrong_with_a_part_of_a_spec_is_told_at_once_by_its_path(stubs: Stubs, part: str) -> None:
    whole, all_wrong = bad_spec()
    bad = spec()
    for field, _ in whole.ListFields():
        if field.name != part:
            whole.ClearField(field.name)  # type: ignore[arg-type]  # a field of CrawlSpec
    wrong = {path for path in all_wrong if re.match(rf"{part}\b", path)}
    if part == "allowed_addresses":
        bad.ClearField(part)  # type: ignore[arg-type]  # the same
        bad.contact = "https://example.org/bot"
    bad.MergeFrom(whole)
    problem = refused(lambda: stubs.create(fresh_name(), bad), INVALID, "INVALID_SPEC", part)
    assert set(problem.metadata) == wrong


def test_what_is_wrong_in_all_parts_of_a_spec_is_told_as_far_as_it_fits(stubs: Stubs) -> None:
    bad, wrong = bad_spec()
    problem = refused(lambda: stubs.create(fresh_name(), bad), INVALID, "INVALID_SPEC", "contact", "robots.")
    assert len(problem.metadata) >= 40
    assert set(problem.metadata) <= wrong


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


@pytest.mark.parametrize("length", [*ODD_SECONDS, 10**9])
def test_a_gap_that_no_group_can_use_is_refused_by_its_place(stubs: Stubs, length: int) -> None:
    bad = spec()
    bad.groups.add(name="good", hosts=["g.example"])
    bad.groups.add(name="bad", hosts=["h.example"], min_gap=Duration(seconds=length))
    problem = refused(lambda: stubs.create(fresh_name(), bad), INVALID, "INVALID_SPEC")
    assert set(problem.metadata) == {"groups[1].min_gap"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.5, 1e308])
def test_a_factor_that_is_no_number_to_multiply_with_is_refused(stubs: Stubs, value: float) -> None:
    bad = crawl_pb2.CrawlSpec(allowed_addresses=["loopback"])
    bad.politeness.delay_factor = bad.retry.growth = value
    problem = refused(lambda: stubs.create(fresh_name(), bad), INVALID, "INVALID_SPEC", str(value))
    assert set(problem.metadata) == {"politeness.delay_factor", "retry.growth"}


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


@pytest.mark.parametrize(
    "contact", ["x", "a@b", "http://", "https://a.example/)x", "a@b.example\r\nX: y", "é@b.example"]
)
def test_a_contact_that_cannot_stand_in_a_header_is_refused(stubs: Stubs, contact: str) -> None:
    refused(lambda: stubs.create(fresh_name(), spec(contact=contact)), INVALID, "INVALID_SPEC", "contact")


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
