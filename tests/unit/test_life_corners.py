"""A crawl's life in its corners: what the property tests' histories came to, told one by one."""

from dataclasses import replace

from core_doubles.codec import spec_of
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.model import Report
from frontier_server.core.spec.settings import (
    CrawlSettings,
    LimitSettings,
    PolitenessSettings,
    ReseedSettings,
)

S = CrawlState
QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)
PLAIN = CrawlSettings(allowed_addresses=("loopback",), politeness=QUICK)
HOST = "http://alpha.example"


def crawl(settings: CrawlSettings = PLAIN) -> Shell:
    """A crawl that runs, with one seed."""
    shell = Shell()
    shell.create("crawl", settings)
    shell.launch("crawl", f"{HOST}/")
    return shell


def fetch_all(shell: Shell) -> None:
    """Fetch until nothing is given any more."""
    while grants := shell.grants():
        shell.finish(*(Report(grant.token, fetch_status=200) for grant in grants))


def update(shell: Shell, settings: CrawlSettings) -> None:
    """Let other settings count."""
    spec = spec_of(settings)
    shell.do(lambda frontier, now: frontier.control.update_crawl("crawl", lambda _: (spec, ()), now))


def test_figures_of_a_crawl_that_was_never_launched_begin_with_its_creation() -> None:
    shell = Shell()
    shell.create("crawl", PLAIN)
    shell.now_ms += 7_000
    shell.do(lambda frontier, now: frontier.administration.note_seen("crawl", [f"{HOST}/"], now))
    shell.request("crawl", Input.STOP)
    (figures,) = [row for row in shell.events("crawl") if row.kind == "figures"]
    assert (figures.fields["discovered_count"], figures.fields["interval_ms"]) == (1, 7_000)


def test_a_time_limit_that_has_ended_a_crawl_is_not_due_again() -> None:
    """The timer would fire for ever while what is out ends."""
    shell = crawl(replace(PLAIN, limits=LimitSettings(max_elapsed_ms=10_000)))
    shell.grants()
    shell.now_ms += 10_000
    shell.tick()
    assert shell.state("crawl") is S.STOPPING
    shell.now_ms += 1
    due_ms = shell.frontier.next_due_ms()
    assert due_ms is not None and due_ms > shell.now_ms


def test_a_round_that_is_due_waits_for_a_crawl_to_be_held() -> None:
    """The timer would fire for ever until the crawl log is written."""
    shell = crawl(replace(PLAIN, reseed=ReseedSettings(max_rounds=1, min_interval_ms=5_000)))
    fetch_all(shell)
    shell.request("crawl", Input.HOLD)
    assert shell.state("crawl") is S.PAUSING, "its log is not written"
    shell.now_ms += 5_000
    due_ms = shell.frontier.next_due_ms()
    assert due_ms is not None and due_ms > shell.now_ms


def test_rounds_that_are_granted_to_an_empty_crawl_begin() -> None:
    """The crawl waits in EMPTY for whatever comes; more rounds by an update are that."""
    settings = replace(PLAIN, run_while_empty=True)
    shell = crawl(settings)
    fetch_all(shell)
    assert shell.state("crawl") is S.EMPTY
    update(shell, replace(settings, reseed=ReseedSettings(max_rounds=1)))
    shell.work()
    assert shell.state("crawl") is S.RUNNING
    assert [row.kind for row in shell.events("crawl")].count("round_begun") == 1
    (page,) = shell.grants()
    assert page.uri == f"{HOST}/"
