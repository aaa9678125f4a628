"""Overrides that come and go while a crawl runs: what they mean for queues with URIs, leases and a place."""

from typing import Any

from core_doubles.codec import candidate, override_of
from core_doubles.shell import Shell

from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings, QueueSettings
from frontier_server.core.state.model import QueueView, Report

HOST = "http://alpha.example"
QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)


def crawl(**queues: Any) -> Shell:
    """A crawl that runs, with one host and its robots.txt known."""
    shell = Shell()
    settings = CrawlSettings(
        allowed_addresses=("loopback",), politeness=QUICK, queues=QueueSettings(**queues)
    )
    shell.create("crawl", settings)
    shell.launch("crawl", f"{HOST}/")
    (robots,) = shell.grants()
    shell.finish(Report(robots.token, fetch_status=404))
    return shell


def override(shell: Shell, **parts: dict[str, Any]) -> None:
    """Put an override for the host, and let its job run."""
    settings = override_of(**parts)
    shell.do(lambda core, now: core.administration.put_override("crawl", HOST, settings, now))
    shell.work()


def queue(shell: Shell) -> QueueView:
    """The one queue."""
    (view,) = shell.core.administration.queue("crawl", "example,alpha,")
    return view


def test_the_best_uri_of_a_queue_counts_though_it_came_before_the_policy_that_asks_for_it() -> None:
    """2.6, HighestUri: of all URIs that are in the queue."""
    shell = crawl()
    for number, precedence in enumerate((9, 4, 4)):
        shell.schedule("crawl", candidate(f"{HOST}/{number}", precedence=precedence))
    override(shell, queues={"queue_precedence": "highest-uri"})
    precedences = []
    while grants := shell.grants():
        shell.finish(Report(grants[0].token, fetch_status=200))
        precedences.append(queue(shell).precedence)
    assert precedences == [3 + 4, 3 + 4, 3 + 9, 3]


def test_a_lease_that_is_handed_back_leaves_its_queue_the_precedence_of_its_override() -> None:
    shell = crawl()
    override(shell, queues={"base_precedence": 7})
    (page,) = shell.grants()
    shell.finish(Report(page.token, released=True))
    assert queue(shell).precedence == 7


def test_the_hard_limit_of_a_lease_is_that_of_its_override_after_a_restart_too() -> None:
    """Twice the longest fetch, by the settings that it was given with: heartbeats do not extend it."""
    shell = crawl()
    override(shell, fetch={"timeout_ms": 10 * shell.period_ms})
    (page,) = shell.grants()
    granted_ms = shell.now_ms
    ended_ms = {}
    for restart in (False, True):
        if restart:
            shell.restart()
        while shell.core.nodes.leases_out and shell.now_ms < granted_ms + 15 * shell.period_ms:
            shell.now_ms += shell.period_ms // 2
            shell.do(lambda core, now: core.frontier.heartbeat("node", "1", [page.token], [], now))
            shell.tick()
    assert shell.core.nodes.leases_out, "it lives as long as a fetch of that host may take"
    while shell.core.nodes.leases_out:
        shell.now_ms += shell.period_ms // 2
        shell.do(lambda core, now: core.frontier.heartbeat("node", "1", [page.token], [], now))
        shell.tick()
        ended_ms[page.uri] = shell.now_ms
    assert ended_ms[page.uri] == granted_ms + 20 * shell.period_ms


def test_an_active_queue_has_the_precedence_of_a_new_override_at_its_next_turn() -> None:
    """Overrides hold from the next decision on: nothing at the floor is leased."""
    shell = crawl()
    override(shell, queues={"base_precedence": 200, "precedence_floor": 200})
    assert shell.grants() == []
    assert (queue(shell).precedence, queue(shell).state.value) == (200, "INELIGIBLE")
