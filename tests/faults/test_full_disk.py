"""Disks that take no more data: a limit on the size of files stands in for them (EFBIG instead of ENOSPC)."""

import json
import resource
import signal
import time
from pathlib import Path

import pytest
from acceptance.judging import in_flight
from acceptance.outcomes import closed_files, open_files
from acceptance.parts import Parts
from acceptance.programs import Programs, children, program_of
from frontier_harness.waiting import eventually

from practice_web.practice import PracticeWeb
from practice_web.web import LIBRARY

WARC_BYTES = 200_000
"""A part of what the crawl has to store, and less than what a node tries to write before it goes on."""

MANY = tuple(origin.key for origin in LIBRARY)
"""So many hosts that each shard has some."""


def test_a_node_that_cannot_store_reports_nothing_and_goes_on_when_it_can(parts: Parts) -> None:
    node = parts.node("full")
    _limit_files(node.pid, WARC_BYTES)
    parts.launch()
    eventually(lambda: '"output_failed"' in node.complaints, "the disk to be full")
    eventually(lambda: parts.status()["statistics"]["leased_count"] == 0, "the leases to be handed back")
    asked = len(parts.web.log())
    reported = parts.pages
    assert reported
    assert parts.wrong_warcs() == []
    assert len(reported) < asked
    moment = parts.web.log()[-1].end

    _limit_files(node.pid, resource.RLIM_INFINITY)
    parts.until_finished()
    assert parts.complaints(again=in_flight(parts.web.log(), moment)) == []
    node.signal(signal.SIGTERM)
    assert node.wait() == 0, node.complaints
    assert closed_files(parts.warcs("full"))
    assert open_files(parts.warcs("full")) == []
    assert parts.wrong_warcs() == []


@pytest.mark.undivided("a shard whose store fails is started again")
def test_a_frontier_whose_store_fails_ends_with_its_own_code_and_has_all_it_acknowledged_when_restarted(
    parts: Parts,
) -> None:
    node = parts.node("one")
    parts.launch()
    parts.until_asked(80)
    _let_no_log_grow(parts.frontier.pid, parts.data / "store")
    assert parts.frontier.wait() == 5, parts.frontier.complaints
    assert parts.frontier.complaints.splitlines()[-1].startswith("toehold-frontier: the store failed")
    moment = parts.web.log()[-1].end
    parts.start_frontier()
    parts.until_finished()
    assert node.runs
    assert parts.complaints(again=in_flight(parts.web.log(), moment)) == []


def test_a_shard_whose_store_fails_comes_back_by_itself_and_has_all_it_acknowledged(
    web: PracticeWeb, programs: Programs, tmp_path: Path
) -> None:
    parts = Parts(web, programs, tmp_path, options=("--shards", "2"))
    node = parts.node("one")
    parts.launch(MANY)
    parts.until_asked(80)
    (shard,) = (pid for pid in children(parts.frontier.pid) if "shard-1" in program_of(pid))
    _let_no_log_grow(shard, parts.data / "shard-0001" / "store")
    eventually(lambda: "member_ended" in parts.frontier.complaints, "the end of the shard")
    moment = time.monotonic()
    parts.until_finished()
    ends = [line for line in parts.frontier.complaints.splitlines() if "member_ended" in line]
    assert [json.loads(line)["exit_code"] for line in ends] == [5]
    assert node.runs and parts.frontier.runs
    assert parts.complaints(again=in_flight(parts.web.log(), moment)) == []


def _let_no_log_grow(server: int, store: Path) -> None:
    """Nothing can be written any more by a server, whose store this is."""
    log = max(store.glob("*.log"), key=lambda file: file.stat().st_mtime)
    _limit_files(server, log.stat().st_size)


def _limit_files(process: int, most_bytes: int) -> None:
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (most_bytes, hard))
