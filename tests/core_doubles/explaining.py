"""Crawls whose reasons for not being fetched from are asked for."""

from dataclasses import replace
from typing import Any

from core_doubles.shell import PERIOD_MS, START_MS, Shell

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings
from frontier_server.core.state.model import Reason, Report

POLITENESS = PolitenessSettings(delay_factor=0, min_delay_ms=1_000, max_delay_ms=1_000)
SETTINGS = CrawlSettings(allowed_addresses=("loopback",), politeness=POLITENESS)
EXPIRE_MS = START_MS + PERIOD_MS


def crawl(*seeds: str, ready: bool = True, **parts: Any) -> Shell:
    """A crawl that runs; if `ready`, no robots.txt forbids anything and all hosts have rested."""
    shell = Shell()
    shell.create("crawl", replace(SETTINGS, **parts))
    shell.launch("crawl", *(f"http://{seed}" for seed in seeds))
    if ready:
        shell.finish(*(Report(grant.token, fetch_status=404) for grant in shell.grants()))
        shell.now_ms += 1_000
        shell.tick()
    return shell


def explained(shell: Shell, uri: str = "", queue: str = "", name: str = "crawl") -> list[Reason]:
    """All reasons."""
    full = f"http://{uri}" if uri else ""
    return shell.core.administration.explain(name, queue, full, shell.now_ms)


def change(shell: Shell, key: str, **what: Any) -> None:
    """Change a queue."""
    wanted = QueueChange(**what)
    shell.do(lambda core, now: core.administration.change_queue("crawl", key, wanted, now))


def put_override(shell: Shell, prefix: str, override: bytes) -> None:
    """Put an override."""
    shell.do(lambda core, now: core.administration.put_override("crawl", prefix, override, now))
