"""Candidates of all kinds over real gRPC: nothing inside one can fail the request; each has its verdict."""

import os
from collections.abc import Iterable
from typing import Any

import grpc
import pytest
from frontier_harness.calls import TIMEOUT_S, Stubs, refused, seed_of
from frontier_harness.divided import VARIABLE

from frontier_server.service.answers import CRAWL_NUMBER_KEY
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

MIB = 1024 * 1024


def test_a_malformed_uri_is_a_verdict_in_its_place(stubs: Stubs, crawl: str) -> None:
    """tests/unit/test_canonical.py has more of them."""
    uris = ("", " ", "nope", "//host/x", "http://", "http://a b/", "http://[::1", "http://\x00/")
    assert stubs.schedule(crawl, *uris, f"{seed_of(crawl)}good") == [*["MALFORMED"] * len(uris), "QUEUED"]
    assert stubs.schedule(crawl, "ftp://a.example/", "data:,x") == ["UNSUPPORTED_SCHEME"] * 2


def test_the_limit_of_a_uri_is_the_published_one(stubs: Stubs, crawl: str) -> None:
    start = seed_of(crawl)
    sized = [start + "x" * (size - len(start)) for size in (8192, 8193, MIB)]
    assert stubs.schedule(crawl, *sized, "x" * MIB) == ["QUEUED", *["TOO_LONG"] * 3]


def test_the_limit_of_a_uri_counts_bytes_as_offered(stubs: Stubs, crawl: str) -> None:
    """A fragment is not part of the canonical form, but it is stored with the candidate."""
    assert stubs.schedule(crawl, f"{seed_of(crawl)}new#{'é' * 5000}") == ["TOO_LONG"]


def test_candidates_for_a_former_crawl_of_the_name_are_refused(stubs: Stubs, crawl: str) -> None:
    """A router sends them: their places follow the spec of the crawl that it knows."""
    request = frontier_pb2.ScheduleRequest(
        crawl=crawl, candidates=[frontier_pb2.Candidate(uri=f"{seed_of(crawl)}new")]
    )
    meant = ((CRAWL_NUMBER_KEY, "1000000"),)
    if VARIABLE in os.environ:
        pytest.skip("several shards: the front says which crawl it means")
    refused(
        lambda: stubs.frontier.Schedule(request, timeout=TIMEOUT_S, metadata=meant),
        grpc.StatusCode.NOT_FOUND,
        "UNKNOWN_CRAWL",
        "has number",
        "1000000",
    )
    assert stubs.schedule(crawl, f"{seed_of(crawl)}new") == ["QUEUED"]


@pytest.mark.undivided("a frontier of several shards tells no versions")
def test_verdicts_have_versions_unless_their_request_changes_the_scope(stubs: Stubs, crawl: str) -> None:
    def versions(*candidates: frontier_pb2.Candidate) -> tuple[bytes, bytes]:
        request = frontier_pb2.ScheduleRequest(crawl=crawl, candidates=candidates)
        answer = stubs.frontier.Schedule(request, timeout=TIMEOUT_S)
        return answer.scope_version, answer.seen_version

    link = frontier_pb2.Candidate(uri="http://elsewhere.example/", via=seed_of(crawl), path="L")
    seed = frontier_pb2.Candidate(uri="http://elsewhere.example/seed", seed=True)
    (lease,) = stubs.next(crawl).leases
    assert versions(link) == versions(link) == (lease.scope_version, lease.seen_version)
    assert all(versions(link))
    assert versions(link, seed) == (b"", lease.seen_version)
    scope, seen = versions(link)
    assert (scope != lease.scope_version, seen) == (True, lease.seen_version)


LIMITS: list[tuple[dict[str, Any], str]] = [
    ({"via": "x" * 8192, "path": "L"}, "QUEUED"),
    ({"via": "x" * 8193}, "TOO_LONG"),
    ({"via": "é" * 5000}, "TOO_LONG"),  # 10 000 bytes
    ({"via": "\x00\n\r\t \N{LINE SEPARATOR}", "path": "L"}, "QUEUED"),
    ({"via": "http://a.example/"}, "MALFORMED"),
    ({"base": "http://a.example/", "queue_key": "k" * 256}, "QUEUED"),
    ({"base": "x" * 8193}, "TOO_LONG"),
    ({"queue_key": "k" * 257}, "MALFORMED"),
    ({"path": "L" * 21}, "TOO_MANY_HOPS"),
    ({"path": "L" * MIB}, "TOO_LONG"),
    ({"path": "l"}, "MALFORMED"),
    ({"path": "L\n"}, "MALFORMED"),
    ({"annotations": b"\x00" * 16_384}, "QUEUED"),
    ({"annotations": b"\x00" * 16_385}, "TOO_LONG"),
    ({"directive": 99}, "MALFORMED"),
    ({"directive": -1}, "MALFORMED"),
    ({"precedence": 127}, "QUEUED"),
    ({"precedence": 128}, "MALFORMED"),
    ({"precedence": -1}, "MALFORMED"),
    ({"source": "http://seed.example/" + "x" * 8172}, "QUEUED"),
    ({"source": "http://seed.example/" + "x" * 8173}, "TOO_LONG"),
    ({"cost": 0}, "QUEUED"),
    ({"cost": 255}, "QUEUED"),
    ({"cost": 256}, "MALFORMED"),
    ({"cost": -1}, "MALFORMED"),
]


def test_a_candidate_beyond_a_limit_gets_a_verdict_in_its_place(stubs: Stubs, crawl: str) -> None:
    offered = [
        frontier_pb2.Candidate(uri=f"{seed_of(crawl)}{number}", **more)
        for number, (more, _) in enumerate(LIMITS)
    ]
    request = frontier_pb2.ScheduleRequest(crawl=crawl, candidates=offered)
    answer = stubs.frontier.Schedule(request, timeout=TIMEOUT_S)
    expected = [verdict for _, verdict in LIMITS]
    assert [crawl_pb2.Verdict.Name(given).removeprefix("VERDICT_") for given in answer.verdicts] == expected
    invalid = [place for place, verdict in enumerate(expected) if verdict in ("MALFORMED", "TOO_LONG")]
    assert [problem.index for problem in answer.problems] == invalid


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"path": "LZL"}, "path must consist of the letters E, I, L, M, P, R, S, X, got 'Z'"),
    ({"via": "http://a.example/"}, "path must give the hops from the seed to the URI when via is set"),
    ({"cost": 256}, "cost must be between 0 and 255, got 256"),
    ({"annotations": b"x" * 20_000}, "annotations must have at most 16384 bytes, got 20000"),
    ({"uri": "x"}, "uri must be an absolute URI with a host, got 'x'"),
    ({"uri": "x", "base": "also none"}, "uri must be an absolute URI with a host, got 'x'"),
    ({"uri": "ftp://a.example/"}, "the scheme must be http or https, got 'ftp:'"),
    ({"uri": "http://a.example/" + "x" * 9000}, "a URI must have at most 8192 bytes"),
    ({"queue_key": "a b"}, "queue_key must have 1 to 256 ASCII characters without spaces, got 'a b'"),
]


def test_the_fault_of_a_candidate_is_told(stubs: Stubs, crawl: str) -> None:
    good = frontier_pb2.Candidate(uri=f"{seed_of(crawl)}good")
    bad = [frontier_pb2.Candidate(**({"uri": f"{seed_of(crawl)}bad"} | wrong)) for wrong, _ in FAULTS]
    request = frontier_pb2.ScheduleRequest(crawl=crawl, candidates=[good, *bad, good])
    problems = stubs.frontier.Schedule(request, timeout=TIMEOUT_S).problems
    for place, (problem, (_, told)) in enumerate(zip(problems, FAULTS, strict=True), start=1):
        assert problem.index == place and problem.problem.startswith(told)


def test_a_relative_reference_is_resolved_against_its_base_and_stored_without_it(
    stubs: Stubs, crawl: str
) -> None:
    base = f"{seed_of(crawl)}docs/page"
    relative = frontier_pb2.Candidate(uri="../up?q#part", base=base, path="L", annotations=b"kept")
    other = frontier_pb2.Candidate(uri=f"{seed_of(crawl)}absolute", base="http://elsewhere.example/")
    request = frontier_pb2.ScheduleRequest(crawl=crawl, candidates=[relative, other])
    stubs.frontier.Schedule(request, timeout=TIMEOUT_S)
    waiting = {uri.candidate.uri: uri.candidate for uri in stubs.waiting(crawl)}
    stored = waiting[f"{seed_of(crawl)}up?q#part"]
    assert (stored.base, stored.path, stored.annotations) == ("", "L", b"kept")
    assert waiting[f"{seed_of(crawl)}absolute"].base == ""


def crawls(stubs: Stubs) -> Iterable[admin_pb2.Crawl]:
    return stubs.admin.ListCrawls(admin_pb2.ListCrawlsRequest(page_size=1000), timeout=TIMEOUT_S).crawls
