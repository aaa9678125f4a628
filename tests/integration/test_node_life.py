"""A whole node against a frontier over real gRPC; what it fetches and where it stores are not real."""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import grpc
import pytest
from frontier_harness.waiting import PATIENCE_S, eventually
from google.protobuf.duration_pb2 import Duration
from node_doubles.frontier import FakeFrontier, Refusal
from node_doubles.leases import lease
from node_doubles.stages import FakeFetcher, FakeWriter, page, stages

from crawler_node import node as node_module
from crawler_node.exits import ExitCode
from crawler_node.fetching.fetch import FetchPolicy
from crawler_node.leases import feeder as feeder_module
from crawler_node.leases import reporter as reporter_module
from crawler_node.leases.book import Held, LeaseBook
from crawler_node.leases.frontier import Contact, Frontier, Rests
from crawler_node.node import MAX_LEFT_BEHIND, Drain, Node
from crawler_node.output.archive import Archive
from crawler_node.toes import pool as pool_module
from toehold.frontier.v1.frontier_pb2 import (
    PURPOSE_ROBOTS,
    HeartbeatRequest,
    Lease,
    NextRequest,
    ScheduleRequest,
)


class Run:
    """A node at work."""

    def __init__(self, frontier: FakeFrontier, directory: Path, toes: int = 2) -> None:
        contact = Contact()
        self.fetcher = FakeFetcher()
        self.writer = FakeWriter(directory)
        archive = Archive([self.writer])
        self.node = Node(
            frontier=Frontier.connect(frontier.address, contact, "node", "session"),
            feeding=Frontier.connect(frontier.address, contact, "node", "session"),
            contact=contact,
            stages=stages(self.fetcher, archive),
            archive=archive,
            crawl="",
            toes=toes,
        )
        self._codes: list[ExitCode] = []
        self._main = threading.Thread(target=lambda: self._codes.append(self.node.wait()))
        self._started = False

    def start(self) -> None:
        self.node.start()
        self._main.start()
        self._started = True

    def exit_code(self) -> ExitCode:
        self._main.join(PATIENCE_S)
        assert self._codes, "the node did not end"
        return self._codes[0]

    def end(self) -> None:
        if self._started:
            self.fetcher.let_go()
            self.node.drain()
            self.node.orphaned()
            assert self.exit_code() is not None


@pytest.fixture
def frontier() -> Iterator[FakeFrontier]:
    frontier = FakeFrontier()
    yield frontier
    frontier.stop()


@pytest.fixture
def run(frontier: FakeFrontier, tmp_path: Path) -> Iterator[Run]:
    run = Run(frontier, tmp_path)
    yield run
    run.end()


def test_leases_are_fetched_and_their_links_offered_before_they_are_reported(
    run: Run, frontier: FakeFrontier
) -> None:
    run.fetcher.answer = lambda uri: page(uri, body=b"http://h/link")
    run.start()
    frontier.give(lease("http://h/"))
    eventually(lambda: frontier.statuses() == {"http://h/": 200})
    assert frontier.order[:2] == ["schedule", "finished"]
    assert [candidate.uri for candidate in frontier.candidates] == ["http://h/link"]
    assert run.writer.synced == ["http://h/"]


def test_a_policy_is_told_once(run: Run, frontier: FakeFrontier) -> None:
    run.start()
    frontier.give(lease("http://h/1"))
    eventually(lambda: len(frontier.reports) == 1)
    frontier.give(lease("http://h/2"))
    eventually(lambda: len(frontier.reports) == 2)
    assert list(frontier.asked[-1].known_fetch_policy_ids) == ["policy"]
    assert set(frontier.statuses().values()) == {200}


def test_no_more_leases_are_taken_than_toes_can_start_soon(run: Run, frontier: FakeFrontier) -> None:
    run.fetcher.hold()
    frontier.give(*(lease(f"http://h/{n}") for n in range(10)))
    run.start()
    eventually(lambda: len(run.fetcher.asked) == 2)
    eventually(lambda: frontier.heartbeats and len(frontier.heartbeats[-1].tokens) == 3)
    assert frontier.left() == 7
    run.fetcher.let_go()
    eventually(lambda: len(frontier.reports) == 10)


def test_heartbeats_name_all_that_is_held_and_what_the_toes_do(run: Run, frontier: FakeFrontier) -> None:
    run.fetcher.hold()
    run.start()
    frontier.give(*(lease(f"http://h/{n}") for n in range(3)))

    def told() -> bool:
        last = frontier.heartbeats[-1:]
        steps = [{step.step: step.count for step in each.toe_steps} for each in last]
        return steps == [{"FETCHING": 2}] and len(last[0].tokens) == 3

    eventually(told, "what is held, and what the toes do")
    last = frontier.heartbeats[-1]
    assert (last.node, last.session) == ("node", "session")


def test_a_node_outlives_its_frontier_and_reports_what_it_finished_meanwhile(
    run: Run, frontier: FakeFrontier, capsys: pytest.CaptureFixture[str]
) -> None:
    run.fetcher.hold()
    run.start()
    frontier.give(lease("http://h/1"), lease("http://h/2"))
    eventually(lambda: len(run.fetcher.asked) == 2)
    frontier.stop()
    run.fetcher.let_go()
    eventually(lambda: sorted(run.writer.stored) == ["http://h/1", "http://h/2"])
    frontier.start()
    eventually(lambda: frontier.statuses() == {"http://h/1": 200, "http://h/2": 200})
    frontier.give(lease("http://h/3"))
    eventually(lambda: frontier.statuses().get("http://h/3") == 200)
    logged = capsys.readouterr().out
    assert logged.count("the frontier does not answer") == 1
    assert logged.count("the frontier answers again") == 1


def test_a_node_may_be_there_before_its_frontier(run: Run, frontier: FakeFrontier) -> None:
    frontier.stop()
    run.start()
    frontier.give(lease("http://h/"))
    frontier.start()
    eventually(lambda: frontier.statuses() == {"http://h/": 200})


def test_without_an_answer_for_a_lease_period_no_fetch_is_started(run: Run, frontier: FakeFrontier) -> None:
    run.fetcher.hold()
    run.start()
    frontier.give(*(lease(f"http://h/{n}") for n in range(3)))
    eventually(lambda: frontier.heartbeats and len(frontier.heartbeats[-1].tokens) == 3)
    eventually(lambda: len(run.fetcher.asked) == 2)
    frontier.lease_duration = Duration(nanos=300_000_000)
    eventually(lambda: run.node._book.period_s < 1)
    frontier.stop()
    threading.Event().wait(0.35)  # the lease period itself is what passes
    run.fetcher.let_go()
    eventually(lambda: run.node.unreported_count() == 3)  # two that were fetched, one handed back
    frontier.start()
    eventually(lambda: len(frontier.reports) == 3)
    assert sorted(run.fetcher.asked) == ["http://h/0", "http://h/1"]
    assert frontier.released() == ["http://h/2"]


def test_ended_leases_are_cut_and_not_reported(run: Run, frontier: FakeFrontier) -> None:
    run.fetcher.hold()
    run.start()
    frontier.give(*(lease(f"http://h/{n}") for n in range(3)))
    eventually(lambda: len(run.fetcher.asked) == 2)
    started = list(run.fetcher.asked)
    frontier.ended = [started[0].encode(), b"http://h/2"]
    eventually(lambda: [list(beat.tokens) for beat in frontier.heartbeats[-1:]] == [[started[1].encode()]])
    run.fetcher.let_go()
    eventually(lambda: frontier.statuses() == {started[1]: 200})
    assert frontier.released() == []


def test_leases_of_a_crawl_that_pauses_are_handed_back_if_unstarted(run: Run, frontier: FakeFrontier) -> None:
    run.fetcher.hold()
    run.start()
    frontier.give(*(lease(f"http://h/{n}") for n in range(3)))
    eventually(lambda: len(run.fetcher.asked) == 2)
    frontier.to_release = [b"http://h/0", b"http://h/1", b"http://h/2"]
    eventually(lambda: frontier.released() == ["http://h/2"])
    run.fetcher.let_go()
    eventually(lambda: sorted(frontier.statuses()) == ["http://h/0", "http://h/1"])


def test_a_crawl_whose_end_is_hurried_gets_back_what_was_not_started_and_breaks_off_the_rest(
    run: Run, frontier: FakeFrontier
) -> None:
    """S0.17: the second stop nudges."""
    run.fetcher.hold()
    run.start()
    frontier.give(
        lease("http://h/robots.txt", purpose=PURPOSE_ROBOTS), *(lease(f"http://h/{n}") for n in range(2))
    )
    eventually(lambda: len(run.fetcher.asked) == 2)
    frontier.to_interrupt = [b"http://h/robots.txt", b"http://h/0", b"http://h/1"]
    eventually(lambda: frontier.statuses() == {"http://h/robots.txt": -7000, "http://h/0": -7000})
    eventually(lambda: frontier.released() == ["http://h/1"])
    frontier.give(lease("http://other/"))
    run.fetcher.let_go()
    eventually(lambda: frontier.statuses().get("http://other/") == 200)


def test_a_pool_of_another_size_works_on_and_one_of_none_takes_no_leases(
    run: Run, frontier: FakeFrontier
) -> None:
    run.fetcher.hold()
    run.start()
    frontier.give(*(lease(f"http://h/{n}") for n in range(10)))
    frontier.pool_size = 4
    eventually(lambda: len(run.fetcher.asked) == 4)
    eventually(lambda: frontier.left() == 10 - 4 - 2)
    frontier.pool_size = 0
    eventually(lambda: frontier.released() == ["http://h/4", "http://h/5"])
    run.fetcher.let_go()
    eventually(lambda: len(frontier.statuses()) == 4)
    heard = len(frontier.heartbeats)
    eventually(lambda: len(frontier.heartbeats) > heard + 2)
    assert frontier.left() == 4 and not list(frontier.heartbeats[-1].toe_steps)
    frontier.pool_size = None
    eventually(lambda: len(frontier.statuses()) == 8)
    eventually(lambda: sum(step.count for step in frontier.heartbeats[-1].toe_steps) == 2)


def test_leases_that_come_for_a_pool_of_none_are_handed_back(run: Run, frontier: FakeFrontier) -> None:
    run.start()
    eventually(lambda: frontier.asked)  # and waits now
    frontier.pool_size = 0
    eventually(lambda: not run.node._pool.steps())
    frontier.give(lease("http://h/"))
    eventually(lambda: frontier.released() == ["http://h/"])
    assert run.fetcher.asked == []


def test_a_node_that_drains_keeps_no_pool_whatever_size_is_wanted(run: Run, frontier: FakeFrontier) -> None:
    run.fetcher.hold()
    run.start()
    frontier.give(lease("http://h/0"), lease("http://h/1"))
    eventually(lambda: len(run.fetcher.asked) == 2)
    run.node.drain()
    eventually(lambda: run.node._pool.size == 0)
    frontier.pool_size = 5
    heard = len(frontier.heartbeats)
    eventually(lambda: len(frontier.heartbeats) > heard + 2)
    assert run.node._pool.size == 0
    run.fetcher.let_go()
    assert run.exit_code() is ExitCode.DRAINED


def test_the_last_that_is_heard_of_a_node_is_its_goodbye(run: Run, frontier: FakeFrontier) -> None:
    run.start()
    frontier.give(lease("http://h/"))
    eventually(lambda: frontier.statuses())
    assert frontier.goodbyes() == 0
    run.node.drain()
    assert run.exit_code() is ExitCode.DRAINED
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
    assert run.exit_code() is ExitCode.DRAINED
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
    assert run.exit_code() is ExitCode.DRAINED
    assert sorted(frontier.statuses()) == ["http://h/0", "http://h/1"]
    assert run.writer.closed and frontier.left() == 1 and len(frontier.asked) == asked


def test_a_second_call_to_drain_interrupts_and_hands_back(run: Run, frontier: FakeFrontier) -> None:
    run.fetcher.hold()
    run.start()
    frontier.give(lease("http://h/0"), lease("http://h/1"))
    eventually(lambda: len(run.fetcher.asked) == 2)
    run.node.drain()
    run.node.drain()
    assert run.exit_code() is ExitCode.DRAINED
    assert frontier.put_off() == ["http://h/0", "http://h/1"] and frontier.released() == []
    assert run.writer.closed


def test_an_idle_node_drains_at_once(run: Run, frontier: FakeFrontier) -> None:
    run.start()
    eventually(lambda: frontier.asked)
    run.node.drain()
    assert run.exit_code() is ExitCode.DRAINED


@pytest.mark.parametrize(
    ("drain", "code"), [("ORDERLY", ExitCode.UNREPORTED), ("ORPHANED", ExitCode.DRAINED)]
)
def test_a_node_that_cannot_report_gives_up_and_says_so(
    run: Run,
    frontier: FakeFrontier,
    drain: str,
    code: ExitCode,
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
    assert "ended with pages unreported" in capsys.readouterr().out


@pytest.mark.parametrize("while_fetching", [True, False])
def test_a_node_that_drains_may_become_an_orphan(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch, while_fetching: bool
) -> None:
    monkeypatch.setattr(node_module, "ORPHANED", Drain(0.1, 0.3, 10.0, ExitCode.DRAINED))
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
    assert run.exit_code() is ExitCode.DRAINED


def test_toes_that_wait_for_the_reporter_do_not_hold_up_the_end(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "ORDERLY", Drain(None, 0.3, 10.0, ExitCode.UNREPORTED))
    monkeypatch.setattr(reporter_module, "MAX_BACKLOG_PAGES", 0)
    run.fetcher.hold()
    run.start()
    frontier.give(lease("http://h/0"), lease("http://h/1"))
    eventually(lambda: len(run.fetcher.asked) == 2)
    frontier.stop()
    run.fetcher.let_go()
    eventually(lambda: len(run.writer.stored) == 2)
    run.node.drain()
    assert run.exit_code() is ExitCode.UNREPORTED


def test_leases_that_come_while_the_node_drains_are_handed_back(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = threading.Event()
    add = LeaseBook.add

    def add_late(
        book: LeaseBook, leases: Iterable[tuple[Lease, FetchPolicy | None]], asked_at_s: float
    ) -> list[Held]:
        coming.set()
        eventually(lambda: not run.node._pool.steps())
        return add(book, leases, asked_at_s)

    monkeypatch.setattr(LeaseBook, "add", add_late)
    run.start()
    frontier.give(lease("http://h/"))
    assert coming.wait(PATIENCE_S)
    run.node.drain()
    assert run.exit_code() is ExitCode.DRAINED
    assert frontier.released() == ["http://h/"] and run.fetcher.asked == []


def test_an_orphan_interrupts_what_takes_too_long(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "ORPHANED", Drain(0.1, 5.0, 10.0, ExitCode.DRAINED))
    run.fetcher.hold()
    run.start()
    frontier.give(lease("http://h/"))
    eventually(lambda: run.fetcher.asked)
    run.node.orphaned()
    assert run.exit_code() is ExitCode.DRAINED
    assert frontier.put_off() == ["http://h/"]


def test_a_toe_that_cannot_be_interrupted_is_left_behind(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host was asked, and must rest: what it is at goes back as put off."""
    monkeypatch.setattr(pool_module, "GRACE_S", 0.1)
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
    assert run.exit_code() is ExitCode.DRAINED
    stuck.set()
    assert frontier.put_off() == ["http://h/"]


def test_a_process_that_too_many_toes_were_left_behind_in_ends_and_says_so(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "GRACE_S", 0.1)
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
    assert run.exit_code() is ExitCode.WORN_OUT
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
    assert run.exit_code() is ExitCode.SUPERSEDED
    assert run.writer.closed and frontier.goodbyes() == 0


def test_a_node_waits_for_a_crawl_that_is_not_there_yet(
    run: Run,
    frontier: FakeFrontier,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Rests, "LONGEST_S", 0.02)

    def refuse(request: NextRequest) -> None:
        raise Refusal(grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL")

    frontier.on_next = refuse
    run.start()
    eventually(lambda: len(frontier.asked) >= 2)
    frontier.on_next = lambda request: None
    frontier.give(lease("http://h/"))
    eventually(lambda: frontier.statuses() == {"http://h/": 200})
    assert capsys.readouterr().out.count("gives no leases") == 1
    frontier.on_next = refuse
    asked = len(frontier.asked)
    frontier.give(lease("http://h/2"))
    eventually(lambda: len(frontier.asked) > asked + 1)
    assert capsys.readouterr().out.count("gives no leases") == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED"),
        (grpc.StatusCode.UNAVAILABLE, "CRAWL_HELD"),
    ],
)
def test_a_frontier_that_refuses_for_now_is_waited_for(
    run: Run, frontier: FakeFrontier, code: grpc.StatusCode, reason: str
) -> None:
    refused: list[ScheduleRequest] = []

    def refuse(request: ScheduleRequest) -> None:
        refused.append(request)
        if len(refused) < 4:
            raise Refusal(code, reason)

    frontier.on_schedule = refuse
    run.fetcher.answer = lambda uri: page(uri, body=b"http://h/link")
    run.start()
    frontier.give(lease("http://h/"))
    eventually(lambda: frontier.statuses() == {"http://h/": 200})
    assert len(refused) == 4 and frontier.order[:2] == ["schedule", "finished"]


def test_a_crawl_that_is_held_does_not_hold_up_another_once_its_leases_have_ended(
    run: Run, frontier: FakeFrontier
) -> None:
    refused: list[ScheduleRequest] = []

    def refuse(request: ScheduleRequest) -> None:
        if request.crawl == "held":
            refused.append(request)
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "CRAWL_HELD")

    frontier.on_schedule = refuse
    run.fetcher.answer = lambda uri: page(uri, body=b"http://h/link")
    run.start()
    frontier.give(lease("http://held/", crawl="held"))
    eventually(lambda: refused)
    frontier.give(lease("http://h/"))
    eventually(lambda: run.writer.stored == ["http://held/", "http://h/"])
    frontier.ended = [b"http://held/"]
    eventually(lambda: frontier.statuses() == {"http://h/": 200})


def test_no_leases_are_taken_while_pages_cannot_be_stored(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes: list[bool] = []

    def probe(archive: Archive) -> bool:
        probes.append(not run.writer.fail_append)
        return probes[-1]

    monkeypatch.setattr(feeder_module, "PROBE_REST_S", 0.02)
    monkeypatch.setattr(Archive, "probe", probe)
    run.fetcher.hold()
    run.writer.fail_append = True
    run.start()
    frontier.give(*(lease(f"http://h/{n}") for n in range(3)))
    eventually(lambda: len(run.fetcher.asked) == 2)
    eventually(lambda: frontier.heartbeats and len(frontier.heartbeats[-1].tokens) == 3)
    run.fetcher.let_go()
    eventually(
        lambda: sorted([*frontier.put_off(), *frontier.released()]) == [f"http://h/{n}" for n in range(3)]
    )
    asked = len(frontier.asked)
    probed = len(probes)
    eventually(lambda: len(probes) > probed + 3)
    assert len(frontier.asked) == asked and set(frontier.statuses().values()) == {-50}
    run.writer.fail_append = False
    frontier.give(lease("http://h/3"))
    eventually(lambda: frontier.statuses().get("http://h/3") == 200)


def test_a_thread_of_the_node_that_fails_ends_the_node(
    run: Run, frontier: FakeFrontier, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*more: object) -> None:
        raise ZeroDivisionError

    run.start()
    eventually(lambda: frontier.heartbeats)
    run.node._book.tokens = fail  # type: ignore[method-assign,assignment]
    assert run.exit_code() is ExitCode.UNREPORTED
    assert run.writer.closed
    assert "a thread of the node failed" in capsys.readouterr().out
