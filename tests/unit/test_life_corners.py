"""A crawl's life in its corners: what the property tests' histories came to, told one by one."""

from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings

S = CrawlState
QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)
PLAIN = CrawlSettings(allowed_addresses=("loopback",), politeness=QUICK)
HOST = "http://alpha.example"


def test_figures_of_a_crawl_that_was_never_launched_begin_with_its_creation() -> None:
    shell = Shell()
    shell.create("crawl", PLAIN)
    shell.now_ms += 7_000
    shell.do(lambda frontier, now: frontier.administration.note_seen("crawl", [f"{HOST}/"], now))
    shell.request("crawl", Input.STOP)
    (figures,) = [row for row in shell.events("crawl") if row.kind == "figures"]
    assert (figures.fields["discovered_count"], figures.fields["interval_ms"]) == (1, 7_000)
