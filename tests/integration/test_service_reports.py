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
from frontier_harness.odd_values import odd_fields
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

MIB = 1024 * 1024


def test_no_number_in_a_report_breaks_the_server_its_statistics_or_its_log(
    server: ServerProcess,
) -> None:
    """Each is sent for a page on a host of its own; one that is refused is followed by a sane report."""
    stubs, crawl = server.stubs, fresh_name()
    odd = list(odd_fields(frontier_pb2.Report))
    odd.remove(("fetch_status", -1))  # which is one that every node sends
    stubs.launch(crawl, *(seed_of(crawl, f"h{number}.") for number in range(len(odd))))
    pages: list[frontier_pb2.Lease] = []
    for field, value in odd:
        lease = (pages or (pages := stubs.pages(crawl))).pop()
        sent = report(lease)
        sent.ClearField(field)  # type: ignore[arg-type]  # a field of Report
        sent.MergeFrom(frontier_pb2.Report(**{field: value}))  # type: ignore[arg-type]
        ((disposition, _),) = stubs.finish(sent)
        if disposition == "INVALID_REPORT":
            ((disposition, _),) = stubs.finish(report(lease))
        assert disposition == "SUCCEEDED", (field, value)
        stubs.statistics(crawl)
    statistics = stubs.statistics(crawl)
    assert statistics.succeeded_count == len(odd) > 30
    times = [value for field, value in odd if field == "revisit_time"]
    assert statistics.queued_count + statistics.future_count == len(times) > 0, "each is to be fetched again"
    stubs.request(crawl, crawl_pb2.TARGET_STATE_FINISH)
    assert stubs.describe(crawl).status.state == crawl_pb2.CRAWL_STATE_FINISHED
    log = server.data / "crawls" / crawl / "crawl.log"
    eventually(lambda: log.exists() and len(log.read_text().splitlines()) == 2 * len(odd), "the log to go on")


@pytest.mark.parametrize("size", [2**63 - 1, 2**50 + 1])
def test_a_body_larger_than_any_disk_is_refused_for_each_page_of_a_host(stubs: Stubs, size: int) -> None:
    """Their sum could be neither stored nor told."""
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl))
    stubs.schedule(crawl, *(f"{seed_of(crawl)}{number}" for number in range(3)))
    for _ in range(4):
        (lease,) = stubs.pages(crawl)
        assert stubs.finish(report(lease, body_bytes=size)) == [("INVALID_REPORT", False)]
        assert stubs.finish(report(lease, body_bytes=2**50)) == [("SUCCEEDED", False)]
    (host,) = stubs.ask("ListHosts", crawl).hosts
    (source,) = stubs.ask("ListSources", crawl).sources
    assert (host.succeeded_bytes_count, source.response_bytes_count) == (2**50 * 4, 2**50)
    assert stubs.statistics(crawl).bytes_count == 2**50 * 4


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"outcome": 99}, "99"),
        ({"outcome": 0}, "OUTCOME_RELEASED, got 0"),
        ({"outcome": -1}, "-1"),
        ({"fetch_status": 0}, "FetchStatus, got 0"),
        ({"fetch_status": 99}, "99"),
        ({"fetch_status": 1000}, "1000"),
        ({"fetch_status": -12345}, "-12345"),
        ({"truncation": 99}, "99"),
        ({"body_bytes": -1}, "-1"),
        ({"fetch_duration": seconds(-1)}, "fetch_duration"),
        ({"fetch_duration": seconds(86_401)}, "fetch_duration"),
        ({"retry_after_duration": seconds(-1)}, "retry_after_duration"),
        ({"robots_body": b"User-agent: *"}, "robots_body"),
        ({"annotations": ["x"] * 17}, "17"),
        ({"annotations": ["x" * 129]}, "xxx"),
        ({"annotations": ["a b"]}, "a b"),
        ({"annotations": ["a,b"]}, "a,b"),
        ({"annotations": ["a\nb"]}, "annotation"),
        ({"annotations": ["a\x0bb"]}, "annotation"),
        ({"annotations": ["a\N{LINE SEPARATOR}b"]}, "annotation"),
        ({"annotations": ["a\N{NO-BREAK SPACE}b"]}, "annotation"),
        ({"annotations": [""]}, "annotation"),
        ({"media_type": "x" * 257}, "media_type"),
        ({"digest": "x" * 257}, "digest"),
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


@pytest.mark.parametrize(
    "token", [b"", b"x", b"\x00" * 37, b"\xff" * 37, b"x" * MIB, "token".encode("utf-16")]
)
def test_a_token_that_was_never_given_out_is_told_so(stubs: Stubs, token: bytes) -> None:
    assert stubs.finish(report(token)) == [("UNKNOWN_TOKEN", False)]
    if len(token) <= 128:
        assert list(stubs.heartbeat([token]).ended_tokens) == [token]
    else:
        told = ("tokens[1]", str(len(token)), "128")
        refused(lambda: stubs.heartbeat([b"x", token]), INVALID, "INVALID_ARGUMENT_VALUE", *told)


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


def test_a_token_whose_lease_was_released_is_stale(stubs: Stubs, crawl: str) -> None:
    (lease,) = stubs.pages(crawl)
    handed_back = frontier_pb2.Report(token=lease.token, outcome=frontier_pb2.OUTCOME_RELEASED)
    assert stubs.finish(handed_back) == [("RELEASED", False)]
    assert stubs.finish(report(lease), handed_back) == [("STALE", False), ("STALE", False)]
    assert stubs.statistics(crawl).succeeded_count == 0


def test_a_token_of_a_crawl_that_was_deleted_is_stale(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl))
    (lease,) = stubs.pages(crawl)
    stubs.finish(report(lease))
    stubs.admin.DeleteCrawl(admin_pb2.DeleteCrawlRequest(crawl=crawl), timeout=TIMEOUT_S)
    assert stubs.finish(report(lease)) == [("STALE", False)]


# What is kept of a visit, and of a candidate.


def test_the_next_visit_has_what_the_last_one_said_and_the_source(stubs: Stubs) -> None:
    """S1.15: a report's time for the next visit; the lease hands the validators back."""
    crawl = fresh_name()
    stubs.launch(crawl, seed_of(crawl))
    (first,) = stubs.pages(crawl)
    assert (first.etag, first.last_modified, first.last_digest) == ("", "", "")
    assert first.source == seed_of(crawl)
    captured = Timestamp(seconds=1_700_000_000, nanos=123_000_000)
    told = report(first, etag='"7"', last_modified="yesterday", digest="sha1:ABC", revisit_time=Timestamp())
    told.capture_time.CopyFrom(captured)
    assert not first.HasField("capture_time")
    assert stubs.finish(told) == [("SUCCEEDED", False)]
    (second,) = stubs.pages(crawl)
    assert (second.capture_time, second.capture_uri) == (captured, first.uri)
    assert (second.uri, second.source) == (first.uri, first.source)
    assert (second.etag, second.last_modified, second.last_digest) == ('"7"', "yesterday", "sha1:ABC")


@pytest.mark.parametrize(
    "address", ["www.example.com", "192.0.2.1:80", "x" * 10_000, "fe80::1%" + "x" * 5_000_000]
)
def test_an_address_that_is_none_makes_a_report_invalid_and_the_lease_goes_on(
    stubs: Stubs, crawl: str, address: str
) -> None:
    (lease,) = stubs.pages(crawl)
    answer = stubs.frontier.Finished(finished_request(report(lease, peer_address=address)), timeout=TIMEOUT_S)
    assert answer.results[0].disposition == crawl_pb2.DISPOSITION_INVALID_REPORT
    assert address[:80] in answer.results[0].problem and len(answer.results[0].problem) < 200
    assert stubs.finish(report(lease, peer_address="192.0.2.1")) == [("SUCCEEDED", False)]
