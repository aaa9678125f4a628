"""A crawl's life as it is told and stored: times, the clock that leaves pauses out, numbered events."""

import pytest
from core_doubles.shell import START_MS, Shell

from frontier_server.core.core import Core
from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.operators.history import EVENTS_PER_READ
from frontier_server.core.rows.errors import CursorTooOld, IllegalState, InvalidRequest
from frontier_server.core.rows.store import Changes, Family
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import CrawlSettings, LimitSettings, PolitenessSettings
from frontier_server.core.state.model import EmptyReason, Grant, Report
from frontier_server.core.state.operation import EVENTS_KEPT

S = CrawlState
QUICK = PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0)


def crawl(*seeds: str, max_documents: int = 0, politeness: PolitenessSettings = QUICK) -> Shell:
    """A crawl that runs, without politeness unless some is asked for."""
    shell = Shell()
    settings = CrawlSettings(
        allowed_addresses=("loopback",), politeness=politeness, limits=LimitSettings(max_documents)
    )
    shell.create("crawl", settings)
    shell.launch("crawl", *seeds)
    return shell


def fetch(shell: Shell, *grants: Grant) -> None:
    """Report success."""
    shell.finish(*(Report(grant.token, fetch_status=200) for grant in grants))


def test_times_of_a_life_are_those_of_the_frontiers_clock() -> None:
    shell = Shell()
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",), politeness=QUICK))
    shell.now_ms += 10
    shell.launch("crawl", "http://alpha.example/")
    shell.now_ms += 10
    fetch(shell, *shell.grants())
    shell.now_ms += 10
    fetch(shell, *shell.grants())
    view = shell.core.views.crawl("crawl")
    times = (view.create_ms, view.launch_ms, view.reach_ms, view.finish_ms)
    assert times == (START_MS, START_MS + 10, START_MS + 30, START_MS + 30)
    assert [(row.kind, row.time_ms - START_MS) for row in shell.events("crawl")] == [
        ("status_changed", 0),
        ("status_changed", 10),
        ("seeds_concluded", 10),
        ("status_changed", 10),
        ("node_joined", 20),
        ("status_changed", 30),
        ("status_changed", 30),
        ("statistics", 30),
        ("status_changed", 30),
    ]
    assert shell.build().views.crawl("crawl") == view


def test_the_time_a_crawl_has_run_leaves_pauses_out_and_outlives_restarts() -> None:
    """Heritrix 2.16: elapsedMilliseconds, paused time excluded."""
    shell = crawl("http://alpha.example/")

    def elapsed_ms() -> int:
        return shell.core.views.statistics("crawl", shell.now_ms).elapsed_ms

    shell.now_ms += 1_000
    assert elapsed_ms() == 1_000
    shell.request("crawl", Input.PAUSE)
    shell.now_ms += 50_000
    assert elapsed_ms() == 1_000
    shell.restart()
    shell.request("crawl", Input.RESUME)
    shell.now_ms += 200
    assert elapsed_ms() == 1_200
    shell.request("crawl", Input.STOP)
    shell.now_ms += 50_000
    assert elapsed_ms() == 1_200


def test_time_never_goes_back_behind_what_is_stored() -> None:
    """The wall clock may; the frontier's does not, so rests and leases keep their meaning."""
    shell = crawl("http://alpha.example/")
    shell.now_ms += 5_000
    shell.request("crawl", Input.PAUSE)
    shell.now_ms -= 3_600_000
    shell.restart()
    shell.request("crawl", Input.RESUME)
    assert shell.core.views.crawl("crawl").reach_ms >= START_MS + 5_000


def test_a_change_and_its_event_are_one_write() -> None:
    """S0.5: state, exit status and every event are stored in the same write as what caused them."""
    shell = crawl("http://alpha.example/")
    _, changes = shell.core.control.request_state("crawl", Input.PAUSE, shell.now_ms)
    families = [family for family, _ in changes]
    assert families.count(Family.EVENTS) == 3, "PAUSING, the statistics, PAUSED"
    assert Family.CRAWLS in families
    shell.restart()  # and nothing of it is seen if that write is lost
    assert shell.state("crawl") is S.RUNNING and shell.states("crawl")[-1] == "RUNNING"


def test_a_refused_request_writes_nothing() -> None:
    shell = Shell()
    shell.create("crawl", CrawlSettings(allowed_addresses=("loopback",)))
    before = {family: list(shell.store.scan(family, b"", b"")) for family in Family}
    with pytest.raises(IllegalState):
        shell.request("crawl", Input.PAUSE)
    assert {family: list(shell.store.scan(family, b"", b"")) for family in Family} == before


# Events.


def test_events_are_numbered_without_gap_and_read_from_anywhere() -> None:
    shell = crawl("http://alpha.example/")
    for _ in range(150):
        shell.request("crawl", Input.PAUSE)
        shell.request("crawl", Input.RESUME)
    last = shell.core.views.crawl("crawl").last_event
    assert last == 4 + 450 + 1, "the first pause tells statistics, too"
    read: list[int] = []
    while len(read) < last:
        part = shell.core.history.events_after("crawl", len(read))
        assert 0 < len(part) <= EVENTS_PER_READ
        read += [number for number, _ in part]
    assert read == list(range(1, last + 1))
    assert shell.core.history.events_after("crawl", last) == []


def test_the_last_hundred_thousand_events_are_kept_and_an_older_cursor_is_told() -> None:
    """OUT_OF_RANGE with CURSOR_TOO_OLD; the oldest that is kept can still be read."""
    shell = crawl("http://alpha.example/")

    def many(core: Core, now_ms: int) -> tuple[None, Changes]:
        op = core.shard.begin(now_ms)
        for number in range(1_000):
            op.event(core.shard.registry.named("crawl"), "round_begun", round=number)
        return None, core.shard.end(op)

    while shell.core.views.crawl("crawl").last_event < EVENTS_KEPT + 20:
        shell.do(many)
    view = shell.core.views.crawl("crawl")
    assert EVENTS_KEPT == 100_000
    assert view.last_event - view.oldest_event + 1 == EVENTS_KEPT
    assert len(list(shell.store.scan(Family.EVENTS, b"", b""))) == EVENTS_KEPT
    assert shell.core.history.events_after("crawl", view.oldest_event - 1)[0][0] == view.oldest_event
    with pytest.raises(CursorTooOld, match=str(view.oldest_event)) as refused:
        shell.core.history.events_after("crawl", view.oldest_event - 2)
    assert refused.value.metadata["oldest"] == str(view.oldest_event)


def test_a_cursor_ahead_of_all_events_is_refused() -> None:
    shell = crawl("http://alpha.example/")
    last = shell.core.views.crawl("crawl").last_event
    with pytest.raises(InvalidRequest, match=str(last + 1)):
        shell.core.history.events_after("crawl", last + 1)


# The document limit.


def test_the_document_limit_is_never_exceeded_by_leases_out() -> None:
    """A lease is given only while successes and leases out are together below it."""
    shell = crawl(*(f"http://{host}.example/" for host in "abcdef"), max_documents=2)
    robots = shell.grants()
    assert len(robots) == 6, "robots.txt is no document"
    fetch(shell, *robots)
    first, second = shell.grants()
    assert shell.next("crawl").empty_reason is EmptyReason.LIMIT_REACHED
    shell.finish(Report(first.token, fetch_status=-4))
    (third,) = shell.grants()
    fetch(shell, second, third)
    assert shell.count("crawl", "succeeded_count") == 2


def test_a_limit_that_leases_of_a_dead_session_filled_is_no_reason_any_more() -> None:
    """The node that asks ends them by its new session, with the very request; their host rests then."""
    shell = crawl("http://a.example/", max_documents=1, politeness=PolitenessSettings(min_delay_ms=1000))
    fetch(shell, *shell.grants())
    shell.now_ms += 1000
    (page,) = shell.grants()
    assert shell.next().empty_reason is EmptyReason.LIMIT_REACHED
    assert shell.next(session="2").empty_reason is EmptyReason.NOTHING_DUE
    assert shell.finish(Report(page.token, fetch_status=200), session="2")[0].disposition is Disposition.STALE


def test_a_crawl_at_its_document_limit_ends_with_that_reason() -> None:
    """Heritrix 2.2: maxDocumentsDownload; FINISHED_DOCUMENT_LIMIT, told before the end."""
    shell = crawl("http://a.example/", "http://b.example/", max_documents=1)
    fetch(shell, *shell.grants())
    fetch(shell, *shell.grants())
    view = shell.core.views.crawl("crawl")
    assert (view.state, view.exit_status) == (S.FINISHED, ExitStatus.FINISHED_DOCUMENT_LIMIT)
    assert [row.kind for row in shell.events("crawl")[-4:]] == [
        "limit_reached",
        "status_changed",
        "statistics",
        "status_changed",
    ]
    told = {"limit": "max_documents", "value": 1, "reached": 1, "leased_count": 0}
    assert shell.events("crawl")[-4].fields == told
    assert shell.count("crawl", "queued_count") == 1, "what is left is still known"


def test_a_pause_at_the_document_limit_is_a_pause() -> None:
    shell = crawl("http://a.example/", "http://b.example/", max_documents=1)
    fetch(shell, *shell.grants())
    (page,) = shell.grants()
    shell.request("crawl", Input.PAUSE)
    fetch(shell, page)
    assert shell.state("crawl") is S.PAUSED
    assert shell.request("crawl", Input.RESUME) is S.FINISHED
    assert shell.core.views.crawl("crawl").exit_status is ExitStatus.FINISHED_DOCUMENT_LIMIT
