"""Which links a node remembers that the frontier has judged, and so offers no more."""

from pathlib import Path
from typing import Any

import pytest
from node_doubles.leases import held, lease
from node_doubles.reporting import Rig

from crawler_node.extraction.links import Hop, Outlink
from crawler_node.leases.offers import MAX_KNOWN_CRAWLS, MAX_KNOWN_LINKS, RecentLinks
from crawler_node.leases.report import FinishedPage
from toehold.frontier.v1.crawl_pb2 import (
    DISPOSITION_STALE,
    VERDICT_ALREADY_SEEN,
    VERDICT_OUT_OF_SCOPE,
    VERDICT_TOO_MANY_HOPS,
    Verdict,
)
from toehold.frontier.v1.frontier_pb2 import ReportResult


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def uri(number: int) -> str:
    return f"http://a.example/{number}"


def test_the_latest_links_are_remembered_and_those_before_forgotten() -> None:
    known, count = RecentLinks(), 3 * MAX_KNOWN_LINKS
    for number in range(count):
        known.add(uri(number))
    assert not any(uri(number) in known for number in range(count - MAX_KNOWN_LINKS))
    assert all(uri(number) in known for number in range(count - MAX_KNOWN_LINKS // 2, count))


def test_a_link_that_every_page_has_stays_remembered() -> None:
    known = RecentLinks()
    known.add("http://a.example/on-each-page")
    for number in range(3 * MAX_KNOWN_LINKS):
        known.add(uri(number))
        if number % 1_000 == 0:
            assert "http://a.example/on-each-page" in known
    assert "http://a.example/on-each-page" in known


def test_a_link_that_the_frontier_has_is_not_offered_again(rig: Rig) -> None:
    held(rig.book, lease("keeps the crawl in hand"))
    rig.put("a", "1", "R:2")
    rig.report()
    rig.put("b", "1", "R:2", "3")
    rig.report()
    assert [uris for what, uris in rig.client.told if what == "schedule"] == [["2", "1"], ["2", "3"]]


def test_a_link_that_has_changed_since_it_was_fetched_is_offered_although_it_is_known(rig: Rig) -> None:
    held(rig.book, lease("keeps the crawl in hand"))
    rig.put("http://h/", "http://h/1")
    rig.report()
    sitemap = rig.page("http://h/sitemap.xml")
    changed = Outlink("http://h/1", Hop.SITEMAP, "loc", refetch_before_ms=1_700_000_000_123)
    rig.reporter.put(FinishedPage(sitemap.held, sitemap.report, [changed], sitemap.stored_in))
    rig.report()
    offered = rig.client.candidates[-1]
    assert (offered.uri, offered.path) == ("http://h/1", "M")
    assert offered.refetch_before_time.ToMilliseconds() == 1_700_000_000_123


REFUSALS = (VERDICT_OUT_OF_SCOPE, VERDICT_TOO_MANY_HOPS)


def refused_twice(
    rig: Rig, verdict: Verdict.ValueType, first: dict[str, Any], second: dict[str, Any]
) -> bool:
    """Whether the link of a second page is offered, after it was refused when a first page had it."""
    rig.client.on_schedule = lambda crawl, candidates: [verdict] * len(candidates)
    held(rig.book, lease("keeps the crawl in hand"))
    for uri, page in ("a", first), ("b", second):
        rig.put(uri, "1", **page)
        rig.report()
    offered = [uris for what, uris in rig.client.told if what == "schedule"]
    assert offered in ([["1"]], [["1"], ["1"]])
    return len(offered) == 2


@pytest.mark.parametrize("verdict", REFUSALS)
@pytest.mark.parametrize("told", [b"", b"with verdicts alone"])
def test_a_refused_link_is_offered_again_if_leases_tell_no_version_of_the_scope(
    rig: Rig, told: bytes, verdict: Verdict.ValueType
) -> None:
    rig.client.versions = told, b"seen"
    assert refused_twice(rig, verdict, {}, {})


@pytest.mark.parametrize("verdict", REFUSALS)
def test_a_refused_link_is_not_offered_again_under_the_same_scope(
    rig: Rig, verdict: Verdict.ValueType
) -> None:
    rig.client.versions = b"1", b"seen"
    same = {"versions": (b"1", b"seen"), "path": "L"}
    assert not refused_twice(rig, verdict, same, same)


@pytest.mark.parametrize("verdict", REFUSALS)
@pytest.mark.parametrize("other", [{"versions": (b"2", b"seen")}, {"path": ""}, {"path": "LE"}], ids=str)
def test_a_refused_link_is_offered_again_under_another_scope_or_by_another_path(
    rig: Rig, verdict: Verdict.ValueType, other: dict[str, Any]
) -> None:
    rig.client.versions = b"1", b"seen"
    first = {"versions": (b"1", b"seen"), "path": "L"}
    assert refused_twice(rig, verdict, first, first | other)


def test_a_new_scope_clears_the_links_that_the_old_one_refused(rig: Rig) -> None:
    rig.client.on_schedule = lambda crawl, candidates: [VERDICT_OUT_OF_SCOPE] * len(candidates)
    for uri, link, scope in ("a", "1", b"1"), ("b", "2", b"2"), ("c", "1", b"2"), ("d", "1", b"2"):
        rig.client.versions = scope, b"seen"
        rig.put(uri, link, versions=(scope, b"seen"))
        rig.report()
    assert [uris for what, uris in rig.client.told if what == "schedule"] == [["1"], ["2"], ["1"]]


def test_the_target_of_a_redirect_is_offered_each_time(rig: Rig) -> None:
    rig.client.versions = b"1", b"seen"
    rig.client.on_schedule = lambda crawl, candidates: [VERDICT_OUT_OF_SCOPE] * len(candidates)
    for uri in "a", "b":
        rig.put(uri, "R:1", versions=(b"1", b"seen"))
        rig.report()
    assert [uris for what, uris in rig.client.told if what == "schedule"] == [["1"], ["1"]]


@pytest.mark.parametrize(("second", "times"), [(b"1", 1), (b"2", 2)], ids=["same", "other"])
def test_a_link_that_was_taken_in_is_known_as_long_as_the_memory_has_its_version(
    rig: Rig, second: bytes, times: int
) -> None:
    """Though the node holds no lease of the crawl in between, and the scope has grown."""
    for uri, scope, seen in ("a", b"1", b"1"), ("b", b"2", second):
        rig.client.versions = scope, seen
        rig.put(uri, "1", versions=(scope, seen))
        rig.report()
    assert [uris for what, uris in rig.client.told if what == "schedule"] == [["1"]] * times


@pytest.mark.parametrize("first", [(b"", b""), (b"", b"1"), (b"1", b"1")], ids=str)
def test_a_link_is_offered_again_once_the_memory_has_another_version(
    rig: Rig, first: tuple[bytes, bytes]
) -> None:
    """Whatever the verdicts told when it was offered first, and though a lease is held all the time."""
    held(rig.book, lease("keeps the crawl in hand"))
    rig.client.versions = b"1", b"1"
    rig.put("a", "0", versions=(b"1", b"1"))
    rig.report()
    for told, uri, versions in (first, "b", (b"1", b"1")), ((b"2", b"2"), "c", (b"2", b"2")):
        rig.client.versions = told
        rig.put(uri, "1", versions=versions)
        rig.report()
    assert [uris for what, uris in rig.client.told if what == "schedule"] == [["0"], ["1"], ["1"]]


def test_a_refused_link_is_offered_once_a_newer_lease_tells_of_another_scope(rig: Rig) -> None:
    """Also that of a page that was leased before."""
    rig.client.on_schedule = lambda crawl, candidates: [VERDICT_OUT_OF_SCOPE] * len(candidates)
    rig.client.versions = b"1", b"seen"
    rig.put("a", "1", versions=(b"1", b"seen"))
    rig.report()
    rig.put("b", "1", versions=(b"1", b"seen"))
    held(rig.book, lease("c", versions=(b"2", b"seen")))
    rig.report()
    assert [uris for what, uris in rig.client.told if what == "schedule"] == [["1"], ["1"]]


@pytest.mark.parametrize(
    ("path", "offered"), [("", ["elsewhere", "1"]), ("R", ["elsewhere", "1"]), ("L", ["elsewhere"])]
)
def test_a_refused_link_is_offered_beside_a_redirect_that_may_widen_the_scope(
    rig: Rig, path: str, offered: list[str]
) -> None:
    rig.client.on_schedule = lambda crawl, candidates: [VERDICT_OUT_OF_SCOPE] * len(candidates)
    rig.client.versions = same = b"1", b"seen"
    for uri in "a", "b":
        rig.put(uri, "1", versions=same, path="LL")
        if uri == "b":
            rig.put("redirects", "R:elsewhere", versions=same, path=path)
        rig.report()
    assert rig.client.told[-2] == ("schedule", offered)


def test_links_of_as_many_crawls_as_are_remembered_are_each_offered_once(rig: Rig) -> None:
    crawls = [f"crawl-{number}" for number in range(MAX_KNOWN_CRAWLS)]
    for time in range(2):
        for crawl in crawls:
            rig.client.versions = same = b"1", crawl.encode()
            rig.put(f"{crawl}-{time}", "1", crawl=crawl, versions=same)
            rig.report()
    assert [uris for what, uris in rig.client.told if what == "schedule"] == [["1"]] * len(crawls)


def test_nothing_is_remembered_of_a_crawl_of_which_no_lease_is_held(rig: Rig) -> None:
    """It may have been deleted and made anew since."""
    for uri in "a", "b":
        rig.put(uri, "1")
        rig.report()
    assert [uris for what, uris in rig.client.told if what == "schedule"] == [["1"], ["1"]]


def test_nothing_is_remembered_of_a_crawl_that_ended_a_lease(rig: Rig) -> None:
    held(rig.book, lease("keeps the crawl in hand"))
    rig.client.on_schedule = lambda crawl, candidates: [VERDICT_ALREADY_SEEN] * len(candidates)
    rig.client.on_finished = lambda reports: [ReportResult(disposition=DISPOSITION_STALE)] * len(reports)
    for uri in "a", "b":
        rig.put(uri, "1")
        rig.report()
    assert [uris for what, uris in rig.client.told if what == "schedule"] == [["1"], ["1"]]
