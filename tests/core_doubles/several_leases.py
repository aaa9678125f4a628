"""A crawl whose queues give several leases at once, for tests of its turns."""

from collections.abc import Sequence
from typing import Any

from core_doubles.shell import Shell

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.spec.settings import (
    CrawlSettings,
    PolitenessSettings,
    QueueSettings,
    RobotsSettings,
)
from frontier_server.core.state.model import Candidate, Grant, Report
from frontier_server.core.state.queue import QueueState

SECOND = 1_000
A, B = "http://a.example", "http://b.example"
KEY = "example,a,"


def settings(max_parallel: int = 1_000, min_delay_ms: int = 0, **queues: Any) -> CrawlSettings:
    """Hosts that may get many requests at once, and no robots.txt."""
    queues = {"max_leases_per_queue": 1_000} | queues
    return CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=PolitenessSettings(
            delay_factor=0.0, min_delay_ms=min_delay_ms, max_delay_ms=min_delay_ms, max_parallel=max_parallel
        ),
        robots=RobotsSettings(policy="ignore"),
        queues=QueueSettings(**queues),
        run_while_empty=True,
    )


def crawl(*uris: Candidate | str, of: CrawlSettings | None = None) -> Shell:
    """A running crawl with these URIs."""
    shell = Shell(period_ms=600 * SECOND)
    shell.create("crawl", of or settings())
    shell.do(lambda core, now: core.control.add_seeds("crawl", (f"{A}/seed", f"{B}/seed"), now))
    shell.do(lambda core, now: core.control.launch("crawl", now))
    shell.work()
    seeds = shell.grants("crawl")
    while seeds:
        shell.finish(*(Report(grant.token, fetch_status=200) for grant in seeds))
        shell.now_ms += 60 * SECOND
        shell.tick()
        seeds = shell.grants("crawl")
    shell.schedule("crawl", *uris)
    return shell


def ask(shell: Shell, most: int = 100, name: str = "crawl", **want: Any) -> list[Grant]:
    """Ask for leases."""
    return shell.do(lambda core, now: core.frontier.next("node", "1", Want(most, **want), name, now)).grants


def uris(grants: Sequence[Grant]) -> list[str]:
    """The URIs of leases, in order."""
    return [grant.uri for grant in grants]


def pages(host: str, count: int) -> list[str]:
    """Pages of a host."""
    return [f"{host}/{number}" for number in range(count)]


def states(shell: Shell) -> dict[str, QueueState]:
    """The states of a crawl's queues, by their keys."""
    found, _ = shell.core.administration.queues("crawl", None, 100, b"")
    return {view.key: view.state for view in found}


def change(shell: Shell, **changes: Any) -> None:
    """Change the queue of host a."""
    shell.do(lambda core, now: core.administration.change_queue("crawl", KEY, QueueChange(**changes), now))
