"""A whole node at work, against a frontier over real gRPC."""

import re
import threading
from itertools import pairwise

import grpc
import pytest
from frontier_harness.waiting import eventually
from google.protobuf.duration_pb2 import Duration
from node_doubles.frontier import FakeFrontier, Refusal
from node_doubles.leases import lease
from node_doubles.node import Run
from node_doubles.stages import page

from crawler_node import node as node_module
from crawler_node.leases import poller as poller_module
from crawler_node.output.archive import Archive
from crawler_node.process import NodeExitCode
from toehold.frontier.v1 import frontier_pb2
from toehold_client.worker.rests import Rests


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


def test_a_node_takes_as_many_leases_as_its_toes_can_start_soon_and_names_them_in_heartbeats(
    run: Run, frontier: FakeFrontier
) -> None:
    run.fetcher.hold()
    frontier.give(*(lease(f"http://h/{n}") for n in range(10)))
    run.start()
    eventually(lambda: len(run.fetcher.asked) == 2)

    def told() -> bool:
        last = frontier.heartbeats[-1:]
        steps = [{step.step: step.count for step in each.toe_steps} for each in last]
        return steps == [{"FETCHING": 2}] and len(last[0].tokens) == 3

    eventually(told, "what the node holds, and what its toes do")
    assert (frontier.heartbeats[-1].node, frontier.heartbeats[-1].session) == ("node", "session")
    assert frontier.left() == 7
    run.fetcher.let_go()
    eventually(lambda: len(frontier.reports) == 10)


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
    told = re.findall("frontier_(lost|back)", capsys.readouterr().out)
    # Not once a try. A connection that waits to reconnect may tell of a loss after another one has answered.
    assert told[:2] == ["lost", "back"]
    assert all(one != next_one for one, next_one in pairwise(told))


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


def test_a_crawl_whose_end_is_hurried_gets_back_what_was_not_started_and_breaks_off_the_rest(
    run: Run, frontier: FakeFrontier
) -> None:
    """S0.17: the second stop nudges."""
    run.fetcher.hold()
    run.start()
    frontier.give(
        lease("http://h/robots.txt", purpose=frontier_pb2.PURPOSE_ROBOTS),
        *(lease(f"http://h/{n}") for n in range(2)),
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
    assert run.exit_code() is NodeExitCode.DRAINED


def test_a_node_waits_for_a_crawl_that_is_not_there_yet(
    run: Run,
    frontier: FakeFrontier,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Rests, "LONGEST_S", 0.02)

    def refuse(request: frontier_pb2.NextRequest) -> None:
        raise Refusal(grpc.StatusCode.NOT_FOUND, "UNKNOWN_CRAWL")

    frontier.on_next = refuse
    run.start()
    eventually(lambda: len(frontier.asked) >= 2)
    frontier.on_next = lambda request: None
    frontier.give(lease("http://h/"))
    eventually(lambda: frontier.statuses() == {"http://h/": 200})
    assert capsys.readouterr().out.count("leases_refused") == 1
    frontier.on_next = refuse
    asked = len(frontier.asked)
    frontier.give(lease("http://h/2"))
    eventually(lambda: len(frontier.asked) > asked + 1)
    assert capsys.readouterr().out.count("leases_refused") == 1


def test_a_node_says_once_that_its_crawl_is_for_fetchers_of_another_kind(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(poller_module, "LONG_POLL_S", 0.0)
    frontier.empty_reason = frontier_pb2.EMPTY_REASON_OTHER_FETCHER
    run.start()
    eventually(lambda: len(frontier.asked) >= 3)
    assert capsys.readouterr().out.count("crawl_for_others") == 1
    frontier.empty_reason = frontier_pb2.EMPTY_REASON_NOTHING_DUE
    frontier.give(lease("http://h/"))
    eventually(lambda: frontier.statuses() == {"http://h/": 200})
    frontier.empty_reason = frontier_pb2.EMPTY_REASON_OTHER_FETCHER
    eventually(lambda: "crawl_for_others" in capsys.readouterr().out)


def test_a_node_waits_for_a_frontier_that_refuses_for_now(run: Run, frontier: FakeFrontier) -> None:
    refused: list[frontier_pb2.ScheduleRequest] = []

    def refuse(request: frontier_pb2.ScheduleRequest) -> None:
        refused.append(request)
        if len(refused) < 4:
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")

    frontier.on_schedule = refuse
    run.fetcher.answer = lambda uri: page(uri, body=b"http://h/link")
    run.start()
    frontier.give(lease("http://h/"))
    eventually(lambda: frontier.statuses() == {"http://h/": 200})
    assert len(refused) == 4 and frontier.order[:2] == ["schedule", "finished"]


def test_a_crawl_that_is_held_does_not_hold_up_another_once_its_leases_have_ended(
    run: Run, frontier: FakeFrontier
) -> None:
    refused: list[frontier_pb2.ScheduleRequest] = []

    def refuse(request: frontier_pb2.ScheduleRequest) -> None:
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


def test_the_files_of_a_crawl_are_closed_when_a_heartbeat_says_that_it_has_ended(
    run: Run, frontier: FakeFrontier
) -> None:
    run.writer.idle = ["ended", "paused"]
    frontier.ended_crawls = ["ended"]
    run.start()
    eventually(lambda: "ended" in run.writer.finished)
    assert set(run.writer.finished) == {"ended"}


def test_idle_files_are_closed_when_the_frontier_has_been_silent_for_long(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "LONG_SILENT_S", 1.0)
    run.writer.idle = ["a", "b"]
    run.start()
    eventually(lambda: frontier.heartbeats)
    frontier.stop()
    eventually(lambda: set(run.writer.finished) == {"a", "b"})


def test_no_leases_are_taken_while_pages_cannot_be_stored(
    run: Run, frontier: FakeFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes: list[bool] = []

    def probe(archive: Archive) -> bool:
        probes.append(not run.writer.fail_append)
        return probes[-1]

    monkeypatch.setattr(poller_module, "PROBE_REST_S", 0.02)
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
