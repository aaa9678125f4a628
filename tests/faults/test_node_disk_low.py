"""A node's disk that fills up, and gets room again: a large file stands in for what fills it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from acceptance.parts import Parts
from acceptance.programs import toehold, until

MIB = 1024 * 1024
MARGIN_MIB = 256
"""More than anybody else takes of the disk, or gives back, while the test runs."""


@pytest.mark.parametrize("by_itself", [False, True], ids=["resumed", "by itself"])
def test_a_crawl_pauses_with_the_reason_while_its_nodes_disk_is_low_and_nothing_is_lost(
    parts: Parts, tmp_path: Path, by_itself: bool
) -> None:
    reserve_mib = _free_mib(tmp_path) - MARGIN_MIB
    assert reserve_mib > 2 * MARGIN_MIB, f"the disk of {tmp_path} is too full for this test"
    node = parts.node("narrow", "--disk-reserve-mib", str(reserve_mib))
    parts.launch()
    if by_itself:
        done = toehold("set", "resume_after_trouble=true", "--frontier", parts.address)
        assert done.returncode == 0, done.stderr
    parts.until_asked(20)
    filler = tmp_path / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2 * MARGIN_MIB * MIB)
    try:
        until(lambda: parts.status()["status"]["state"] == "PAUSED", "the crawl to be paused")
        assert "disk low: " in parts.status()["status"]["reason"]
        assert "no leases are taken until there is room" in node.complaints
        assert node.runs
    finally:
        filler.unlink()
    until(lambda: "output can be written again" in node.complaints, "the node to see that there is room")
    if not by_itself:
        until(lambda: _resumes(parts), "the frontier to hear of it")
    parts.until_finished()
    assert parts.complaints() == []


def _resumes(parts: Parts) -> bool:
    toehold("resume", "--frontier", parts.address)
    return parts.status()["status"]["state"] in ("RUNNING", "FINISHED")


def _free_mib(folder: Path) -> int:
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize // MIB
