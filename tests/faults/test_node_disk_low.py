"""A node's disk that fills up, and gets room again: a large file stands in for what fills it."""

import re

import pytest
from acceptance.judging import BRISK, ONE, slow_spec
from acceptance.parts import Parts
from acceptance.programs import toehold
from faults.room import RESERVE_MIB, Disk
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2
from toehold_client import FrontierClient


@pytest.mark.parametrize(
    "by_itself", [pytest.param(False, marks=pytest.mark.soak("errors")), True], ids=["resumed", "by itself"]
)
def test_a_crawl_pauses_with_the_reason_while_its_nodes_disk_is_low_and_nothing_is_lost(
    parts: Parts, by_itself: bool
) -> None:
    disk = Disk(parts.warcs("narrow").parent)
    reserve = ("--disk-reserve-mib", str(RESERVE_MIB))
    node = parts.node("narrow", *reserve, command=disk.command("crawler_node.program"))
    by_whom = f"resume_after_trouble = {'true' if by_itself else 'false'}\n"
    parts.launch(ONE, by_whom + slow_spec())  # lest it come to its end before the disk is full
    parts.until_asked(3)
    with disk.filled():
        eventually(lambda: parts.status()["status"]["state"] == "PAUSED", "the crawl to be paused")
        said = re.fullmatch(
            rf"node narrow: only (\d+) MiB (?:is|are) free in {re.escape(str(parts.warcs('narrow')))}; "
            r"(\d+) MiB are needed to continue",
            parts.status()["status"]["reason"],
        )
        assert said is not None, parts.status()["status"]["reason"]
        free_mib, needed_mib = map(int, said.groups())
        assert free_mib < RESERVE_MIB <= needed_mib
        assert '"disk_low"' in node.complaints
        assert node.runs and attendance(parts) == "NODE_PRESENCE_PRESENT"
        parts.set(BRISK)
    eventually(lambda: '"output_restored"' in node.complaints, "the node to see that there is room")
    if not by_itself:
        eventually(lambda: _resumes(parts), "the frontier to hear of it")
    parts.until_finished()
    assert parts.complaints() == []
    assert not any(remark.startswith("lapsed") for line in parts.pages for remark in line.annotations)


def attendance(parts: Parts) -> str:
    """What the frontier says of the only node."""
    with FrontierClient(parts.address) as client:
        (node,) = client.get_frontier().nodes
    return admin_pb2.NodePresence.Name(node.presence)


def _resumes(parts: Parts) -> bool:
    toehold("resume", "--frontier", parts.address)
    return parts.status()["status"]["state"] in ("RUNNING", "FINISHED")
