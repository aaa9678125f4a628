"""An exclusion on a running crawl: what waits is not fetched, and says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.programs import Programs, json_of, toehold
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually
from node_doubles.loopback import Site, ok

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_client import CrawlController, FrontierClient

PAGES = 60


@pytest.fixture
def site() -> Iterator[Site]:
    """A site with a trap: a start page with links to pages and to a calendar, alternately."""
    served = Site()
    links = [f"/{folder}/{number}" for number in range(PAGES) for folder in ("page", "calendar")]
    body = "".join(f'<a href="{link}">on</a>' for link in links).encode()
    html = b"Content-Type: text/html"
    served.answers = {"/robots.txt": ok(b""), "/": ok(body, html)}
    served.answers |= dict.fromkeys(links, ok(b"<p>", html))
    yield served
    served.close()


def test_an_exclusion_keeps_waiting_urls_from_being_fetched(
    site: Site, programs: Programs, tmp_path: Path
) -> None:
    frontier = programs.frontier(tmp_path / "data")
    programs.node("node", frontier.address, tmp_path / "warcs")
    spec = CrawlSpec(allowed_addresses=["loopback"])
    spec.politeness.min_delay.FromMilliseconds(500)  # so that most of it waits when it is excluded
    spec.politeness.delay_factor = 0
    at = ("--crawl", "docs", "--frontier", frontier.address)
    with FrontierClient(frontier.address) as client:
        crawl = CrawlController(client, "docs")
        crawl.create(spec, [site.url("/")])
        crawl.launch()
        eventually(lambda: calendars(site), "a page of the trap")
        changed = toehold("set", *at, 'scope.reject_patterns=["https?://[^/]+/calendar/.*"]')
        assert changed.returncode == 0, changed.stderr
        # The host gets one request at a time, so a lease from before ends before the next page is asked for.
        seen = pages(site)
        eventually(lambda: pages(site) > seen, "a page after the exclusion")
        before = calendars(site)
        crawl.update({"politeness": {"min_delay_seconds": 0.02}})
        crawl.wait_for("FINISHED", timeout_s=WHOLE_CRAWL_S)
        assert 0 < calendars(site) == before < PAGES, "and every other page of the site was fetched"
        assert len({request.split(b" ")[1] for request in site.requests}) == PAGES + before + 2
        statistics = crawl.statistics().statistics
        assert (statistics.disregarded_count, statistics.queued_count) == (PAGES - before, 0)
        rules = {each.rule: each.refused_count for each in client.list_refusals("docs")}
        assert rules == {"scope.reject_patterns[0]": PAGES - before}
    shown = json_of("uris", "show", *at, site.url(f"/calendar/{PAGES - 1}"))
    assert "scope.reject_patterns[0] = https?://[^/]+/calendar/.*" in str(shown)


def pages(site: Site) -> int:
    """How many pages outside of the trap were asked for, apart from the start page."""
    return sum(request.startswith(b"GET /page/") for request in site.requests)


def calendars(site: Site) -> int:
    """How many pages of the trap were asked for."""
    return sum(request.startswith(b"GET /calendar/") for request in site.requests)
