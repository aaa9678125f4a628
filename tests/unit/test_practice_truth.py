"""The judges of the practice web: a good crawl passes, and every planted fault is found."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from practice_web import links, render, robots, traps, truth
from practice_web.log import Entry, read
from practice_web.reply import Reply
from practice_web.web import ORIGINS, Web

HOPS = 6


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    pages = tmp_path_factory.mktemp("practice") / "pages"
    raw = (
        '<html><head><title>t</title></head><body><a href="b.html">b</a><a href="http://x.org/">x</a></body>'
    )
    render.weave({"a": raw, "b": raw, "c.d": raw}, pages)
    return Web(pages, {origin.key: 20_000 + number for number, origin in enumerate(ORIGINS)})


def entry(web: Web, key: str, path: str, start: float, duration_s: float = 0.01, **more: object) -> Entry:
    origin = web.origins[key]
    plain = Entry(
        start_time=1_000_000.0 + start,
        start=start,
        duration_s=duration_s,
        scheme=origin.scheme,
        host=origin.name,
        port=web.ports[key],
        method="GET",
        path=path,
        status=200,
        bytes_sent=100,
        user_agent="toehold",
        aborted=False,
        retry_until=None,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def a_good_crawl(web: Web, urls: Iterable[str]) -> list[Entry]:
    """Robots first, then every page once, a second apart."""
    places = [found for url in sorted(urls) if (found := web.find(url))]
    log: list[Entry] = []
    for origin in ORIGINS:
        for path in (robots.PATH, *(path for its, path in places if its is origin)):
            log.append(entry(web, origin.key, path, float(len(log))))
    return log


def complaints(web: Web, log: list[Entry]) -> list[str]:
    expected = truth.expected_pages(web, HOPS)
    return [
        *truth.missing_pages(expected, log),
        *truth.unexpected_requests(web, expected, log),
        *truth.forbidden_requests(web, log),
        *truth.robots_first_violations(web, log),
        *truth.overlaps_and_gaps(web, log, 0.5),
        *truth.impatient_requests(log),
        *truth.repeated_requests(web, log, 3),
        *truth.early_retries(web, log, 2.0),
    ]


def test_a_good_crawl_draws_no_complaint(web: Web) -> None:
    log = a_good_crawl(web, truth.expected_pages(web, HOPS).required)
    assert len(log) > 150
    assert complaints(web, log) == []


def test_requests_that_overlap_or_come_too_soon_are_found(web: Web) -> None:
    log = [
        entry(web, "alpha", "/robots.txt", 0.0),
        entry(web, "alpha", "/1", 1.0, 0.5),
        entry(web, "alpha", "/2", 1.4, 0.1),
        entry(web, "beta", "/3", 1.6, 0.1),
        entry(web, "alpha", "/4", 1.99, 0.1),
    ]
    overlap, soon = truth.overlaps_and_gaps(web, log, 0.5)
    assert "overlap on www.alpha.example: /2 began before /1" in overlap
    assert "/4 came 0.490 s after /2, 0.500 s were due" in soon
    assert truth.overlaps_and_gaps(web, log[3:], 0.5) == []


def test_all_ports_of_a_name_are_one_host(web: Web) -> None:
    log = [entry(web, "theta", "/", 1.0, 0.5), entry(web, "theta-plain", "/", 1.2)]
    assert len(truth.overlaps_and_gaps(web, log, 0.1)) == 1


def test_crawl_delay_is_due_once_robots_txt_is_known(web: Web) -> None:
    log = [
        entry(web, "nu", "/robots.txt", 1.0),
        entry(web, "nu", "/", 1.1),
        entry(web, "nu", "/traps/", 1.4),
    ]
    (soon,) = truth.overlaps_and_gaps(web, log, 0.05)
    assert "/traps/ came 0.290 s after /, 0.500 s were due" in soon


def test_the_end_of_a_request_that_was_broken_off_is_not_judged(web: Web) -> None:
    log = [
        entry(web, "iota", "/traps/huge.html", 1.0, 5.0, aborted=True),
        entry(web, "iota", "/a", 2.0, 5.0, aborted=True),
        entry(web, "iota", "/b", 3.0),
    ]
    assert truth.overlaps_and_gaps(web, log, 0.5) == []
    assert len(truth.overlaps_and_gaps(web, log, 1.5)) == 2


def test_hops_to_a_robots_txt_are_not_judged_by_the_host_that_they_touch(web: Web) -> None:
    log = [
        entry(web, "rho", "/shared/robots.txt", 0.9),
        entry(web, "rho", "/robots.txt", 0.91),
        entry(web, "omicron", "/moved-robots/1", 0.95),
    ]
    assert truth.overlaps_and_gaps(web, log, 0.5) == []
    assert truth.robots_first_violations(web, log) == []
    assert truth.forbidden_requests(web, log) == []


def test_forbidden_paths_and_the_closed_host_are_found(web: Web) -> None:
    log = [
        entry(web, "iota", "/private/by-link.html", 1.0),
        entry(web, "xi", "/robots.txt", 1.0, status=503),
        entry(web, "xi", "/", 2.0),
        entry(web, "theta", "/members/", 3.0),
        entry(web, "alpha", "/members/", 4.0),
    ]
    found = truth.forbidden_requests(web, log)
    assert [
        line.rpartition("/private")[1] or line.partition("//")[2].partition(":")[0] for line in found
    ] == [
        "/private",
        "closed.xi.example",
        "secure.theta.example",
    ]


def test_a_page_before_its_robots_txt_was_answered_is_found(web: Web) -> None:
    log = [
        entry(web, "beta", "/early", 0.5),
        entry(web, "beta", "/robots.txt", 1.0, 0.5),
        entry(web, "beta", "/meanwhile", 1.2),
        entry(web, "beta", "/after", 1.6),
        entry(web, "gamma", "/never", 9.0),
    ]
    found = [line.rpartition("/")[2] for line in truth.robots_first_violations(web, log)]
    assert found == ["early", "meanwhile", "never"]


def test_pages_may_be_asked_for_once_or_as_often_as_is_right(web: Web) -> None:
    twice = [entry(web, "alpha", "/a.html", at) for at in (1.0, 2.0)]
    retried = [entry(web, "kappa", "/traps/always", at) for at in (1.0, 5.0, 9.0)]
    robots_again = [entry(web, "xi", "/robots.txt", at) for at in (1.0, 5.0, 9.0, 20.0)]
    assert len(truth.repeated_requests(web, twice, 3)) == 1
    assert truth.repeated_requests(web, twice, 3, again=[twice[0].url]) == []
    assert truth.repeated_requests(web, retried + robots_again, 3) == []
    assert len(truth.repeated_requests(web, retried, 2)) == 1
    assert truth.is_retried(web, retried[0].url)
    assert not truth.is_retried(web, twice[0].url)


def test_missing_and_unreasoned_requests_are_found(web: Web) -> None:
    expected = truth.expected_pages(web, HOPS)
    log = a_good_crawl(web, expected.required)
    lost = log.pop(1)
    log.append(entry(web, "iota", "/calendar/2026/06", 5_000.0))
    log.append(entry(web, "iota", "/traps/odd/comment.html", 5_001.0))
    assert truth.missing_pages(expected, log) == [f"never requested: {lost.url}"]
    assert len(truth.unexpected_requests(web, expected, log)) == 2


def test_the_endless_calendar_is_bounded_by_the_hop_limit(web: Web) -> None:
    months = [url for url in truth.expected_pages(web, HOPS).required if "/calendar/" in url]
    assert sorted(url[-2:] for url in months) == ["01", "02", "03", "04", "05"]
    assert len([url for url in truth.expected_pages(web, 20).required if "/calendar/" in url]) == 19


def test_scope_is_the_seeds_hosts(web: Web) -> None:
    expected = truth.expected_pages(web, 3, seeds=[web.url("theta-plain", "/")])
    assert sorted(expected.required) == [
        web.url("theta-plain", path) for path in ("/", "/traps/", "/traps/across.html", "/traps/twin.html")
    ]


def test_requests_before_retry_after_and_hasty_retries_are_found(web: Web) -> None:
    log = [
        entry(web, "kappa", "/traps/twice", 1.0, 0.0, status=503, retry_until=1_000_003.0),
        entry(web, "kappa", "/traps/", 2.5),
        entry(web, "kappa", "/traps/twice", 3.5),
    ]
    assert truth.impatient_requests(log) == [
        f"requested 0.500 s before Retry-After had passed: {web.url('kappa', '/traps/')}"
    ]
    (hasty,) = truth.early_retries(web, log, 3.0)
    assert hasty.startswith("retried after 2.500 s, 3.000 s were due")
    unreported = [web.url("kappa", "/traps/twice")]
    assert truth.impatient_requests(log, unreported) == [], "who heard it was killed"
    assert truth.early_retries(web, log, 3.0, unreported) == []


@pytest.mark.parametrize(
    ("key", "target", "allowed"),
    [
        ("rho", "/private/", False),
        ("rho", "/private/page.html", False),
        ("rho", "/private/open.html", True),
        ("rho", "/privately", True),
        ("rho", "/tool.cgi", False),
        ("rho", "/tool.cgi?run", True),
        ("rho", "/search?lang=en&q=word", False),
        ("rho", "/search?lang=en&q=allowed", True),
        ("rho", "/search?lang=en", True),
        ("rho", "/deep/one/secret.html", False),
        ("rho", "/deep/secret.html", True),
        ("rho", "/exact", False),
        ("rho", "/exactly", True),
        ("rho", "/caf%C3%A9/", False),
        ("rho", "/cafe/", True),
        ("alpha", "/members/", True),
        ("beta", "/members/", True),
        ("gamma", "/members/", True),
        ("delta", "/members/", True),
        ("epsilon", "/members/", False),
        ("zeta", "/members/", False),
        ("eta", "/members/", False),
        ("theta", "/members/", False),
        ("theta", "/", True),
        ("xi", "/", False),
        ("xi", "/robots.txt", True),
        ("omicron", "/private/page.html", False),
        ("pi", "/private/page.html", False),
        ("pi", "/traps/open.html", True),
    ],
)
def test_robots_rules_are_read_as_rfc_9309_says(key: str, target: str, allowed: bool) -> None:
    assert robots.allows(key, target) is allowed


def test_the_judges_reader_finds_every_kind_of_link(web: Web) -> None:
    row = traps.find("iota", "/traps/kinds.html")
    assert row is not None
    assert row.links is not None
    url = web.url("iota", row.path)
    origin = web.origins["iota"]
    said = {(letter, web.with_ports(link.encode()).decode()) for letter, link in row.links}
    assert links.links(url, web.reply(origin, row.path, 0)) == said


def test_a_base_moves_fragments_too() -> None:
    answer = Reply(body=b'<base href="/b/"><a href="#part">1</a><a href="c.html">2</a>')
    assert links.links("http://x.example/a/", answer) == {
        ("L", "http://x.example/b/"),
        ("L", "http://x.example/b/c.html"),
    }


def test_every_trap_is_reached_from_its_hosts_first_page_or_forbidden(web: Web) -> None:
    expected = truth.expected_pages(web, 20)
    for row in traps.TRAPS:
        url = web.url(row.origin, row.path)
        if robots.allows(row.origin, row.path):
            assert url in expected.required | expected.optional
            assert (url in expected.required) is row.required
        else:
            assert url not in expected.required | expected.optional


def test_links_get_the_ports_of_our_own_hosts_only(web: Web) -> None:
    said = '<a href="http://www.alpha.example/x">, https://secure.theta.example/, http://b\u00fccher.example/'
    ports = web.ports
    assert web.with_ports(said.encode()).decode() == (
        f'<a href="http://www.alpha.example:{ports["alpha"]}/x">,'
        f" https://secure.theta.example:{ports['theta']}/, http://b\u00fccher.example:{ports['omicron']}/"
    )
    foreign = b"http://out.of.scope.example/ http://www.alpha.example.org/ ftp://www.alpha.example/"
    assert web.with_ports(foreign) == foreign


def test_a_line_still_being_written_is_left_out_of_the_log(web: Web, tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    whole = '{"start_time": 1, "start": %d, "duration_s": 1, "scheme": "http", "host": "h", "port": 1,'
    rest = (
        ' "method": "GET", "path": "/", "status": 200, "bytes_sent": 1, "user_agent": "", "aborted": false,'
        ' "retry_until": null}\n'
    )
    file.write_text(whole % 2 + rest + whole % 1 + rest + '{"start_time"')
    assert [line.start for line in read(file)] == [1, 2]
    assert read(tmp_path / "none") == []
