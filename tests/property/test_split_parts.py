"""A crawl in parts whose shards are doubled amid its history, with leases out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

from core_doubles.codec import candidate
from core_doubles.parted import CRAWL, Parted, begin, of_undivided
from core_doubles.shell import CheckedShell
from core_doubles.small_shares import small_shares
from property.test_parts import REQUESTS, STEERING, ended, grouped, reachable, settings, web

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows.errors import FrontierError
from frontier_server.core.spec.settings import CrawlSettings, LimitSettings
from frontier_server.core.state.model import Grant, Report

HISTORIES = 30
Links = Callable[[str], list[str]]


def split_twice(parted: Parted, wishes: Sequence[Input]) -> None:
    """Some of a history; then it goes on over twice and over four times as many shards."""
    random = parted.random
    for _ in range(2):
        for _ in range(random.randrange(300)):
            parted.step()
            if wishes and random.random() < REQUESTS:
                parted.request(random.choice(wishes))
        parted.split()
        parted.check()


def test_a_crawl_that_is_split_twice_fetches_each_page_once() -> None:
    with small_shares():
        for seed in range(HISTORIES):
            random = Random(seed)
            uris, links_of = web(random)
            parted = Parted(2, random, links_of, settings(grouped(random)))
            begin(parted, *uris[:3])
            split_twice(parted, STEERING)
            parted.request(Input.RESUME)
            ended(parted)
            left = reachable(uris[:3], links_of) - set(parted.fetched)
            assert not left, f"{sorted(left)[0]} was not fetched (seed {seed})"


def test_a_crawl_that_is_split_twice_keeps_within_its_limits() -> None:
    with small_shares():
        for seed in range(HISTORIES):
            random = Random(seed)
            uris, links_of = web(random)
            most = random.randrange(4, 14)
            limits = LimitSettings(max_documents=most)
            parted = Parted(2, random, links_of, settings(limits=limits, max_toes=random.randrange(4)))
            begin(parted, *uris[:4])
            split_twice(parted, ())
            ended(parted)
            expected = min(most, len(reachable(uris[:4], links_of)))
            assert len(parted.fetched) == expected, f"{len(parted.fetched)} pages of {expected} (seed {seed})"


def undivided(random: Random, chosen: CrawlSettings, seeds: list[str], links_of: Links) -> Parted:
    """Some of a history of one frontier; then it goes on in two parts."""
    shell, out, fetched = CheckedShell(), list[tuple[Grant, list[str]]](), list[str]()
    shell.create(CRAWL, chosen)
    shell.do(lambda core, now: core.control.add_seeds(CRAWL, seeds, now))
    launched = random.random() < 0.9
    if launched:
        shell.do(lambda core, now: core.control.launch(CRAWL, now))
    for _ in range(random.randrange(80) if launched else 0):
        chance = random.random()
        if chance < 0.2:
            shell.do(lambda core, now: core.upkeep.work(now))
        elif chance < 0.5:
            out += [(grant, [] if grant.robots else links_of(grant.uri)) for grant in shell.grants(CRAWL, 2)]
        elif chance < 0.55:
            wish = random.choice(STEERING)
            with suppress(FrontierError):
                shell.request(CRAWL, wish)
        elif out:
            grant, links = out[random.randrange(len(out))]
            if links:
                shell.schedule(CRAWL, candidate(links.pop(), via=grant.uri, path="L"))
            else:
                out = [each for each in out if each[0] is not grant]
                (result,) = shell.finish(Report(grant.token, fetch_status=404 if grant.robots else 200))
                fetched += [] if grant.robots or result.disposition.value != "SUCCEEDED" else [grant.uri]
    parted = Parted(2, random, links_of, chosen)
    of_undivided(shell, out, parted)
    parted.fetched = fetched
    if not launched:
        parted.head.do(lambda core, now: core.control.launch(CRAWL, now))
    return parted


def test_an_undivided_crawl_that_is_split_fetches_each_page_once() -> None:
    with small_shares():
        for seed in range(2 * HISTORIES):
            random = Random(seed)
            uris, links_of = web(random)
            parted = undivided(random, settings(grouped(random)), uris[:3], links_of)
            if parted.head.state(CRAWL) is not CrawlState.FINISHED:
                parted.request(Input.RESUME)
                ended(parted)
            left = reachable(uris[:3], links_of) - set(parted.fetched)
            assert not left, f"{sorted(left)[0]} was not fetched (seed {seed})"


def test_an_undivided_crawl_that_is_split_keeps_within_its_limits() -> None:
    with small_shares():
        for seed in range(2 * HISTORIES):
            random = Random(seed)
            uris, links_of = web(random)
            most = random.randrange(4, 14)
            chosen = settings(limits=LimitSettings(max_documents=most), max_toes=random.randrange(4))
            parted = undivided(random, chosen, uris[:4], links_of)
            parted.check()
            if parted.head.state(CRAWL) is not CrawlState.FINISHED:
                parted.request(Input.RESUME)
                ended(parted)
            expected = min(most, len(reachable(uris[:4], links_of)))
            assert len(parted.fetched) == expected, f"{len(parted.fetched)} pages of {expected} (seed {seed})"
