"""Reports and tokens of all kinds over real gRPC: an outcome in their place, and a server that goes on."""

from pathlib import Path
from typing import Any

import pytest
from frontier_harness.calls import (
    INVALID,
    TIMEOUT_S,
    Stubs,
    finished_request,
    fresh_name,
    refused,
    report,
    seconds,
    seed_of,
)
from frontier_harness.process import ServerProcess

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"outcome": 99}, "99"),
        ({"outcome": 0}, "OUTCOME_RELEASED, got 0"),
        ({"fetch_status": 0}, "FetchStatus, got 0"),
        ({"truncation": 99}, "99"),
        ({"fetch_duration": seconds(-1)}, "fetch_duration"),
        ({"annotations": ["a\N{LINE SEPARATOR}b"]}, "annotation"),
        ({"peer_address": "192.0.2.1:80"}, "192.0.2.1:80"),
    ],
    ids=lambda value: str(value).strip()[:40],
)
def test_a_report_that_makes_no_sense_is_told_why_and_its_lease_goes_on(
    stubs: Stubs, crawl: str, more: dict[str, Any], named: str
) -> None:
    (lease,) = stubs.pages(crawl)
    odd = report(lease)
    for field in more:
        odd.ClearField(field)  # type: ignore[arg-type]  # a field of Report
    odd.MergeFrom(frontier_pb2.Report(**more))
    answer = stubs.frontier.Finished(finished_request(odd), timeout=TIMEOUT_S)
    (result,) = answer.results
    assert result.disposition == crawl_pb2.DISPOSITION_INVALID_REPORT
    assert named in result.problem
    assert stubs.statistics(crawl).leased_count == 1
    assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]


def test_a_robots_txt_beyond_its_cap_is_told_and_its_lease_goes_on(stubs: Stubs, crawl: str) -> None:
    (lease,) = stubs.next(crawl, wait_s=TIMEOUT_S).leases
    assert lease.purpose == frontier_pb2.PURPOSE_ROBOTS
    odd = report(lease, robots_body=b"x" * (500 * 1024 + 1))
    answer = stubs.frontier.Finished(finished_request(odd), timeout=TIMEOUT_S)
    assert answer.results[0].disposition == crawl_pb2.DISPOSITION_INVALID_REPORT
    assert str(500 * 1024) in answer.results[0].problem
    assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]


# Tokens.


def test_a_token_that_was_never_given_out_is_told_so(stubs: Stubs) -> None:
    tokens = [b"", b"x", b"\x00" * 37, b"\xff" * 37, "token".encode("utf-16")]
    assert stubs.finish(*map(report, [*tokens, b"x" * MIB])) == [("UNKNOWN_TOKEN", False)] * 6
    assert list(stubs.heartbeat(tokens).ended_tokens) == tokens
    told = ("tokens[1]", str(MIB), "128")
    refused(lambda: stubs.heartbeat([b"x", b"x" * MIB]), INVALID, "INVALID_ARGUMENT_VALUE", *told)


def test_a_token_with_any_bit_changed_is_forged(stubs: Stubs, crawl: str) -> None:
    (lease,) = stubs.pages(crawl)
    forged = []
    for place in range(8 * len(lease.token)):
        data = bytearray(lease.token)
        data[place // 8] ^= 1 << place % 8
        forged.append(bytes(data))
    forged += [lease.token[:-1], lease.token + b"\x00", lease.token * 2]
    results = stubs.finish(*(report(token) for token in forged))
    assert results == [("UNKNOWN_TOKEN", False)] * len(forged)
    assert list(stubs.heartbeat(forged).ended_tokens) == forged
    assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]


def test_a_token_of_another_server_is_unknown(stubs: Stubs, crawl: str, tmp_path: Path) -> None:
    (lease,) = stubs.pages(crawl)
    with ServerProcess(tmp_path / "data") as other:
        other.stubs.launch(crawl, seed_of(crawl))
        assert other.stubs.finish(report(lease)) == [("UNKNOWN_TOKEN", False)]


def test_a_token_of_a_crawl_that_was_deleted_is_stale(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl))
    (lease,) = stubs.pages(crawl)
    stubs.finish(report(lease))
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_FINISHED)
    stubs.admin.DeleteCrawl(admin_pb2.DeleteCrawlRequest(crawl=crawl), timeout=TIMEOUT_S)
    assert stubs.finish(report(lease)) == [("STALE", False)]


# What is kept of a visit, and of a candidate.
