"""What came of a crawl, over real gRPC: statistics of hosts, sources and seeds, statistics, reasons."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from core_doubles.memory_store import MemoryStore
from frontier_harness.calls import INVALID, PAUSE, TIMEOUT_S, Stubs, fresh_name, refused, report, seed_of
from frontier_harness.hosted import hosted

from frontier_server.core.operators.views import Views
from frontier_server.core.state.model import CrawlView
from frontier_server.service.crawls import CRAWLS_AT_ONCE
from toehold.frontier.v1 import admin_pb2, frontier_pb2


@pytest.fixture
def crawled(stubs: Stubs) -> str:
    """A crawl of two hosts, paused with URIs left: a success, a failure, a URI that robots.txt forbids."""
    crawl = fresh_name()
    seeds = [seed_of(crawl, host) for host in ("a.", "b.", "late.")]
    stubs.launch(crawl, *seeds[:2])
    rules = b"User-agent: *\nDisallow: /private"
    robots = list(stubs.next(crawl, wait_s=20).leases)
    while len(robots) < 2:
        robots += stubs.next(crawl, wait_s=20).leases
    stubs.finish(
        *(
            frontier_pb2.Report(
                token=lease.token,
                outcome=frontier_pb2.OUTCOME_FETCHED,
                fetch_status=200,
                robots_body=rules if lease.uri.startswith("http://a.") else b"",
                robots_empty=not lease.uri.startswith("http://a."),
            )
            for lease in robots
        )
    )
    stubs.schedule(crawl, f"{seeds[0]}private/x", f"{seeds[1]}left")
    leases = {lease.uri: lease for lease in stubs.pages(crawl, least=2)}
    stubs.finish(
        report(leases[seeds[0]], 404, body_bytes=10, media_type="text/html", digest="sha1:A"),
        report(leases[seeds[1]], -4),
    )
    stubs.request(crawl, PAUSE)
    stubs.seed(crawl, seeds[2])
    stubs.ended(crawl, 2)
    return crawl


def statistics_of(stubs: Stubs, rpc: str, crawl: str, items: str) -> dict[str, admin_pb2.FetchStatistics]:
    found = [each for page in stubs.pages_of(rpc, crawl, items, page_size=1) for each in page]
    assert found == [each for page in stubs.pages_of(rpc, crawl, items) for each in page]
    return {each.name: each for each in found}


def test_hosts_tell_what_came_of_them(stubs: Stubs, crawled: str) -> None:
    """Heritrix 2.16: FetchStats of hosts."""
    found = statistics_of(stubs, "ListHosts", crawled, "hosts")
    assert set(found) == {f"a.{crawled}.example", f"b.{crawled}.example"}
    good, bad = found[f"a.{crawled}.example"], found[f"b.{crawled}.example"]
    assert (good.succeeded_count, good.failed_count, good.disregarded_count) == (1, 0, 1)
    assert (good.robots_denied_count, good.response_count, good.non_response_count) == (1, 1, 1)
    assert (good.succeeded_bytes_count, good.response_bytes_count) == (10, 10)
    assert (good.novel_count, good.novel_bytes_count) == (1, 10)
    assert good.HasField("last_success_time")
    assert (bad.succeeded_count, bad.failed_count, bad.response_count, bad.non_response_count) == (0, 1, 0, 1)
    assert not bad.HasField("last_success_time")


def test_a_seed_that_was_not_announced_has_no_story(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl)
    stubs.seed(crawl, *(f"{seed_of(crawl)}{number}" for number in range(250)))
    pages = stubs.pages_of("ListSeeds", crawl, "seeds", page_size=1000)
    seeds = [seed for page in pages for seed in page]
    assert [seed.uri for seed in seeds] == [f"{seed_of(crawl)}{number}" for number in range(250)]
    assert not any(seed.HasField("story") for seed in seeds)


@pytest.mark.parametrize("subject", ["uri", "queue_key"])
def test_a_subject_without_a_name_is_refused(stubs: Stubs, crawl: str, subject: str) -> None:
    problem = refused(
        lambda: stubs.ask("Explain", crawl, **{subject: ""}), INVALID, "INVALID_ARGUMENT_VALUE", subject
    )
    assert problem.metadata == {"field": subject}


def test_a_long_page_of_crawls_is_read_in_parts_with_others_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    read = Views.crawls_after

    def crawls_after(self: Views, name: str, most: int) -> list[CrawlView]:
        asked.append(most)
        return read(self, name, most)

    monkeypatch.setattr(Views, "crawls_after", crawls_after)
    with hosted(MemoryStore(), tmp_path) as host:
        names = [f"c{number:03}" for number in range(45)]
        for name in names:
            host.stubs.create(name)
        for size, pages in ((1000, [45]), (20, [20, 20, 5]), (15, [15, 15, 15]), (7, [7] * 6 + [3])):
            told = [[crawl.crawl for crawl in page] for page in crawl_pages(host.stubs, size)]
            assert [len(page) for page in told] == pages
            assert [name for page in told for name in page] == names
    assert max(asked) <= CRAWLS_AT_ONCE


def crawl_pages(stubs: Stubs, size: int) -> Iterator[list[admin_pb2.Crawl]]:
    """All pages of ListCrawls."""
    token = ""
    while True:
        request = admin_pb2.ListCrawlsRequest(page_size=size, page_token=token)
        answer = stubs.admin.ListCrawls(request, timeout=TIMEOUT_S)
        yield list(answer.crawls)
        token = answer.next_page_token
        if not token:
            return
