"""A crawl in three parts: its coordinator and shards start anew at any moment, and messages go astray."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import pytest
from core_doubles.codec import override_of
from core_doubles.parted import CHECKPOINT, CRAWL, Parted, begin
from core_doubles.small_shares import small_shares
from frontier_harness.soaking import Soak

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.spec.settings import (
    CrawlSettings,
    GroupSettings,
    IdentitySettings,
    LimitSettings,
    PolitenessSettings,
    Rewrite,
    ScopeSettings,
)

PARTS = 3
HISTORIES, SOAKED_HISTORIES = 24, 20_000
STEPS, STEPS_FED = 300, 2_000
HOSTS = [f"www.site{number}.example" for number in range(7)]
RESTARTS, REQUESTS, OFFERS = 0.02, 0.04, 0.02  # a step
STEERING = (Input.PAUSE, Input.RESUME, Input.HOLD)


def web(random: Random) -> tuple[list[str], Callable[[str], list[str]]]:
    """The URIs of a web of some pages, and the links of each."""
    uris = [f"http://{random.choice(HOSTS)}/{number}" for number in range(25)]
    links = {uri: random.sample(uris, random.randrange(5)) for uri in uris}
    return uris, lambda uri: list(links.get(uri, ()))


def reachable(seeds: list[str], links_of: Callable[[str], list[str]]) -> set[str]:
    """The URIs that links lead to from some."""
    found, open_ends = set(seeds), list(seeds)
    while open_ends:
        for link in links_of(open_ends.pop()):
            if link not in found:
                found.add(link)
                open_ends.append(link)
    return found


def settings(
    groups: tuple[GroupSettings, ...] = (),
    limits: LimitSettings | None = None,
    max_toes: int = 0,
    identity: IdentitySettings | None = None,
    run_while_empty: bool = False,
) -> CrawlSettings:
    return CrawlSettings(
        allowed_addresses=("loopback",),
        scope=ScopeSettings(hosts=tuple(HOSTS)),
        politeness=PolitenessSettings(min_delay_ms=0, max_delay_ms=0, delay_factor=0.0),
        groups=groups,
        limits=limits or LimitSettings(),
        max_toes=max_toes,
        identity=identity or IdentitySettings(),
        run_while_empty=run_while_empty,
    )


def grouped(random: Random) -> tuple[GroupSettings, ...]:
    """Named groups of some hosts, or none."""
    hosts = random.sample(HOSTS, 4)
    both = GroupSettings("one", tuple(hosts[:2])), GroupSettings("other", tuple(hosts[2:]))
    return both if random.random() < 0.5 else ()


def lived(parted: Parted, requests: Iterable[Input]) -> None:
    """Some steps, with restarts, and with requests of an operator."""
    random, wishes = parted.random, list(requests)
    for _ in range(STEPS):
        parted.step()
        chance = random.random()
        if chance < RESTARTS / 2:
            parted.restart_shard(random.randrange(len(parted.shards)))
        elif chance < RESTARTS:
            parted.restart_head()
        elif chance < RESTARTS + REQUESTS and wishes:
            for wish in random.choices(wishes, k=random.randrange(1, 4)):
                parted.request(wish)
                for _ in range(random.randrange(8)):
                    parted.step()


def ended(parted: Parted) -> None:
    """The rest of the history, without failures. Seeds were announced once; no page was fetched twice; the
    crawl counts what its parts have done, whichever of their messages come last."""
    state = parted.settle()
    assert state is CrawlState.FINISHED, f"the crawl has not ended, it is {state.value}"
    crawl = parted.head.crawl
    assert crawl.counters.announced_seeds == crawl.counters.next_seed - 1, (
        f"{crawl.counters.announced_seeds} seeds are announced, of {crawl.counters.next_seed - 1}"
    )
    twice = {uri for uri in parted.fetched if parted.fetched.count(uri) > 1}
    assert not twice, f"{sorted(twice)[0]} was fetched twice"
    parted.hear_all()
    counted = crawl.counters.succeeded
    assert counted == len(parted.fetched), (
        f"{counted} pages are counted, and {len(parted.fetched)} were fetched"
    )


def whole(seed: int) -> None:
    """A history of a crawl that fetches all there is."""
    random = Random(seed)
    uris, links_of = web(random)
    parted = Parted(PARTS, random, links_of, settings(grouped(random)))
    begin(parted, *uris[:3])
    lived(parted, STEERING)
    parted.request(Input.RESUME)
    ended(parted)
    left = reachable(uris[:3], links_of) - set(parted.fetched)
    assert not left, f"{sorted(left)[0]} was not fetched"


def fed(seed: int) -> None:
    """A history of a crawl that goes on while it is empty, and gets single URIs from elsewhere now and then,
    some of which it knows already."""
    random = Random(seed)
    parted = Parted(PARTS, random, lambda uri: [], settings(run_while_empty=True))
    parted.is_fed = True
    begin(parted, *(f"http://{host}/" for host in HOSTS))
    for number in range(STEPS_FED):
        parted.step()
        if random.random() < OFFERS:
            parted.offer(f"http://{random.choice(HOSTS)}/{random.choice(('', number))}")
    parted.request(Input.STOP)
    ended(parted)


def limited(seed: int) -> None:
    """A history of a crawl with a limit of documents, and perhaps one of toes."""
    random = Random(seed)
    uris, links_of = web(random)
    most = random.randrange(1, 12)
    limits = LimitSettings(max_documents=most)
    parted = Parted(PARTS, random, links_of, settings(limits=limits, max_toes=random.randrange(4)))
    begin(parted, *uris[:4])
    lived(parted, ())
    ended(parted)
    expected = min(most, len(reachable(uris[:4], links_of)))
    assert len(parted.fetched) == expected, f"{len(parted.fetched)} pages were fetched, not {expected}"


def rewritten(seed: int) -> None:
    """A history of a crawl with a rewrite that takes some pages of two sites for those of a third."""
    random = Random(seed)
    uris, links_of = web(random)
    rewrite = Rewrite(r"site[12]\.example/1", "site0.example/1")
    chosen = settings(identity=IdentitySettings(rewrites=(rewrite,)))
    parted = Parted(PARTS, random, links_of, chosen)
    begin(parted, *uris[:3])
    lived(parted, ())
    ended(parted)


def relaunched(seed: int) -> None:
    """A history of a crawl that is launched from a checkpoint set of another one, at any moment of that
    one's life, perhaps with a limit: together they fetch each page once, unless it is stopped."""
    random = Random(seed)
    uris, links_of = web(random)
    most = random.choice((0, 12))
    chosen = settings(grouped(random), LimitSettings(max_documents=most))
    first = Parted(PARTS, random, links_of, chosen)
    begin(first, *uris[:3])
    override = override_of(politeness={"max_delay_ms": 1})
    first.head.do(lambda core, now: core.administration.put_override(CRAWL, HOSTS[0], override, now))
    lived(first, STEERING)
    before = list(first.fetched)
    second = Parted(PARTS, random, links_of, chosen, checkpoint=first.keep())
    second.head.do(lambda core, now: core.control.launch(CRAWL, now, checkpoint=CHECKPOINT))
    lived(second, (*STEERING, Input.STOP) if random.random() < 0.2 else STEERING)
    second.request(Input.RESUME)
    state = second.settle()
    assert state is CrawlState.FINISHED, f"the crawl has not ended, it is {state.value}"
    if second.head.crawl.exit_status is ExitStatus.ABORTED:
        while second.head.crawl.jobs:
            second.step()
        assert not second.head.crawl.restoring
        second.split()
        return
    fetched = [*before, *second.fetched]
    twice = {uri for uri in fetched if fetched.count(uri) > 1}
    assert not twice, f"{sorted(twice)[0]} was fetched twice"
    every = reachable(uris[:3], links_of)
    expected = min(most or len(every), len(every))
    assert len(fetched) == expected, f"{len(fetched)} pages were fetched, not {expected}"
    second.hear_all()
    assert second.head.crawl.counters.succeeded == len(fetched)
    overrides = [shell.core.administration.overrides(CRAWL) for shell in (second.head, *second.shards)]
    assert overrides == [[("http://(example,site0,www,", override)]] * (1 + PARTS)
    second.split()


KINDS = (whole, fed, limited, rewritten, relaunched)


def histories(seeds: Iterable[int]) -> None:
    """Play histories of all kinds."""
    with small_shares():
        for seed in seeds:
            for history in KINDS:
                history(seed)


@pytest.mark.parametrize("history", KINDS, ids=lambda history: history.__name__)
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_crawl_in_three_parts_fetches_and_ends_as_one(history: Callable[[int], None], seed: int) -> None:
    with small_shares():
        history(seed)


@pytest.mark.soak("histories")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(2))
def test_many_histories_of_crawls_in_parts(soak: Soak, share: int) -> None:
    first = (soak.seed << 8) + (share << 40)
    for seed in range(first, first + soak.cycles(SOAKED_HISTORIES) // (2 * len(KINDS))):
        histories((seed,))
        soak.count(faults=STEPS, checked=len(KINDS))
