"""The three programs started by hand, nodes and frontiers killed, and a crawl that comes through it all."""

import signal
from pathlib import Path

import pytest
from acceptance.judging import ONE, in_flight
from acceptance.outcomes import closed_files, open_files
from acceptance.parts import Parts
from acceptance.programs import Programs, pass_time
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

from practice_web.practice import PracticeWeb

PATIENT_LEASE_S = 6.0
"""A lease period in which a node on a busy machine is heard."""


def test_two_nodes_share_one_crawl_and_end_in_order(parts: Parts) -> None:
    nodes = [parts.node(name) for name in ("one", "two")]
    parts.launch()
    parts.until_finished()
    assert parts.pages_of("one")
    assert parts.pages_of("two")
    for node in nodes:
        node.signal(signal.SIGTERM)
        assert node.wait() == 0, node.complaints
    for node in nodes:
        files = closed_files(parts.warcs(node.name))
        assert files
        assert all(file.name.endswith(f"-{node.name}~{node.pid}.warc.gz") for file in files)
        assert open_files(parts.warcs(node.name)) == []
    assert parts.complaints() == []
    parts.frontier.signal(signal.SIGTERM)
    assert parts.frontier.wait() == 0, parts.frontier.complaints


def test_kill_9_of_a_node_loses_nothing_and_the_other_fetches_what_it_held(parts: Parts) -> None:
    killed, _ = parts.node("killed"), parts.node("other")
    parts.launch()
    eventually(lambda: len(parts.pages_of("killed")) >= 30, "pages of the node")
    moment = killed.kill()
    parts.until_finished()
    assert parts.complaints(again=in_flight(parts.web.log(), moment)) == []
    # What it had reported is in the file that it could not close; parts.complaints has looked.
    assert len(open_files(parts.warcs("killed"))) == 1
    assert closed_files(parts.warcs("killed")) == []


def test_a_killed_node_that_is_started_again_goes_on_at_once(
    web: PracticeWeb, programs: Programs, tmp_path: Path
) -> None:
    """Its leases come back when its next session first asks, not after a lease period."""
    parts = Parts(web, programs, tmp_path, lease_s=2 * WHOLE_CRAWL_S)
    node = parts.node("again")
    parts.launch(ONE)
    parts.until_asked(30)
    moment = node.kill()
    parts.node("again")
    parts.until_finished()
    assert parts.complaints(again=in_flight(web.log(), moment)) == []


def test_kill_9_of_the_frontier_loses_nothing_keeps_rests_and_nodes_go_on_when_it_is_back(
    parts: Parts,
) -> None:
    nodes = [parts.node(name) for name in ("one", "two")]
    parts.launch(("alpha", "theta", "nu", "kappa", "lambda"))
    # Hosts rest long then: one for its Crawl-delay, two for their Retry-After.
    eventually(lambda: sum(entry.retry_until is not None for entry in parts.web.log()) >= 2, "busy hosts")
    moment = parts.frontier.kill()
    acknowledged = {line.url for line in parts.pages}
    parts.start_frontier()
    parts.until_finished()
    assert all(node.runs for node in nodes)
    assert acknowledged <= {line.url for line in parts.pages}
    assert parts.complaints(again=in_flight(parts.web.log(), moment)) == []


def test_a_frontier_that_was_away_for_longer_than_a_lease_period_takes_the_reports_of_before(
    web: PracticeWeb, programs: Programs, tmp_path: Path
) -> None:
    parts = Parts(web, programs, tmp_path, lease_s=PATIENT_LEASE_S)
    node = parts.node("patient")
    parts.launch()
    parts.until_asked(100)
    parts.frontier.kill()
    pass_time(1.5 * PATIENT_LEASE_S)
    asked = len(parts.web.log())
    assert node.runs
    parts.start_frontier()
    parts.until_finished()
    assert len(parts.web.log()) > asked
    # No page twice: every report of before counted. Leases may lapse that the node has never heard of, as the
    # frontier may die with an answer on its way.
    assert parts.complaints() == []


@pytest.mark.soak("kills")
def test_frontier_and_nodes_killed_again_and_again_lose_nothing(parts: Parts) -> None:
    names = ("one", "two")
    nodes = {name: parts.node(name) for name in names}
    parts.launch()
    moments = []
    for number, asked in enumerate((60, 120, 180)):
        parts.until_asked(asked)
        name = names[number % 2]
        moments += [parts.frontier.kill(), nodes[name].kill()]
        nodes[name] = parts.node(name)
        parts.start_frontier()
    parts.until_finished()
    assert parts.complaints(again=in_flight(parts.web.log(), *moments)) == []
