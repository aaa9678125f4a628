"""Turns of ready queues: what one waits for that another has under way."""

from core_doubles.shell import Shell

from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, QueueSettings
from frontier_server.core.state.model import Report

HOST = "http://alpha.example"


def test_queues_of_one_authority_share_the_fetch_of_its_robots_txt() -> None:
    """Heritrix 2.7: parallel queues multiply the requests for pages, not those for robots.txt."""
    shell = Shell()
    settings = CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0, max_parallel=3),
        queues=QueueSettings(parallel_queues=50),
    )
    shell.create("crawl", settings)
    shell.launch("crawl", *(f"{HOST}/{folder}/" for folder in range(6)))
    (robots,) = shell.grants()
    assert robots.uri == f"{HOST}/robots.txt"
    assert shell.grants() == [], "the others wait for it"
    shell.finish(Report(robots.token, fetch_status=404))
    pages = shell.grants()
    assert len(pages) == 3 and not any(page.robots for page in pages)
    shell.finish(*(Report(page.token, fetch_status=200) for page in pages))
    assert len(shell.grants()) == 3
