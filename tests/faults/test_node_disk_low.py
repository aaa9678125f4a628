"""A node's disk that fills up, and gets room again: a large file stands in for what fills it."""

from __future__ import annotations

from pathlib import Path

import pytest
from acceptance.judging import BRISK, ONE, slow_spec
from acceptance.parts import Parts
from acceptance.programs import toehold
from faults.room import filled, reserve_mib
from frontier_harness.waiting import eventually


@pytest.mark.parametrize("by_itself", [False, True], ids=["resumed", "by itself"])
def test_a_crawl_pauses_with_the_reason_while_its_nodes_disk_is_low_and_nothing_is_lost(
    disk_to_fill: Path, parts: Parts, by_itself: bool
) -> None:
    node = parts.node("narrow", "--disk-reserve-mib", str(reserve_mib(disk_to_fill)))
    by_whom = f"resume_after_trouble = {'true' if by_itself else 'false'}\n"
    parts.launch(ONE, by_whom + slow_spec())  # lest it come to its end before the disk is full
    parts.until_asked(3)
    with filled(disk_to_fill):
        eventually(lambda: parts.status()["status"]["state"] == "PAUSED", "the crawl to be paused")
        assert "disk low: " in parts.status()["status"]["reason"]
        assert "no leases are taken until there is room" in node.complaints
        assert node.runs
        parts.set(BRISK)
    eventually(lambda: "output can be written again" in node.complaints, "the node to see that there is room")
    if not by_itself:
        eventually(lambda: _resumes(parts), "the frontier to hear of it")
    parts.until_finished()
    assert parts.complaints() == []


def _resumes(parts: Parts) -> bool:
    toehold("resume", "--frontier", parts.address)
    return parts.status()["status"]["state"] in ("RUNNING", "FINISHED")
