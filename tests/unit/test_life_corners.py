"""A crawl's life in its corners: what the property tests' histories came to, told one by one."""

from dataclasses import replace

from core_doubles.codec import spec_of
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.spec.settings import (
    CrawlSettings,
    LimitSettings,
    PolitenessSettings,
    ReseedSettings,
)
from frontier_server.core.state.model import Report

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
    shell.do(lambda core, now: core.control.update_crawl("crawl", lambda _: (spec, ()), now))


def test_statistics_of_a_crawl_that_was_never_launched_begin_with_its_creation() -> None:
    shell = Shell()
    shell.create("crawl", PLAIN)
    shell.now_ms += 7_000
    shell.do(lambda core, now: core.administration.record_seen("crawl", [f"{HOST}/"], now))
    shell.request("crawl", Input.STOP)
    (statistics,) = [row for row in shell.events("crawl") if row.kind == "statistics"]
    assert (statistics.fields["discovered_count"], statistics.fields["interval_ms"]) == (1, 7_000)


def test_a_time_limit_that_has_ended_a_crawl_is_not_due_again() -> None:
    """The timer would fire for ever while what is out ends."""
    shell = crawl(replace(PLAIN, limits=LimitSettings(max_elapsed_ms=10_000)))
    shell.grants()
    shell.now_ms += 10_000
    shell.tick()
    assert shell.state("crawl") is S.STOPPING
    shell.now_ms += 1
    due_ms = shell.core.upkeep.next_due_ms()
    assert due_ms is not None and due_ms > shell.now_ms


def test_a_round_that_is_due_waits_for_a_crawl_to_be_held() -> None:
    """The timer would fire for ever until the crawl log is written."""
    shell = crawl(replace(PLAIN, reseed=ReseedSettings(max_rounds=1, min_interval_ms=5_000)))
    fetch_all(shell)
    shell.request("crawl", Input.HOLD)
    assert shell.state("crawl") is S.PAUSING, "its log is not written"
    shell.now_ms += 5_000
    due_ms = shell.core.upkeep.next_due_ms()
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


def test_a_serious_error_at_a_robots_txt_pauses_the_crawl() -> None:
    """S4.12: whatever the node was fetching when it could not go on."""
    shell = crawl()
    (robots,) = shell.grants()
    shell.finish(Report(robots.token, fetch_status=-3000))
    assert robots.robots and shell.state("crawl") is S.PAUSED
    (problem,) = [row for row in shell.events("crawl") if row.kind == "problem"]
    assert problem.fields["kind"] == "serious-error"
    assert f"{HOST}/robots.txt" in shell.core.views.crawl("crawl").reason


# Held.


def held(settings: CrawlSettings = PLAIN) -> Shell:
    """A crawl that is held, after its robots.txt was fetched."""
    shell = crawl(settings)
    (robots,) = shell.grants()
    shell.finish(Report(robots.token, fetch_status=200))
    shell.request("crawl", Input.HOLD)
    log_all(shell)
    assert shell.core.views.crawl("crawl").held
    return shell


def log_all(shell: Shell) -> None:
    """All outcomes get into the crawl log."""
    number = shell.core.views.crawl("crawl").number
    last = shell.core.upkeep.last_outcome(number)
    shell.do(lambda core, now: core.upkeep.record_logged(number, last, 100 * last, now))


def test_a_node_that_went_while_a_crawl_was_held_has_left_when_that_is_torn_down() -> None:
    """As when it is resumed, paused or stopped: whatever releases it."""
    shell = held()
    shell.now_ms += 2 * shell.period_ms
    shell.tick()
    assert "node_left" not in [row.kind for row in shell.events("crawl")]
    shell.do(lambda core, now: core.control.tear_down("crawl", now))
    assert "node_left" in [row.kind for row in shell.events("crawl")]


def test_the_log_of_a_held_crawl_is_written_already() -> None:
    """Who says so again changes nothing."""
    shell = held()
    number = shell.core.views.crawl("crawl").number
    _, changes = shell.core.upkeep.record_logged(number, 1, 100, shell.now_ms)
    assert not changes


def test_a_held_crawl_does_not_bring_back_a_session_that_was_replaced() -> None:
    """After a restart, leases that are out tell who has the node's name."""
    shell = held()
    shell.create("other", PLAIN)
    shell.do(lambda core, now: core.control.add_seeds("other", ["http://beta.example/"], now))
    shell.do(lambda core, now: core.control.launch("other", now))
    shell.work()
    (lease,) = shell.next("other", session="2").grants
    shell.restart()
    answer = shell.do(lambda core, now: core.frontier.heartbeat("node", "2", [lease.token], [], now))
    assert (answer.ended, shell.count("other", "lapsed_count")) == ([], 0)


def test_a_crawl_is_held_though_a_restart_has_ended_the_import_that_it_waited_for() -> None:
    """Nobody brings the rest, so nobody else may ever touch the crawl: the timer does."""
    shell = crawl()
    shell.request("crawl", Input.PAUSE)
    shell.do(lambda core, now: core.administration.begin_import("crawl", False, now))
    shell.request("crawl", Input.HOLD)
    assert not shell.core.views.crawl("crawl").held
    shell.restart()
    assert shell.core.upkeep.next_due_ms() == shell.now_ms
    shell.tick()
    assert shell.core.views.crawl("crawl").held and shell.core.upkeep.next_due_ms() is None


# The end.


def test_an_import_that_is_not_brought_to_its_end_holds_up_no_teardown() -> None:
    """Whoever brings it may be silent for ever."""
    shell = crawl()
    shell.do(lambda core, now: core.administration.begin_import("crawl", False, now))
    shell.do(lambda core, now: core.control.tear_down("crawl", now))
    shell.work()
    assert shell.core.views.crawl("crawl").torn_down
