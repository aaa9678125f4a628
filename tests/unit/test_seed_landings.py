"""Seeds that redirect: what the seeds' report says of them, and whether they count as fetched."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from core_doubles.codec import candidate
from core_doubles.lives import NAME
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.spec.settings import (
    CrawlSettings,
    PolitenessSettings,
    RetrySettings,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.state.model import Candidate, Grant, Report, SeedResult, SeedView

SITE, WWW, SAFE = "http://site.example", "http://www.site.example", "https://site.example"
SETTINGS = CrawlSettings(
    allowed_addresses=("loopback",),
    robots=RobotsSettings(policy="ignore"),
    politeness=PolitenessSettings(min_delay_ms=0, max_delay_ms=0, delay_factor=0.0),
    retry=RetrySettings(max_attempts=1),
    scope=ScopeSettings(max_redirect_hops=20),
)
FETCHED, REDIRECTED, PENDING = SeedResult.FETCHED, SeedResult.REDIRECTED, SeedResult.PENDING

Web = Mapping[str, str | int]
"""What URIs answer: a target of a redirect, or a status; 200 if it says nothing."""


def launched(*seeds: str, settings: CrawlSettings = SETTINGS) -> Shell:
    shell = Shell()
    shell.create(NAME, settings)
    shell.launch(NAME, *seeds)
    return shell


def offered(grant: Grant, target: str, redirects: bytes, cookies: bytes = b"", now: bytes = b"") -> Candidate:
    """What a node offers for the target of a redirect."""
    return candidate(
        target,
        via=grant.uri,
        path=grant.candidate.path + "R",
        source=grant.source,
        redirects=redirects,
        cookies_sent=cookies,
        cookies_now=now,
    )


def crawled(shell: Shell, web: Web, most: int = 100, cookies: bytes = b"") -> Shell:
    """A node fetches so many pages; it offers the targets of redirects, and reports."""
    for _ in range(most):
        shell.tick()
        for grant in shell.grants(NAME, most=1):
            answer = web.get(grant.uri, 200)
            if isinstance(answer, str):
                shell.schedule(NAME, offered(grant, answer, grant.redirects, cookies))
            status = 302 if isinstance(answer, str) else answer
            shell.finish(Report(grant.token, fetch_status=status))
    return shell


def seeds_of(shell: Shell) -> list[SeedView]:
    return shell.core.administration.seeds(NAME, 100, 0, shell.now_ms)[0]


def told(shell: Shell) -> list[tuple[str, SeedResult]]:
    return [(seed.outcome, seed.result) for seed in seeds_of(shell)]


@pytest.mark.parametrize(
    ("web", "outcome", "result"),
    [
        ({"/": "/home"}, "redirected to {}/home: fetched (200)", FETCHED),
        ({"/": "/home", "/home": 304}, "redirected to {}/home: fetched (304)", FETCHED),
        ({"/": "/1", "/1": "/2", "/2": "/3"}, "redirected to {}/3: fetched (200)", FETCHED),
        ({"/": SAFE}, f"redirected to {SAFE}/: fetched (200)", FETCHED),
        ({"/": "http://new.example/"}, "redirected to http://new.example/: fetched (200)", FETCHED),
        ({"/": "/gone", "/gone": 404}, "redirected to {}/gone: answered with an error (404)", REDIRECTED),
        ({"/": "/down", "/down": 500}, "redirected to {}/down: answered with an error (500)", REDIRECTED),
        ({"/": "/lost", "/lost": -2}, "redirected to {}/lost: connection failed", REDIRECTED),
        ({"/": "/1", "/1": "/2", "/2": 410}, "redirected to {}/2: answered with an error (410)", REDIRECTED),
        ({"/": "/1", "/1": "/"}, "redirected to {}/: redirected in a circle", REDIRECTED),
        ({"/": "/"}, "redirected to {}/: redirected in a circle", REDIRECTED),
        ({"/": "mailto:a@b.example"}, "redirected (302)", REDIRECTED),
    ],
)
def test_a_seed_that_redirects_is_as_good_as_where_it_leads(
    web: Web, outcome: str, result: SeedResult
) -> None:
    absolute = {
        f"{SITE}{at}": f"{SITE}{to}" if isinstance(to, str) and to.startswith("/") else to
        for at, to in web.items()
    }
    shell = crawled(launched(f"{SITE}/"), absolute)
    assert told(shell) == [(outcome.format(SITE), result)]
    shell.restart()
    assert told(shell) == [(outcome.format(SITE), result)]
    assert seeds_of(shell)[0].led_to == (
        outcome.split(" to ")[1].split(": ")[0].format(SITE) if " to " in outcome else ""
    )


def test_a_seed_that_leads_out_of_the_scope_names_the_rule() -> None:
    scope = replace(SETTINGS.scope, seed_redirects_within_domain=True)
    shell = launched(f"{SITE}/", f"{SITE}/private", settings=replace(SETTINGS, scope=scope))
    crawled(shell, {f"{SITE}/": "http://sso.example/login"})
    assert told(shell)[0] == ("redirected to http://sso.example/login: refused by scope.hosts", REDIRECTED)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_seed_with_too_many_redirects_names_the_rule(most: int) -> None:
    scope = replace(SETTINGS.scope, max_redirect_hops=most)
    web: Web = {f"{SITE}/{n}": f"{SITE}/{n + 1}" for n in range(5)}
    shell = crawled(launched(f"{SITE}/0", settings=replace(SETTINGS, scope=scope)), web)
    outcome = f"redirected to {SITE}/{most + 1}: refused by scope.max_redirect_hops"
    assert told(shell) == [(outcome, REDIRECTED)]


def test_a_seed_waits_for_the_page_that_it_leads_to() -> None:
    web: Web = {f"{SITE}/": f"{SITE}/home"}
    shell = crawled(launched(f"{SITE}/"), web, most=1)
    assert told(shell) == [(f"redirected to {SITE}/home: not fetched yet", PENDING)]
    shell.grants(NAME)
    assert told(shell) == [(f"redirected to {SITE}/home: being fetched by node node", PENDING)]


def test_a_seed_behind_a_cookie_wall_waits_for_its_next_visit() -> None:
    """It is called no circle while the page is to be fetched again, with the cookie that it has set."""
    shell = launched(f"{SITE}/")
    shell.tick()
    (first,) = shell.grants(NAME)
    shell.schedule(NAME, offered(first, first.uri, first.redirects, now=b"mark"))
    shell.finish(Report(first.token, fetch_status=302))
    assert told(shell) == [(f"redirected to {SITE}/: not fetched yet", PENDING)]
    shell.tick()
    (second,) = shell.grants(NAME)
    assert told(shell) == [(f"redirected to {SITE}/: being fetched by node node", PENDING)]
    shell.finish(Report(second.token, fetch_status=200))
    assert told(shell) == [("fetched (200)", FETCHED)]


@pytest.mark.parametrize("queries", [False, True])
def test_seeds_that_end_at_one_page_are_no_successes(queries: bool) -> None:
    """Nor are they if the login carries the address that was asked for."""
    seeds = [f"{SITE}/{name}" for name in ("a", "b", "c/d?e=f")]
    web: dict[str, str | int] = {}
    for seed in seeds:
        target = seed.removeprefix(SITE).replace("?", "%3F").replace("=", "%3D")
        web[seed] = f"{SITE}/login" + (f"?next={target}&lang=en" if queries else "")
    shell = crawled(launched(*seeds), web)
    assert told(shell) == [
        (f"redirected to {web[seed]}, as other seeds are: fetched (200)", REDIRECTED) for seed in seeds
    ]
    assert shell.state(NAME) is CrawlState.FINISHED
    assert shell.core.views.crawl(NAME).failure == "no seed was fetched: redirected (302) (3 times)"


def test_seeds_that_reach_one_login_over_another_page_are_no_successes() -> None:
    web: Web = {
        f"{SITE}/a": f"{SITE}/in",
        f"{SITE}/in": "http://sso.example/",
        f"{SITE}/b": f"{SITE}/in",
        f"{SITE}/c": "http://sso.example/",
    }
    shell = crawled(launched(*[f"{SITE}/{name}" for name in "abc"], f"{SITE}/d"), web)
    words = "redirected to http://sso.example/, as other seeds are: fetched (200)"
    assert told(shell) == [(words, REDIRECTED)] * 3 + [("fetched (200)", FETCHED)]
    assert shell.core.views.crawl(NAME).failure == "", "a seed was fetched"


def test_a_seed_that_leads_to_the_page_of_another_seed_is_no_success() -> None:
    """A page that is gone leads to the home page."""
    shell = crawled(launched(f"{SITE}/", f"{SITE}/old"), {f"{SITE}/old": f"{SITE}/"})
    assert told(shell) == [
        ("fetched (200)", FETCHED),
        (f"redirected to {SITE}/, as other seeds are: fetched (200)", REDIRECTED),
    ]


def test_seeds_that_are_spellings_of_one_page_are_all_fetched() -> None:
    seeds = [f"{SITE}/", f"{WWW}/", f"{SAFE}/", "http://site.example:8080/"]
    end = "https://www.site.example/"
    shell = crawled(
        launched(*seeds, f"{SITE}/a", f"{WWW}/a"),
        dict.fromkeys(seeds, end) | {f"{SITE}/a": f"{SAFE}/a/", f"{WWW}/a": f"{SAFE}/a/"},
    )
    assert (
        told(shell)
        == [(f"redirected to {end}: fetched (200)", FETCHED)] * 4
        + [(f"redirected to {SAFE}/a/: fetched (200)", FETCHED)] * 2
    )


@pytest.mark.parametrize("end", [f"{SITE}/start", "https://sso.example/", f"{WWW}/?lang=en"])
def test_seeds_that_are_spellings_of_one_page_may_end_at_another(end: str) -> None:
    seeds = [f"{SITE}/", f"{WWW}/", "https://site.example:8443/"]
    shell = crawled(launched(*seeds), dict.fromkeys(seeds, end))
    assert told(shell) == [(f"redirected to {end}: fetched (200)", FETCHED)] * 3


def test_a_seed_that_leads_to_where_the_home_page_has_moved_is_no_success() -> None:
    """Though no seed has the home page's new spelling."""
    web: Web = {f"{SITE}/": f"{SAFE}/", f"{SITE}/old": f"{SAFE}/"}
    for seeds in (list(web), list(web)[::-1]):
        results = {seed.uri: seed.result for seed in seeds_of(crawled(launched(*seeds), web))}
        assert results == {f"{SITE}/": FETCHED, f"{SITE}/old": REDIRECTED}


def again(shell: Shell, *uris: str) -> None:
    """Let a later round fetch seeds again."""
    shell.now_ms += 60_000
    shell.schedule(
        NAME, *[candidate(uri, seed=True, source=uri, refetch_before_ms=shell.now_ms) for uri in uris]
    )


LOGIN = {f"{SITE}/a": f"{SITE}/login"}
OVER_IN: Web = {f"{SITE}/a": f"{SITE}/in", f"{SITE}/in": f"{SITE}/login"}


@pytest.mark.parametrize(
    ("first", "later", "of_a"),
    [
        (LOGIN, {}, "fetched (200)"),
        (LOGIN, {f"{SITE}/a": 404}, "answered with an error (404)"),
        (LOGIN, {f"{SITE}/a": -2}, "connection failed"),
        (LOGIN, {f"{SITE}/a": f"{SITE}/new"}, f"redirected to {SITE}/new: fetched (200)"),
        (OVER_IN, {}, "fetched (200)"),
        (OVER_IN, {f"{SITE}/a": f"{SITE}/new"}, f"redirected to {SITE}/new: fetched (200)"),
        (OVER_IN, {f"{SITE}/a": f"{SITE}/in"}, f"redirected to {SITE}/in: fetched (200)"),
        (
            OVER_IN,
            {f"{SITE}/a": f"{SITE}/in", f"{SITE}/in": f"{SITE}/new"},
            f"redirected to {SITE}/new: fetched (200)",
        ),
    ],
)
def test_a_seed_does_not_end_where_it_led_in_an_earlier_round(first: Web, later: Web, of_a: str) -> None:
    settings = replace(SETTINGS, run_while_empty=True)
    shell = crawled(launched(f"{SITE}/a", f"{SITE}/b", settings=settings), first)
    again(shell, f"{SITE}/a", f"{SITE}/b")
    crawled(shell, {**later, f"{SITE}/b": f"{SITE}/login"})
    assert [outcome for outcome, _ in told(shell)] == [of_a, f"redirected to {SITE}/login: fetched (200)"]
    assert told(shell)[1][1] is FETCHED, "it alone ends there now"
    again(shell, f"{SITE}/a")
    crawled(shell, LOGIN)
    assert [outcome for outcome, _ in told(shell)] == [
        f"redirected to {SITE}/login, as other seeds are: fetched (200)"
    ] * 2


@pytest.mark.parametrize(
    ("named", "outcome", "result"),
    [
        ("/home", "redirected to {}/home: fetched (200)", FETCHED),
        (f"{SITE}/home", "redirected to {}/home: fetched (200)", FETCHED),
        ("/lost", "redirected to /lost (302)", REDIRECTED),
        ("http://[/", "redirected to http://[/ (302)", REDIRECTED),
        ("", "redirected (302)", REDIRECTED),
    ],
)
def test_a_seed_leads_to_what_its_report_named_if_nothing_else_is_known(
    named: str, outcome: str, result: SeedResult
) -> None:
    """So do those that earlier versions have fetched: a crawl that goes on with this one has not failed."""
    shell = launched(f"{SITE}/")
    (grant,) = shell.grants(NAME)
    shell.schedule(NAME, f"{SITE}/home")
    shell.finish(Report(grant.token, fetch_status=302, reason=named))
    crawled(shell, {})
    assert told(shell) == [(outcome.format(SITE), result)]
    failure = "" if result is FETCHED else "no seed was fetched: redirected (302)"
    assert shell.core.views.crawl(NAME).failure == failure


def test_a_page_that_asks_browsers_to_load_another_does_not_redirect() -> None:
    shell = launched(f"{SITE}/a", f"{SITE}/b")
    (grant,) = shell.grants(NAME, most=1)
    shell.schedule(NAME, offered(grant, f"{SITE}/start", grant.redirects))
    shell.finish(Report(grant.token, fetch_status=200))
    crawled(shell, {f"{SITE}/b": f"{SITE}/start"})
    assert told(shell) == [
        ("fetched (200)", FETCHED),
        (f"redirected to {SITE}/start: fetched (200)", FETCHED),
    ]


def test_where_a_seed_leads_is_told_though_the_fetcher_brings_no_chain() -> None:
    shell = launched(f"{SITE}/")
    for target in (f"{SITE}/1", f"{SITE}/2"):
        (grant,) = shell.grants(NAME)
        shell.schedule(NAME, offered(grant, target, b""))
        shell.finish(Report(grant.token, fetch_status=302))
    crawled(shell, {})
    assert told(shell) == [(f"redirected to {SITE}/2: fetched (200)", FETCHED)]


def test_seeds_that_lead_to_pages_of_their_own_are_fetched_though_queries_differ_alone() -> None:
    web: Web = {f"{SITE}/{n}": f"{SITE}/view?id={n}" for n in range(3)}
    shell = crawled(launched(*web), web)
    assert [result for _, result in told(shell)] == [FETCHED] * 3
    assert shell.core.views.crawl(NAME).failure == ""


def test_a_crawl_whose_only_seed_leads_to_an_error_has_failed() -> None:
    web: Web = {f"{SITE}/": f"{SITE}/gone", f"{SITE}/gone": 404}
    shell = launched(f"{SITE}/", settings=SETTINGS)
    shell.schedule(NAME, f"{SITE}/other")
    crawled(shell, web)
    assert shell.state(NAME) is CrawlState.FINISHED
    assert shell.core.views.crawl(NAME).failure == "no seed was fetched: redirected (302)"


def test_where_a_seed_leads_is_told_though_the_node_sends_cookies() -> None:
    shell = crawled(launched(f"{SITE}/"), {f"{SITE}/": f"{SITE}/home"}, cookies=b"mark")
    assert told(shell) == [(f"redirected to {SITE}/home: fetched (200)", FETCHED)]


def test_a_chain_that_nobody_gave_out_leads_nowhere() -> None:
    shell = launched(f"{SITE}/")
    (grant,) = shell.grants(NAME)
    shell.schedule(NAME, offered(grant, "http://evil.example/", bytes(len(grant.redirects))))
    shell.finish(Report(grant.token, fetch_status=302, reason="/x"))
    assert told(shell) == [("redirected to /x (302)", REDIRECTED)]
