"""How a whole node ends: in order, in a hurry, as an orphan, worn out, or superseded."""

import threading
from collections.abc import Iterable

import grpc
import pytest
from frontier_harness.waiting import PATIENCE_S, eventually
from node_doubles.frontier import FakeFrontier, Refusal
from node_doubles.leases import lease
from node_doubles.node import Run
from node_doubles.stages import page

from crawler_node import node as node_module
from crawler_node.fetching.fetch import FetchPolicy
from crawler_node.leases import reporter as reporter_module
from crawler_node.leases.book import HeldLease, LeaseBook
from crawler_node.node import MAX_LEFT_BEHIND, Drain
from crawler_node.process import NodeExitCode
from crawler_node.toes import pool as pool_module
from toehold.frontier.v1.frontier_pb2 import (
    HeartbeatRequest,
    Lease,
)


def test_the_last_that_is_heard_of_a_node_is_its_goodbye(run: Run, frontier: FakeFrontier) -> None:
    run.start()
    frontier.give(lease("http://h/"))
    eventually(lambda: frontier.statuses())
    assert frontier.goodbyes() == 0
    run.node.drain()
    assert run.exit_code() is NodeExitCode.DRAINED
    assert frontier.goodbyes() == 1
    last = frontier.heartbeats[-1]
    assert last.leaving and not last.tokens and not last.toe_steps
    assert (last.node, last.session) == ("node", "session")


def test_a_frontier_that_is_silent_at_the_goodbye_holds_up_nobody(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "GOODBYE_S", 0.1)
    silent = threading.Event()

    def stay_silent(request: HeartbeatRequest) -> None:
        if request.leaving:
            silent.wait(PATIENCE_S)

    frontier.on_heartbeat = stay_silent
    run.start()
    eventually(lambda: frontier.heartbeats)
    run.node.drain()
    assert run.exit_code() is NodeExitCode.DRAINED
    silent.set()
    assert run.writer.closed


def test_a_drain_hands_back_the_unstarted_and_ends_the_started(run: Run, frontier: FakeFrontier) -> None:
    run.fetcher.hold()
    run.start()
    frontier.give(*(lease(f"http://h/{n}") for n in range(3)))
    eventually(lambda: len(run.fetcher.asked) == 2)
    run.node.drain()
    eventually(lambda: frontier.released() == ["http://h/2"])
    asked = len(frontier.asked)
    frontier.give(lease("http://h/more"))
    run.fetcher.let_go()
    assert run.exit_code() is NodeExitCode.DRAINED
    assert sorted(frontier.statuses()) == ["http://h/0", "http://h/1"]
    assert run.writer.closed and frontier.left() == 1 and len(frontier.asked) == asked


def test_a_second_call_to_drain_interrupts_and_hands_back(run: Run, frontier: FakeFrontier) -> None:
    run.fetcher.hold()
    run.start()
    frontier.give(lease("http://h/0"), lease("http://h/1"))
    eventually(lambda: len(run.fetcher.asked) == 2)
    run.node.drain()
    run.node.drain()
    assert run.exit_code() is NodeExitCode.DRAINED
    assert frontier.put_off() == ["http://h/0", "http://h/1"] and frontier.released() == []
    assert run.writer.closed


def test_an_idle_node_drains_at_once(run: Run, frontier: FakeFrontier) -> None:
    run.start()
    eventually(lambda: frontier.asked)
    run.node.drain()
    assert run.exit_code() is NodeExitCode.DRAINED


@pytest.mark.parametrize(
    ("drain", "code"), [("ORDERLY", NodeExitCode.UNREPORTED), ("ORPHANED", NodeExitCode.DRAINED)]
)
def test_a_node_that_cannot_report_gives_up_and_says_so(
    run: Run,
    frontier: FakeFrontier,
    drain: str,
    code: NodeExitCode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    short = Drain(fetch_s=None, silence_s=0.3, report_s=10.0, unreported=code)
    monkeypatch.setattr(node_module, drain, short)
    run.fetcher.hold()
    run.start()
    frontier.give(lease("http://h/0"), lease("http://h/1"))
    eventually(lambda: len(run.fetcher.asked) == 2)
    frontier.stop()
    run.fetcher.let_go()
    eventually(lambda: len(run.writer.stored) == 2)
    if drain == "ORDERLY":
        run.node.drain()
    else:
        run.node.orphaned()
    assert run.exit_code() is code
    assert run.writer.closed
    assert "pages_unreported" in capsys.readouterr().out


@pytest.mark.parametrize("while_fetching", [True, False])
def test_a_node_that_drains_may_become_an_orphan(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch, while_fetching: bool
) -> None:
    monkeypatch.setattr(node_module, "ORPHANED", Drain(0.1, 0.3, 10.0, NodeExitCode.DRAINED))
    run.fetcher.hold()
    run.start()
    frontier.give(lease("http://h/"))
    eventually(lambda: run.fetcher.asked)
    frontier.stop()
    run.node.drain()
    if not while_fetching:
        run.fetcher.let_go()
        eventually(lambda: not run.node._pool.steps())
    run.node.orphaned()
    assert run.exit_code() is NodeExitCode.DRAINED


def test_toes_that_wait_for_the_reporter_do_not_hold_up_the_end(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "ORDERLY", Drain(None, 0.3, 10.0, NodeExitCode.UNREPORTED))
    monkeypatch.setattr(reporter_module, "MAX_BACKLOG_PAGES", 0)
    run.fetcher.hold()
    run.start()
    frontier.give(lease("http://h/0"), lease("http://h/1"))
    eventually(lambda: len(run.fetcher.asked) == 2)
    frontier.stop()
    run.fetcher.let_go()
    eventually(lambda: len(run.writer.stored) == 2)
    run.node.drain()
    assert run.exit_code() is NodeExitCode.UNREPORTED


def test_leases_that_come_while_the_node_drains_are_handed_back(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = threading.Event()
    add = LeaseBook.add

    def add_late(
        book: LeaseBook, leases: Iterable[tuple[Lease, FetchPolicy | None]], asked_at_s: float
    ) -> list[HeldLease]:
        coming.set()
        eventually(lambda: not run.node._pool.steps())
        return add(book, leases, asked_at_s)

    monkeypatch.setattr(LeaseBook, "add", add_late)
    run.start()
    frontier.give(lease("http://h/"))
    assert coming.wait(PATIENCE_S)
    run.node.drain()
    assert run.exit_code() is NodeExitCode.DRAINED
    assert frontier.released() == ["http://h/"] and run.fetcher.asked == []


def test_an_orphan_interrupts_what_takes_too_long(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "ORPHANED", Drain(0.1, 5.0, 10.0, NodeExitCode.DRAINED))
    run.fetcher.hold()
    run.start()
    frontier.give(lease("http://h/"))
    eventually(lambda: run.fetcher.asked)
    run.node.orphaned()
    assert run.exit_code() is NodeExitCode.DRAINED
    assert frontier.put_off() == ["http://h/"]


def test_a_toe_that_cannot_be_interrupted_is_left_behind(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host was asked, and must rest: what it is at goes back as put off."""
    monkeypatch.setattr(pool_module, "GRACE_S", 0.1)
    monkeypatch.setattr(node_module, "WATCH_S", 0.02)
    stuck = threading.Event()

    def never(uri: str) -> object:
        stuck.wait(PATIENCE_S)
        return page(uri)

    run.fetcher.answer = never  # type: ignore[assignment]
    run.start()
    frontier.give(lease("http://h/"))
    eventually(lambda: run.fetcher.asked)
    run.node.drain()
    run.node.drain()
    assert run.exit_code() is NodeExitCode.DRAINED
    stuck.set()
    assert frontier.put_off() == ["http://h/"]


def test_a_process_that_too_many_toes_were_left_behind_in_ends_and_says_so(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "GRACE_S", 0.1)
    monkeypatch.setattr(node_module, "WATCH_S", 0.02)
    stuck = threading.Event()

    def never(uri: str) -> object:
        if uri.endswith("stuck"):
            stuck.wait(PATIENCE_S)
        return page(uri)

    run.fetcher.answer = never  # type: ignore[assignment]
    run.start()

    def leave_behind(number: int) -> None:
        uri = f"http://h/{number}/stuck"
        frontier.give(lease(uri), lease(f"http://h/{number}/good"))
        eventually(lambda: uri in run.fetcher.asked)
        (serial,) = [
            report.serial
            for report, _ in run.node.pool.reports()
            if report.held is not None and report.held.lease.uri == uri
        ]
        run.node.pool.kill(serial, replace=True)
        eventually(lambda: run.node.pool.left_behind_count == number + 1)

    for number in range(MAX_LEFT_BEHIND + 1):
        leave_behind(number)
    assert run.exit_code() is NodeExitCode.WORN_OUT
    stuck.set()
    assert sorted(frontier.statuses().values()) == [-7000] * (MAX_LEFT_BEHIND + 1) + [200] * (
        MAX_LEFT_BEHIND + 1
    )


@pytest.mark.parametrize("call", ["on_next", "on_heartbeat", "on_finished"])
def test_a_superseded_node_ends_at_once(run: Run, frontier: FakeFrontier, call: str) -> None:
    def refuse(request: object) -> None:
        raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_SUPERSEDED")

    run.start()
    frontier.give(lease("http://h/"))
    eventually(lambda: frontier.statuses())
    setattr(frontier, call, refuse)
    frontier.give(lease("http://h/2"))
    assert run.exit_code() is NodeExitCode.SUPERSEDED
    assert run.writer.closed and frontier.goodbyes() == 0


def test_a_thread_of_the_node_that_fails_ends_the_node(
    run: Run, frontier: FakeFrontier, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*more: object) -> None:
        raise ZeroDivisionError

    run.start()
    eventually(lambda: frontier.heartbeats)
    run.node._book.tokens = fail  # type: ignore[method-assign,assignment]
    assert run.exit_code() is NodeExitCode.UNREPORTED
    assert run.writer.closed
    assert "thread_failed" in capsys.readouterr().out
