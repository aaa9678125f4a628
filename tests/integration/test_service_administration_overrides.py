"""Settings for a part of a crawl's URIs, put and removed while it runs, over real gRPC."""

from typing import Any

import grpc
import pytest
from frontier_harness.calls import INVALID, TIMEOUT_S, Stubs, fresh_name, refused, spec

from toehold.frontier.v1 import admin_pb2, crawl_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND
TRIES = {"retry": {"max_attempts": 3}}


def put(stubs: Stubs, crawl: str, prefix: str, settings: dict[str, Any]) -> crawl_pb2.Override:
    kept = stubs.ask("PutOverride", crawl, override={"surt_prefix": prefix, "settings": settings}).override
    assert isinstance(kept, crawl_pb2.Override)
    return kept


def listed(stubs: Stubs, crawl: str, **fields: Any) -> list[crawl_pb2.Override]:
    return [each for page in stubs.pages_of("ListOverrides", crawl, "overrides", **fields) for each in page]


@pytest.mark.parametrize(
    ("prefix", "kept"),
    [("a.example:8080", "http://(example,a,:8080)"), ("http://(example,a,", "http://(example,a,")],
)
def test_a_prefix_is_kept_as_a_surt_prefix(stubs: Stubs, crawl: str, prefix: str, kept: str) -> None:
    answer = put(stubs, crawl, prefix, TRIES)
    assert (answer.surt_prefix, answer.settings.retry.max_attempts) == (kept, 3)
    assert listed(stubs, crawl) == [answer]
    stubs.ask("DeleteOverride", crawl, surt_prefix=prefix)
    assert listed(stubs, crawl) == []


@pytest.mark.parametrize("name", ["fetch.cookies", "x" * 10_000])
def test_what_is_no_list_that_may_be_empty_is_refused_by_its_place(
    stubs: Stubs, crawl: str, name: str
) -> None:
    settings = {"empty_lists": ["retry.statuses", name], "retry": {"growth": 0.5}}
    problem = refused(lambda: put(stubs, crawl, "a.example", settings), INVALID, "INVALID_SPEC")
    assert set(problem.metadata) == {"empty_lists[1]", "retry.growth"}
    assert "fetch.credentials" in problem.metadata["empty_lists[1]"]


def test_overrides_are_listed_by_prefix_page_by_page(stubs: Stubs, crawl: str) -> None:
    kept = [put(stubs, crawl, f"h{number}.example", TRIES) for number in range(7)]
    assert listed(stubs, crawl) == kept
    for page_size in (1, 2, 7):
        pages = stubs.pages_of("ListOverrides", crawl, "overrides", page_size=page_size)
        assert [each for page in pages for each in page] == kept
        assert all(len(page) <= page_size for page in pages)


def test_all_that_is_wrong_with_an_override_is_told_at_once_by_path(stubs: Stubs, crawl: str) -> None:
    """What the whole crawl has one of, and values that make no sense, together."""
    settings = {
        "politeness": {"delay_factor": -1.0},
        "retry": {"growth": 0.5},
        "queues": {"partition": "host", "buckets": 7, "cost": "free", "base_precedence": 999},
        "host_quota": {"max_successes": -5},
        "revisit": {"policy": "sometimes"},
    }
    problem = refused(lambda: put(stubs, crawl, "a.example", settings), INVALID, "INVALID_SPEC")
    assert set(problem.metadata) == {
        *("politeness.delay_factor", "retry.growth", "queues.partition", "queues.buckets", "queues.cost"),
        *("queues.base_precedence", "host_quota.max_successes", "revisit.policy"),
    }
    assert "free" in problem.metadata["queues.cost"] and "unit" in problem.metadata["queues.cost"]
    assert "whole crawl" in problem.metadata["queues.partition"]
    assert listed(stubs, crawl) == []


@pytest.mark.parametrize("settings", [{}, {"queues": {}, "politeness": {}}])
def test_an_override_that_sets_nothing_is_refused(stubs: Stubs, crawl: str, settings: dict[str, Any]) -> None:
    problem = refused(
        lambda: put(stubs, crawl, "a.example", settings),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
        "the override is empty",
    )
    assert problem.metadata == {"field": "override.settings"}


def test_an_override_longer_than_may_be_kept_is_refused(stubs: Stubs, crawl: str) -> None:
    settings = {"fetch": {"reject_media_types": ["text/html"] * 7_000}}
    refused(lambda: put(stubs, crawl, "a.example", settings), INVALID, "INVALID_ARGUMENT_VALUE", "65536")
    assert listed(stubs, crawl) == []


@pytest.mark.parametrize("prefix", ["", "ftp://a.example"])
def test_a_prefix_that_is_none_is_refused(stubs: Stubs, crawl: str, prefix: str) -> None:
    problem = refused(lambda: put(stubs, crawl, prefix, TRIES), INVALID, "INVALID_ARGUMENT_VALUE")
    assert problem.metadata == {"field": "surt_prefix"}
    assert listed(stubs, crawl) == []


@pytest.mark.parametrize("prefix", ["a.example", "no prefix at all"])
def test_an_override_that_is_not_there_is_named(stubs: Stubs, crawl: str, prefix: str) -> None:
    put(stubs, crawl, "b.example", TRIES)
    problem = refused(
        lambda: stubs.ask("DeleteOverride", crawl, surt_prefix=prefix), NOT_FOUND, "UNKNOWN_OVERRIDE"
    )
    assert problem.metadata == {"crawl": crawl, "surt_prefix": prefix}
    assert len(listed(stubs, crawl)) == 1


def test_pages_of_large_specs_and_overrides_stay_below_four_mib(stubs: Stubs) -> None:
    """gRPC's own limit, which the test's client has."""
    names = [fresh_name() for _ in range(8)]
    for name in names:
        prefixes = [f"http://(example,{name},)/{number}/{'x' * 80}" for number in range(9_000)]
        stubs.create(name, spec(scope={"surt_prefixes": prefixes}))
    found: list[str] = []
    request = admin_pb2.ListCrawlsRequest(page_size=1000)
    while True:
        answer = stubs.admin.ListCrawls(request, timeout=TIMEOUT_S)
        assert answer.ByteSize() < 4 * 1024 * 1024
        found += [crawl.crawl for crawl in answer.crawls]
        if not answer.next_page_token:
            break
        request.page_token = answer.next_page_token
    assert set(names) <= set(found) and found == sorted(found)
    for name in names:
        stubs.ask("DeleteCrawl", name)
