"""Disks that take no more data: a limit on the size of files stands in for them (EFBIG instead of ENOSPC)."""

import resource
import signal

from acceptance.judging import in_flight
from acceptance.outcomes import closed_files, open_files
from acceptance.parts import Parts
from acceptance.programs import Program
from frontier_harness.waiting import eventually

WARC_BYTES = 200_000
"""A part of what the crawl has to store, and less than what a node tries to write before it goes on."""


def test_a_node_that_cannot_store_reports_nothing_and_goes_on_when_it_can(parts: Parts) -> None:
    node = parts.node("full")
    _limit_files(node, WARC_BYTES)
    parts.launch()
    eventually(lambda: '"output_failed"' in node.complaints, "the disk to be full")
    eventually(lambda: parts.status()["statistics"]["leased_count"] == 0, "the leases to be handed back")
    asked = len(parts.web.log())
    reported = parts.pages
    assert reported
    assert parts.wrong_warcs() == []
    assert len(reported) < asked
    moment = parts.web.log()[-1].end

    _limit_files(node, resource.RLIM_INFINITY)
    parts.until_finished()
    assert parts.complaints(again=in_flight(parts.web.log(), moment)) == []
    node.signal(signal.SIGTERM)
    assert node.wait() == 0, node.complaints
    assert closed_files(parts.warcs("full"))
    assert open_files(parts.warcs("full")) == []
    assert parts.wrong_warcs() == []


def test_a_frontier_whose_store_fails_ends_with_its_own_code_and_has_all_it_acknowledged_when_restarted(
    parts: Parts,
) -> None:
    node = parts.node("one")
    parts.launch()
    parts.until_asked(80)
    log = max((parts.data / "store").glob("*.log"), key=lambda file: file.stat().st_mtime)
    _limit_files(parts.frontier, log.stat().st_size)
    assert parts.frontier.wait() == 5, parts.frontier.complaints
    assert parts.frontier.complaints.splitlines()[-1].startswith("toehold-frontier: the store failed")
    moment = parts.web.log()[-1].end
    parts.start_frontier()
    parts.until_finished()
    assert node.runs
    assert parts.complaints(again=in_flight(parts.web.log(), moment)) == []


def _limit_files(program: Program, most_bytes: int) -> None:
    _, hard = resource.prlimit(program.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (most_bytes, hard))
