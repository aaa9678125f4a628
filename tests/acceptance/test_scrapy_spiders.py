"""Spiders do on a frontier what they do without one."""

import json
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from acceptance.outcomes import crawl_log, pages
from acceptance.programs import Programs, toehold
from acceptance.spiders import spider
from frontier_harness.waiting import eventually
from node_doubles.loopback import Site, header_lines, ok, redirect

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, ScopeSpec
from toehold_client import CrawlController, FrontierClient

HTML = b"Content-Type: text/html"
SPEC = {
    "contact": "someone@example.com",
    "allowed_addresses": ["loopback"],
    "scope": {"accept_patterns": [".*"]},
    "politeness": {"min_delay_seconds": 0, "delay_factor": 0, "overload_delay_seconds": 0.1},
    "retry": {"max_attempts": 2, "delay_seconds": 0.1},
    "robots": {"max_attempts": 1},
}
NAMES = "PRACTICE_HOSTS=refused.test=192.0.2.1,127.0.0.1=127.0.0.1"


@pytest.fixture
def site() -> Iterator[Site]:
    """A site on loopback."""
    served = Site()
    yield served
    served.close()


def test_an_unchanged_spider_needs_three_settings(site: Site, programs: Programs, tmp_path: Path) -> None:
    quotes = [b'<div class="quote"><span class="text">Quote %d</span></div>' % number for number in range(3)]
    author = b'<span class="author">A</span><a href="/author/a">(about)</a>'
    site.answers = {
        "/robots.txt": redirect("/elsewhere.txt"),
        "/elsewhere.txt": ok(b"User-agent: *\nDisallow: /page/3\n"),
        "/page/1": ok(quotes[0] + author + b'<li class="next"><a href="/page/2">on</a></li>', HTML),
        "/page/2": ok(quotes[1] + author + b'<li class="next"><a href="/page/3">on</a></li>', HTML),
        "/author/a": ok(b"<h3>Author A</h3>", HTML),
    }
    frontier = programs.frontier(tmp_path / "data")
    spec = CrawlSpec(allowed_addresses=["loopback"])
    spec.politeness.min_delay.FromMilliseconds(10)
    spec.fetch.headers.append("Accept-Language: de")
    with FrontierClient(frontier.address) as client:
        CrawlController(client, "docs").create(spec)
    items = tmp_path / "items.jsonl"
    author_spider = spider(
        *(programs, "author", "tutorial.py", frontier.address, "docs"),
        *("-a", f"start={site.url('/page/1')}", "-o", str(items)),
    )
    assert author_spider.wait() == 0, author_spider.complaints
    told = sorted(" ".join(item.values()) for item in _items(items))
    assert told == ["Author A", "Quote 0", "Quote 1"]
    asked = Counter(request.split(b" ")[1].decode() for request in site.requests)
    assert asked == dict.fromkeys(site.answers, 1)
    agents = {agent for request in site.requests for agent in header_lines(request, b"User-Agent")}
    assert [agent.partition(b"/")[0] for agent in agents] == [b"toehold"]
    assert {tuple(header_lines(request, b"Accept-Language")) for request in site.requests} == {(b"de",)}


def test_callbacks_meta_errbacks_redirects_and_retries_work_as_before(
    site: Site, programs: Programs, tmp_path: Path
) -> None:
    flaky, busy = count(), count()
    site.answers = {
        "/robots.txt": ok(b"User-agent: *\nDisallow: /private/\n"),
        **{path: ok(b"<p>", HTML) for path in ("/", "/only-start", "/meta", "/headers", "/new", "/post")},
        **{path: ok(b"<p>", HTML) for path in ("/function", "/raises", "/swapped", "/blocks")},
        "/old": redirect("/new"),
        "/missing": b"HTTP/1.1 404 Not found\r\nContent-Length: 0\r\n\r\n",
        "/cut": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        "/flaky": lambda client: client.sendall(ok(b"ready" if next(flaky) else b"not yet", HTML)),
        "/busy": lambda client: client.sendall(ok(b"<p>", HTML) if next(busy) else _BUSY),
    }
    frontier = programs.frontier(tmp_path / "data", "--lease-seconds", "2", "--heartbeat-seconds", "0.3")
    items = tmp_path / "items.jsonl"
    features = spider(
        *(programs, "features", "features.py", frontier.address, "docs"),
        *("-a", f"site={site.url('')}", "-o", str(items), "-s", f"TOEHOLD_SPEC={_spec_file(tmp_path)}"),
        *("-s", "TWISTED_DNS_RESOLVER=spiders.resolving.PracticeResolver", "-s", NAMES),
    )
    assert features.wait() == 0, features.complaints
    told = {item["page"]: item for item in _items(items)}
    assert len(_items(items)) == len(told) + 1  # /only-start came twice
    assert all(item.pop("stored") for item in told.values())
    assert told == {
        "start": {"page": "start"},
        "/": {"page": "/", "word": "first"},
        "/only-start": {"page": "/only-start"},
        "/meta": {"page": "/meta", "same": True, "flags": ["f"]},
        "/headers": {"page": "/headers"},
        "/new": {"page": "/new", "kept": 1, "over": [site.url("/old")]},
        "/missing": {"page": "/missing", "error": "HttpError"},
        "/swapped": {"page": "/swapped"},
        "/blocks": {"page": "/blocks"},
        "/cached": {"page": "/cached"},
        "/cut": {"page": "/cut", "error": "ResponseDataLossError"},
        "/flaky": {"page": "/flaky", "retries": 1},
        "/busy": {"page": "/busy"},
        "/post": {"page": "/post"},
        "/function": {"page": "/function"},
    }
    asked = Counter(request.split(b" ")[1].decode() for request in site.requests)
    assert asked == {**dict.fromkeys(site.answers, 1), "/flaky": 2, "/busy": 2, "/only-start": 2}
    [headers] = [request for request in site.requests if request.startswith(b"GET /headers ")]
    assert header_lines(headers, b"X-Own") == [b"one"]
    assert header_lines(headers, b"Cookie") == [b"c=1"]
    assert header_lines(headers, b"Referer") == [site.url("/").encode()]
    logged = pages(crawl_log(tmp_path / "data/crawls/docs/crawl.log"))
    statuses = {(line.url.removeprefix(site.url("")), line.path): line.status for line in logged}
    assert statuses == {
        ("/", "-"): 200,
        ("/only-start", "-"): 200,
        ("/only-start", "LRL"): 200,
        ("/meta", "L"): 200,
        ("/headers", "L"): 200,
        ("/old", "L"): 301,
        ("/new", "LR"): 200,
        ("/missing", "L"): 404,
        ("/private/page", "L"): -9998,
        ("/swapped", "L"): 200,
        ("/blocks", "L"): 200,
        ("/cached", "L"): 203,
        ("/cut", "L"): 200,
        ("/flaky", "L"): 200,
        ("/flaky", "LL"): 200,
        ("/busy", "L"): 200,
        ("/raises", "L"): 200,
        ("http://refused.test/", "L"): -7,
        ("http://unknown.test/", "L"): -61,
    }
    refusal = "refused.test is at 192.0.2.1, which is not loopback (allowed_addresses)"
    assert f"WARNING: Address refused: {refusal}" in features.complaints
    assert "refused.test: DNS" not in features.complaints
    with FrontierClient(frontier.address) as client:
        outcomes = CrawlController(client, "docs").outcomes()
        assert {each.reason for each in outcomes if each.fetch_status == -7} == {refusal}
        statistics = client.get_statistics("docs").statistics
        assert statistics.annotation_counts["hookFailed"] == 1  # `raises`
    assert "WARNING: No robots.txt from http://unknown.test/robots.txt: DNS lookup" in features.complaints
    assert features.complaints.count("Traceback") == 1, features.complaints  # of `raises`


def test_a_spider_ends_when_it_is_drained_or_replaced_or_cannot_read_its_crawl(
    site: Site, programs: Programs, tmp_path: Path
) -> None:
    links = b"".join(b'<span class="author"></span><a href="/%d"></a>' % number for number in range(100))
    site.answers = {path: ok(b"<p>", HTML) for path in ("/robots.txt", *(f"/{n}" for n in range(100)))}
    site.answers["/"] = ok(links, HTML)
    frontier = programs.frontier(tmp_path / "data", "--heartbeat-seconds", "0.2")
    spec = CrawlSpec(allowed_addresses=["loopback"])
    spec.politeness.min_delay.FromMilliseconds(500)
    with FrontierClient(frontier.address) as client:
        CrawlController(client, "docs").create(spec)
    start = ("-a", f"start={site.url('/')}", "-s", "TOEHOLD_NODE=node")
    first = spider(programs, "first", "tutorial.py", frontier.address, "docs", *start)
    eventually(lambda: len(site.requests) > 3, "pages of the first process")
    second = spider(programs, "second", "tutorial.py", frontier.address, "docs", *start)
    assert first.wait() == 0
    assert "Spider closed (toehold_superseded)" in first.complaints
    asked = len(site.requests)
    eventually(lambda: len(site.requests) > asked + 2, "pages of the second process")
    drained = toehold("nodes", "drain", "node", "--frontier", frontier.address)
    assert drained.returncode == 0, drained.stderr
    assert second.wait() == 0
    assert "Spider closed (toehold_drained)" in second.complaints
    assert "Traceback" not in first.complaints + second.complaints
    again = len(site.requests) - len({request.split(b" ")[1] for request in site.requests})
    assert again <= 1  # what the first process had in flight
    asked = len(site.requests)
    other = spider(programs, "other", "practice.py", frontier.address, "docs", *start)
    assert other.wait() == 1
    assert (
        "ERROR: Crawl 'docs' belongs to another spider, or to another version of this one: "
        in other.complaints
    )
    assert "Spider closed (toehold_misconfigured)" in other.complaints
    assert len(site.requests) == asked
    with FrontierClient(frontier.address) as client:
        left = CrawlController(client, "docs").statistics().statistics
    assert (left.failed_count, left.leased_count) == (0, 0)


def test_a_node_on_the_same_frontier_takes_none_of_a_spiders_pages(
    site: Site, programs: Programs, tmp_path: Path
) -> None:
    lists = range(12)
    elsewhere = b'<a href="http://127.0.0.9:%d/">elsewhere</a>' % site.port
    site.answers = {"/robots.txt": ok(b""), "/own": ok(elsewhere, HTML)}
    for number in lists:
        authors = b"".join(
            b'<span class="author">A</span><a href="/author/%d-%d">(about)</a>' % (number, author)
            for author in range(20)
        )
        quote = b'<div class="quote"><span class="text">Q</span></div>'
        following = b'<li class="next"><a href="/list/%d">on</a></li>' % (number + 1)
        site.answers[f"/list/{number}"] = ok(quote + authors + elsewhere + following, HTML)
        for author in range(20):
            site.answers[f"/author/{number}-{author}"] = ok(b"<h3>A</h3>" + elsewhere, HTML)
    frontier = programs.frontier(tmp_path / "data")
    node = programs.node("node", frontier.address, tmp_path / "warcs")
    quick = {**SPEC, "limits": {"max_documents": 150}}
    items = tmp_path / "items.jsonl"
    docs = spider(
        *(programs, "docs", "tutorial.py", frontier.address, "docs", "-a", f"start={site.url('/list/0')}"),
        *("-s", f"TOEHOLD_SPEC={_spec_file(tmp_path, quick)}", "-o", str(items)),
    )
    with FrontierClient(frontier.address, patience_s=60) as client:
        own = CrawlController(client, "own")
        own.create(
            CrawlSpec(allowed_addresses=["loopback"], scope=ScopeSpec(max_link_hops=0)), [site.url("/own")]
        )
        own.launch()
        own.wait_for("FINISHED", timeout_s=60)
        assert docs.wait() == 0, docs.complaints
        crawl = CrawlController(client, "docs")
        crawl.wait_for("FINISHED", timeout_s=60)
        assert crawl.describe().spec.fetcher == "scrapy"
        joined = {event.node_joined.node for event in crawl.events() if event.HasField("node_joined")}
        assert not [each for each in joined if not each.startswith("scrapy-")]
        assert {queue.host for queue in client.list_queues("docs")} == {"127.0.0.1"}, (
            "nobody followed other links"
        )
        assert crawl.statistics().statistics.succeeded_count == 150
        assert own.statistics().statistics.succeeded_count == 1
    assert len(_items(items)) == 150
    node.signal(signal.SIGTERM)
    assert node.wait() == 0, node.complaints


def test_a_spider_without_a_frontier_ends_with_a_plain_message(programs: Programs) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        alone = spider(programs, "alone", "tutorial.py", address, "docs", "-a", "start=http://a.test/")
        assert alone.wait() == 1
    assert f"ERROR: no frontier answers at {address}" in alone.complaints
    assert "Closing spider (toehold_cannot_join)" in alone.complaints
    assert "Traceback" not in alone.complaints


_BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


def _items(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def _spec_file(folder: Path, spec: dict[str, Any] = SPEC) -> Path:
    file = folder / "spec.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in spec.items() if not isinstance(value, dict)]
    for key, table in spec.items():
        if isinstance(table, dict):
            lines += [f"[{key}]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
    file.write_text("\n".join(lines))
    return file
