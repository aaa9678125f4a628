"""A redirect's target is judged by what its source was fetched for, not by the seen-set alone."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from core_doubles.codec import candidate
from core_doubles.shell import SECRET, Shell
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.rows.records import ImportRow
from frontier_server.core.spec.settings import (
    CrawlSettings,
    FetchSettings,
    IdentitySettings,
    PolitenessSettings,
    ReseedSettings,
    Rewrite,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.state.model import Candidate, Grant, Report, Verdict
from frontier_server.core.state.redirects import (
    MAX_LINKS,
    MAX_VISITS,
    NO_CHAIN,
    Chain,
    Link,
    count_of,
    decode_chain,
    encode_chain,
)

SITE, WWW, SAFE = "http://site.example", "http://www.site.example", "https://site.example"
TO_HTTP = (Rewrite(pattern="^https://", replacement="http://"),)


def settings(
    rules: tuple[str, ...] = (),
    rewrites: tuple[Rewrite, ...] = (),
    cookies: bool = False,
    rounds: int = 0,
    round_interval_ms: int = 0,
    redirect_hops: int = 10,
) -> CrawlSettings:
    return CrawlSettings(
        allowed_addresses=("loopback",),
        robots=RobotsSettings(policy="ignore"),
        politeness=PolitenessSettings(min_delay_ms=0, max_delay_ms=0, delay_factor=0.0),
        identity=IdentitySettings(rules=rules, rewrites=rewrites),
        fetch=FetchSettings(cookies=cookies),
        reseed=ReseedSettings(max_rounds=rounds, min_interval_ms=round_interval_ms),
        scope=ScopeSettings(hosts=("site.example", "www.site.example"), max_redirect_hops=redirect_hops),
    )


Cookie = tuple[str, str]  # host and name


@dataclass
class Web:
    """A web and its crawl: a node that asks, offers what it finds, and reports.

    `redirects` has the targets of URIs that redirect, and `links` the links of the others. `sets` has the
    cookies of pages, each for a host: such a page sets the first one that is missing; `*` gets another value
    each time. A page that has all the cookies that it `wants` does not redirect.
    """

    redirects: Mapping[str, str]
    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sets: Mapping[str, tuple[Cookie, ...]] = field(default_factory=dict)
    wants: Mapping[str, tuple[Cookie, ...]] = field(default_factory=dict)
    jar: dict[Cookie, str] = field(default_factory=dict)
    shell: Shell = field(default_factory=Shell)
    visits: list[str] = field(default_factory=list)
    restarts: bool = False

    def crawl(self, chosen: CrawlSettings, *seeds: str) -> list[str]:
        """Crawl to the end; what was fetched, in order."""
        self.shell.create("crawl", chosen)
        self.shell.launch("crawl", *seeds)
        return self.go_on()

    def go_on(self, most: int = 300) -> list[str]:
        """Fetch until nothing is left; what was fetched since the last call."""
        begin = len(self.visits)
        for _ in range(most):
            self.shell.tick()
            self.shell.work()
            grants = self.shell.grants()
            if not grants:
                return self.visits[begin:]
            for grant in grants:
                self.shell.now_ms += 10
                self.fetch(grant)
        raise AssertionError(f"it goes on and on: {self.visits[-8:]}")

    def fetch(self, grant: Grant) -> None:
        self.visits.append(grant.uri)
        target, sent = self.redirects.get(grant.uri), self.mark(grant.uri)
        if grant.uri in self.wants and self.jar.keys() >= set(self.wants[grant.uri]):
            target = None
        for cookie in [each for each in self.sets.get(grant.uri, ()) if each not in self.jar][:1]:
            self.jar[cookie] = "1"
        if (host_of(grant.uri), "*") in self.sets.get(grant.uri, ()):
            self.jar[host_of(grant.uri), "*"] = str(len(self.visits))
        if target is not None:
            self.shell.schedule("crawl", offer(grant, target, sent, self.mark(target)))
        elif found := self.links.get(grant.uri):
            path, source = grant.candidate.path + "L", grant.source
            links = [candidate(uri, via=grant.uri, path=path, source=source) for uri in found]
            self.shell.schedule("crawl", *links)
        if self.restarts:
            self.shell.restart()
        self.shell.finish(report(grant, 200 if target is None else 301))

    def mark(self, uri: str) -> bytes:
        """The mark of the cookies that the node would send to a URI."""
        sent = {name: value for (host, name), value in self.jar.items() if host == host_of(uri)}
        return str(sent).encode() if sent else b""


def host_of(uri: str) -> str:
    return uri.partition("://")[2].partition("/")[0]


def offer(grant: Grant, target: str, sent: bytes = b"", now: bytes = b"") -> Candidate:
    """What a fetcher offers for the target of a redirect."""
    return candidate(
        target,
        via=grant.uri,
        path=grant.candidate.path + "R",
        source=grant.source,
        redirects=grant.redirects,
        cookies_sent=sent,
        cookies_now=now,
    )


def report(grant: Grant, status: int) -> Report:
    digest, etag = f"sha1:{grant.uri}", f'"{grant.uri}"'
    return Report(grant.token, fetch_status=status, digest=digest, etag=etag, capture_ms=1)


SPELLINGS = {
    "strip-www": (settings(("strip-www",)), [f"{SITE}/about", f"{WWW}/about"]),
    "to the bare host": (settings(("strip-www",)), [f"{WWW}/about", f"{SITE}/about"]),
    "http to https": (settings(rewrites=TO_HTTP), [f"{SITE}/a", f"{SAFE}/a"]),
    "lower-case": (settings(("lower-case",)), [f"{SITE}/About", f"{SITE}/about"]),
    "a session": (
        settings(("strip-session-ids",)),
        [f"{SITE}/a", f"{SITE}/a;jsessionid={'0' * 32}"],
    ),
    "fix-query": (settings(("fix-query",)), [f"{SITE}/a?x=1&", f"{SITE}/a?x=1"]),
    "slashes": (settings(("strip-extra-slashes",)), [f"{SITE}//a", f"{SITE}/a"]),
    "three in a row": (
        settings(("heritrix",), TO_HTTP),
        [
            f"{SITE}/About",
            f"{SAFE}/About",
            "https://www.site.example/About",
            "https://www.site.example/about",
        ],
    ),
    "another page between them": (
        settings(("strip-www",)),
        [f"{SITE}/about", f"{SITE}/consent?to=about", f"{WWW}/about"],
    ),
}


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarts"])
@pytest.mark.parametrize(("chosen", "chain"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_page_that_redirects_to_a_spelling_of_itself_is_fetched(
    chosen: CrawlSettings, chain: list[str], restarts: bool
) -> None:
    """2.4/redirect: whichever rule makes them the same, and over several redirects."""
    web = Web(dict(pairwise(chain)), restarts=restarts)
    assert web.crawl(chosen, chain[0]) == chain
    assert [row.uri for row in web.shell.outcomes("crawl")] == chain
    assert web.shell.count("crawl", "discovered_count") == (2 if "consent" in str(chain) else 1)
    assert web.shell.state("crawl") is CrawlState.FINISHED


def test_all_pages_of_a_site_that_redirects_to_its_www_host_are_fetched() -> None:
    names = ("", "about", "news", "contact")
    web = Web(
        {f"{SITE}/{name}": f"{WWW}/{name}" for name in names},
        {f"{WWW}/": tuple(f"{SITE}/{name}" for name in names)},
    )
    fetched = web.crawl(settings(("strip-www",)), f"{SITE}/")
    assert sorted(fetched) == sorted(f"{host}/{name}" for host in (SITE, WWW) for name in names)


A, B, C = f"{SITE}/a", f"{WWW}/a", f"{SITE}/c"
LOOPS = {
    "two spellings": (("strip-www",), {A: B, B: A}, [A, B]),
    "to itself": ((), {A: A}, [A]),
    "two pages": ((), {A: C, C: A}, [A, C]),
    "three, of two identities": (("strip-www",), {A: C, C: B, B: C}, [A, C, B]),
}


@pytest.mark.parametrize("cookies", [False, True])
@pytest.mark.parametrize(("rules", "redirects", "fetched"), LOOPS.values(), ids=LOOPS)
def test_a_loop_of_redirects_ends(
    rules: tuple[str, ...], redirects: dict[str, str], fetched: list[str], cookies: bool
) -> None:
    """2.4/redirect: each URI comes once in a chain, whether or not cookies are kept that nobody sets."""
    web = Web(redirects)
    assert web.crawl(settings(rules, cookies=cookies), A) == fetched
    assert web.shell.state("crawl") is CrawlState.FINISHED
    assert web.shell.count("crawl", "queued_count") == 0


HERE, THERE, ANEW = (("site.example", "1"), ("www.site.example", "1"), ("site.example", "*"))
STEPS = tuple(("site.example", str(number)) for number in range(5))
SESSION, ASKS = f"{A};jsessionid={'0' * 32}", f"{SITE}/a?cookieSet=1"
CONSENT, BACK, AFE = f"{WWW}/consent?for=a", f"{SITE}/back?to=a", f"{SAFE}/a"
OPENING = {
    "to itself": ({A: A}, {A: (HERE,)}, [A, A]),
    "over a session in its path": ({A: SESSION, SESSION: A}, {A: (HERE,)}, [A, SESSION, A]),
    "over another page": ({A: ASKS, ASKS: A}, {A: (HERE,)}, [A, ASKS, A]),
    "over another page, which sets it": ({A: ASKS, ASKS: A}, {ASKS: (HERE,)}, [A, ASKS, A]),
    "over another host": ({A: CONSENT, CONSENT: A}, {A: (HERE,)}, [A, CONSENT, A]),
    "over another host, which sets it": ({A: CONSENT, CONSENT: A}, {CONSENT: (HERE,)}, [A, CONSENT, A]),
    "over two hosts": ({A: CONSENT, CONSENT: BACK, BACK: A}, {BACK: (HERE,)}, [A, CONSENT, BACK, A]),
    "over https": ({A: AFE, AFE: A}, {AFE: (HERE,)}, [A, AFE, A]),
}


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarts"])
@pytest.mark.parametrize(("redirects", "sets", "fetched"), OPENING.values(), ids=OPENING)
def test_a_cookie_wall_opens_when_its_cookie_comes_back(
    redirects: dict[str, str], sets: dict[str, tuple[Cookie, ...]], fetched: list[str], restarts: bool
) -> None:
    """2.4/redirect: at once, and over other pages and hosts."""
    chosen = settings(("strip-session-ids",), TO_HTTP, cookies=True)
    web = Web(redirects, {A: (C,)}, sets=sets, wants={A: (HERE,)}, restarts=restarts)
    assert web.crawl(chosen, A) == [*fetched, C]
    assert web.shell.count("crawl", "succeeded_count") == len(fetched) + 1


@pytest.mark.parametrize(("wanted", "visits"), [(1, 2), (2, 3), (3, 4), (4, 4), (5, 4)])
def test_a_wall_of_several_cookies_opens_within_4_visits(wanted: int, visits: int) -> None:
    web = Web({A: A}, {A: (C,)}, sets={A: STEPS[:wanted]}, wants={A: STEPS[:wanted]})
    assert web.crawl(settings(cookies=True), A) == [A] * visits + [C] * (wanted < 4)


CLOSED = {
    "no cookie": ({A: A}, {}, [A]),
    "the same cookie": ({A: A}, {A: (HERE,)}, [A, A]),
    "another value each time": ({A: A}, {A: (ANEW,)}, [A] * 4),
    "another value each time, over another page": ({A: ASKS, ASKS: A}, {A: (ANEW,)}, [A, ASKS] * 4),
    "a cookie of another host": ({A: CONSENT, CONSENT: A}, {CONSENT: (THERE,)}, [A, CONSENT]),
    "a cookie for another host": ({A: A}, {A: (THERE,)}, [A]),
    "two spellings": ({A: B, B: A}, {A: (HERE,)}, [A, B, A]),
}


@pytest.mark.parametrize(("redirects", "sets", "fetched"), CLOSED.values(), ids=CLOSED)
def test_a_wall_that_never_opens_is_left_once_nothing_changes(
    redirects: dict[str, str], sets: dict[str, tuple[Cookie, ...]], fetched: list[str]
) -> None:
    """2.4/redirect: a page whose cookies are those of its last visit is not asked for again; any page 4 times
    at most."""
    web = Web(redirects, sets=sets)
    assert web.crawl(settings(("strip-www",), cookies=True), A) == fetched
    assert web.shell.state("crawl") is CrawlState.FINISHED
    assert web.shell.count("crawl", "succeeded_count") == len(fetched)


def test_cookies_that_other_pages_set_meanwhile_open_a_wall() -> None:
    """Its own answer sets none: what counts is what would be sent now, and what was sent."""
    web = Web({A: A}, wants={A: (HERE,)})
    web.shell.create("crawl", settings(cookies=True))
    web.shell.launch("crawl", A)
    (grant,) = web.shell.grants()
    web.shell.schedule("crawl", offer(grant, A, b"", b"theirs"))
    web.shell.finish(report(grant, 302))
    assert [each.uri for each in web.shell.grants()] == [A]


def test_a_page_that_was_asked_for_with_all_its_cookies_is_not_asked_for_again() -> None:
    web = Web({A: A})
    web.jar[HERE] = "1"
    assert web.crawl(settings(cookies=True), A) == [A]


def test_max_redirect_hops_bounds_a_wall_too() -> None:
    web = Web({A: A}, sets={A: (ANEW,)})
    assert web.crawl(settings(cookies=True, redirect_hops=2), A) == [A] * 3


def test_max_redirect_hops_bounds_a_chain_of_spellings() -> None:
    spelled = [f"http://www{number}.site.example/a" for number in range(9)]
    web = Web(dict(pairwise(spelled)))
    assert web.crawl(settings(("strip-www",), redirect_hops=4), spelled[0]) == spelled[:5]


def test_a_page_that_many_others_redirect_to_is_fetched_once() -> None:
    pages = {f"{SITE}/{number}": f"{SITE}/login" for number in range(5)}
    web = Web(pages)
    fetched = web.crawl(settings(("strip-www",)), *pages)
    assert Counter(fetched)[f"{SITE}/login"] == 1


@pytest.mark.parametrize(
    "chain",
    [
        [f"{SITE}/", f"{SAFE}/"],
        [f"{SITE}/", f"{WWW}/", "https://www.site.example/", "https://www.site.example/home"],
        [f"{SITE}/{number}" for number in range(6)],
    ],
    ids=["http to https", "of 4", "of 6"],
)
def test_a_round_of_reseeding_fetches_the_targets_of_its_seeds(chain: list[str]) -> None:
    web = Web(dict(pairwise(chain)), {chain[-1]: (f"{SITE}/page",)})
    assert web.crawl(settings(rounds=2), chain[0]) == [*chain, f"{SITE}/page", *chain, *chain]


def test_a_round_of_reseeding_finds_new_links_on_the_target_of_its_seed() -> None:
    web = Web({f"{SITE}/": f"{SAFE}/"}, {f"{SAFE}/": (f"{SITE}/old",)})
    chosen = settings(rounds=1, round_interval_ms=60_000)
    assert web.crawl(chosen, f"{SITE}/") == [f"{SITE}/", f"{SAFE}/", f"{SITE}/old"]
    web.links = {f"{SAFE}/": (f"{SITE}/old", f"{SITE}/new")}
    web.shell.now_ms += 60_000
    assert web.go_on() == [f"{SITE}/", f"{SAFE}/", f"{SITE}/new"]


@pytest.mark.parametrize("seeds", [(A, C, f"{SITE}/t"), (f"{SITE}/t", C, A)])
def test_a_round_of_reseeding_fetches_a_target_of_several_seeds_once(seeds: tuple[str, ...]) -> None:
    web = Web({A: f"{SITE}/t", C: f"{SITE}/t"})
    assert Counter(web.crawl(settings(rounds=2), *seeds)) == dict.fromkeys(seeds, 3)


def test_a_round_of_reseeding_follows_redirects_between_spellings() -> None:
    web = Web({A: B, B: C})
    assert web.crawl(settings(("strip-www",), rounds=1), A) == [A, B, C, A, B, C]


@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_forced_refetch_fetches_the_targets_of_its_uri_once(length: int) -> None:
    chain = [f"{SITE}/{number}" for number in range(length)]
    web = Web(dict(pairwise(chain)))
    web.crawl(settings(rounds=-1, round_interval_ms=10_000_000), chain[0])
    web.shell.now_ms += 1000
    again = candidate(chain[0], refetch_before_ms=web.shell.now_ms)
    assert web.shell.schedule("crawl", again) == [Verdict.QUEUED]
    assert web.go_on() == chain
    assert web.shell.schedule("crawl", again) == [Verdict.ALREADY_SEEN]
    assert web.go_on() == []


def test_a_refetch_time_ahead_of_the_clock_refetches_a_shared_target_once() -> None:
    pages = {f"{SITE}/{number}": f"{SITE}/t" for number in range(4)}
    web = Web(pages)
    web.crawl(settings(rounds=-1, round_interval_ms=10_000_000), *pages)
    web.shell.now_ms += 1000
    later = web.shell.now_ms + 5000
    for uri in pages:
        web.shell.schedule("crawl", candidate(uri, refetch_before_ms=later))
    assert Counter(web.go_on())[f"{SITE}/t"] == 1


def test_a_forced_import_fetches_the_targets_of_its_uris() -> None:
    web = Web({A: f"{SITE}/d"}, {f"{SITE}/d": (C,)})
    web.crawl(settings(rounds=-1, round_interval_ms=10_000_000), A)
    web.shell.now_ms += 1000
    admin = web.shell.core.administration
    number = web.shell.do(lambda _, now: admin.begin_import("crawl", True, now))
    rows = [ImportRow(candidate(uri).record) for uri in (A, C)]
    web.shell.do(lambda _, now: admin.add_imports("crawl", number, rows, now))
    web.shell.do(lambda _, now: admin.end_import("crawl", number, now))
    assert sorted(web.go_on()) == sorted([A, C, f"{SITE}/d"])


def waiting(chosen: CrawlSettings, uri: str = A) -> tuple[Shell, Grant]:
    """A crawl whose only seed is out."""
    shell = Shell()
    shell.create("crawl", chosen)
    shell.launch("crawl", uri)
    (grant,) = shell.grants()
    return shell, grant


def test_a_lease_has_one_other_spelling_fetched_however_many_are_offered() -> None:
    """Before the report, after it, and after the target's own."""
    shell, grant = waiting(settings(("strip-www",), rounds=-1, round_interval_ms=10_000_000))
    first, other = offer(grant, B), offer(grant, "http://www2.site.example/a")
    assert shell.schedule("crawl", first) == [Verdict.QUEUED]
    assert shell.schedule("crawl", first, other) == [Verdict.ALREADY_QUEUED] * 2
    assert shell.grants() == []  # an identity is in one place at a time
    shell.finish(report(grant, 301))
    assert shell.schedule("crawl", first, other) == [Verdict.ALREADY_QUEUED] * 2
    (target,) = shell.grants()
    # Those of the page that redirected.
    assert (target.uri, target.etag, target.last_digest, target.capture_ms) == (B, "", "", 0)
    shell.finish(report(target, 200))
    assert shell.schedule("crawl", first, other) == [Verdict.ALREADY_SEEN] * 2
    assert shell.grants() == []


def test_a_target_offered_after_the_report_of_its_source_is_queued() -> None:
    shell, grant = waiting(settings(("strip-www",), rounds=-1, round_interval_ms=10_000_000))
    shell.finish(report(grant, 301))
    assert shell.schedule("crawl", offer(grant, B), offer(grant, B)) == [
        Verdict.QUEUED,
        Verdict.ALREADY_QUEUED,
    ]
    assert [each.uri for each in shell.grants()] == [B]


@pytest.mark.parametrize("ending", ["released", "deferred"])
def test_a_target_is_dropped_when_the_lease_of_its_source_ends_without_a_final_disposition(
    ending: str,
) -> None:
    """The next lease of its source offers it again."""
    shell, grant = waiting(settings(("strip-www",)))
    shell.schedule("crawl", offer(grant, B))
    told = Report(grant.token, released=True) if ending == "released" else report(grant, -2)
    shell.finish(told)
    shell.now_ms += 3_600_000
    shell.tick()
    (again,) = shell.grants()
    assert again.uri == A
    assert shell.schedule("crawl", offer(again, B)) == [Verdict.QUEUED]
    shell.finish(report(again, 301))
    assert [each.uri for each in shell.grants()] == [B]


FORGED = {
    "nothing": lambda told: b"",
    "another crawl's": lambda told: encode_chain(decode_chain(told, 1, SECRET), 2, SECRET),
    "another server's": lambda told: encode_chain(decode_chain(told, 1, SECRET), 1, b"other"),
    "cut": lambda told: told[:-1],
    "longer": lambda told: told + b"\0",
    "changed": lambda told: bytes([told[0] ^ 1]) + told[1:],
    "long": lambda told: b"x" * 10_000,
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_chain_that_the_frontier_did_not_make_has_no_effect(forge: Callable[[bytes], bytes]) -> None:
    shell, grant = waiting(settings(("strip-www",), rounds=-1, round_interval_ms=10_000_000))
    forged = offer(grant, B)
    forged = candidate(B, via=A, path="R", redirects=forge(forged.redirects))
    assert shell.schedule("crawl", forged) == [Verdict.ALREADY_SEEN]
    shell.finish(report(grant, 301))
    assert shell.schedule("crawl", forged) == [Verdict.ALREADY_SEEN]


def test_a_link_that_carries_a_chain_is_already_seen() -> None:
    shell, grant = waiting(settings(("strip-www",)))
    linked = candidate(B, via=A, path="L", redirects=grant.redirects)
    assert shell.schedule("crawl", linked) == [Verdict.ALREADY_SEEN]


links = st.builds(
    Link,
    st.binary(min_size=8, max_size=8),
    st.binary(min_size=8, max_size=8),
    st.integers(0, 2**64 - 1),
    st.binary(min_size=8, max_size=8),
)
chains = st.builds(
    lambda before_ms, each: Chain(before_ms, tuple(each)),
    st.integers(0, 2**48),
    st.lists(links, max_size=MAX_LINKS),
)


@given(chains, st.integers(1, 2**32 - 1), links, st.integers(0, 2**48))
def test_a_chain_survives_encoding_and_never_exceeds_its_bounds(
    chain: Chain, crawl: int, link: Link, before_ms: int
) -> None:
    assert decode_chain(encode_chain(chain, crawl, SECRET), crawl, SECRET) == chain
    longer = chain.followed_by(link, before_ms)
    assert longer.links[-1] == link and len(longer.links) <= MAX_LINKS
    assert longer.same_as(link.fingerprint) == link
    marked = longer.with_cookies(b"mark")
    assert marked.links[:-1] == longer.links[:-1] and not marked.may_come(link.text, b"mark")
    for each in (longer, marked):
        assert len(encode_chain(each, crawl, SECRET)) <= 1024


@given(st.binary(max_size=200))
def test_bytes_that_are_not_a_chain_decode_to_an_empty_chain(data: bytes) -> None:
    assert decode_chain(data, 1, SECRET) == NO_CHAIN


def test_lease_serials_are_ordered_across_starts_of_the_server() -> None:
    assert count_of(0xFFFF_FFFF_0000_0001) < count_of(0x0000_0001_0000_0002)


def pages(count: int) -> st.SearchStrategy[dict[str, str]]:
    spelled = [f"{host}/{number}" for host in (SITE, WWW, SAFE) for number in range(count)]
    return st.dictionaries(st.sampled_from(spelled), st.sampled_from(spelled))


cookies = st.tuples(st.sampled_from(("site.example", "www.site.example")), st.sampled_from("ab*"))


@given(
    pages(3),
    st.dictionaries(st.sampled_from([f"{SITE}/0", f"{WWW}/0", f"{SITE}/1"]), st.tuples(cookies)),
    st.booleans(),
    st.integers(0, 2),
)
def test_a_crawl_of_any_redirects_ends_and_agrees_with_its_counts(
    redirects: dict[str, str], sets: dict[str, tuple[Cookie, ...]], restarts: bool, rounds: int
) -> None:
    web = Web(redirects, restarts=restarts, sets=sets)
    seeds = [f"{SITE}/{number}" for number in range(3)]
    chosen = settings(("strip-www",), TO_HTTP, cookies=True, rounds=rounds)
    fetched = web.crawl(chosen, *seeds)
    most = MAX_VISITS if sets else 1
    assert max(Counter(fetched).values(), default=0) <= (rounds + 1) * 2 * most * 3
    assert web.shell.state("crawl") is CrawlState.FINISHED
    assert web.shell.count("crawl", "succeeded_count") == len(fetched)
    assert web.shell.count("crawl", "discovered_count") <= 9
