"""Crawls at any point of their life, for tests that look at all of them."""

from typing import Any

from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings
from frontier_server.core.state.model import Grant, Report

S = CrawlState

NAME = "crawl"
SEEDS = tuple(f"http://{host}.example/" for host in ("alpha", "beta", "gamma", "delta"))
QUICK = PolitenessSettings(delay_factor=0.0, min_delay_ms=0, max_delay_ms=0)


def quick(**settings: Any) -> CrawlSettings:
    """Settings without politeness."""
    return CrawlSettings(**{"allowed_addresses": ("loopback",), "politeness": QUICK, **settings})


def created(*seeds: str, **settings: Any) -> Shell:
    """A crawl that was never launched, with its seeds."""
    shell = Shell()
    shell.create(NAME, quick(**settings))
    if seeds:
        shell.do(lambda core, now: core.control.add_seeds(NAME, seeds, now))
    return shell


def launched(*seeds: str, **settings: Any) -> Shell:
    """A crawl whose seeds have been announced."""
    shell = created(**settings)
    shell.launch(NAME, *(seeds or SEEDS))
    return shell


def fetching(*seeds: str, most: int = 100, **settings: Any) -> tuple[Shell, list[Grant]]:
    """A crawl with the robots.txt of its seeds fetched, and up to so many leases of pages that are out."""
    shell = launched(*seeds, **settings)
    fetch(shell, *shell.grants())
    return shell, shell.grants(most=most)


def in_state(state: CrawlState, **settings: Any) -> Shell:
    """A crawl that rests in a state; a lease of a page is out if it is RUNNING, PAUSING or STOPPING."""
    if state is S.NASCENT:
        shell = created(*SEEDS, **settings)
    elif state is S.PREPARING:
        shell = created(*SEEDS, **settings)
        shell.do(lambda core, now: core.control.launch(NAME, now))
    elif state is S.EMPTY:
        shell = launched(SEEDS[0], **{"run_while_empty": True, **settings})
        fetch_all(shell)
    elif state in (S.PAUSED, S.FINISHED):
        shell = launched(**settings)
        shell.request(NAME, Input.PAUSE if state is S.PAUSED else Input.STOP)
    else:
        shell, _ = fetching(most=1, **settings)
        if state is not S.RUNNING:
            shell.request(NAME, Input.PAUSE if state is S.PAUSING else Input.STOP)
    assert shell.state(NAME) is state
    return shell


def report(grant: Grant, status: int = 200) -> Report:
    """A fetch."""
    return Report(grant.token, fetch_status=status)


def fetch(shell: Shell, *grants: Grant, node: str = "node") -> None:
    """Report successes."""
    shell.finish(*map(report, grants), node=node)


def fetch_all(shell: Shell) -> None:
    """Fetch with success whatever can be leased."""
    while grants := shell.grants():
        fetch(shell, *grants)


def advance(shell: Shell) -> None:
    """To the next due moment."""
    due_ms = shell.core.upkeep.next_due_ms()
    assert due_ms is not None
    shell.now_ms = max(shell.now_ms, due_ms)
    shell.tick()
