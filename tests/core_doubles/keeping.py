"""Crawls that keep their URIs, for the tests of what was seen and of what replaces it."""

from core_doubles.shell import Shell

from frontier_server.core.spec.settings import (
    CrawlSettings,
    IdentitySettings,
    PolitenessSettings,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.state.model import Candidate

A, B = "http://a.example", "http://b.example"
SETTINGS = CrawlSettings(
    allowed_addresses=("loopback",),
    politeness=PolitenessSettings(delay_factor=0.0, min_delay_ms=0, max_delay_ms=0),
    robots=RobotsSettings(policy="ignore"),
    scope=ScopeSettings(accept_patterns=(".*",)),
    identity=IdentitySettings(keep_uris=True),
    run_while_empty=True,
)


def crawl(*uris: Candidate | str, settings: CrawlSettings = SETTINGS) -> Shell:
    """A crawl that was launched with candidates alone."""
    shell = Shell()
    shell.create("crawl", settings)
    shell.schedule("crawl", *uris)
    shell.do(lambda core, now: core.control.launch("crawl", now))
    shell.work()
    return shell
