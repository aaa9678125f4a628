"""A backup, and its restoration on another machine, step by step as docs/operating.md has them."""

import json
import re
import shutil
import time
from pathlib import Path

import pytest
from acceptance.judging import BRISK, FEW, complaints, in_flight, slow_spec
from acceptance.manual import Operator, blocks
from acceptance.parts import CRAWL, Parts
from acceptance.programs import toehold
from frontier_harness.waiting import eventually


def until_logged(parts: Parts, pages: int) -> None:
    """Waits until crawl.log has so many."""
    eventually(lambda: len(parts.pages) >= pages, f"{pages} pages in crawl.log")


@pytest.mark.undivided("a backup of several shards is made in another way, as tests/faults/test_sets.py does")
def test_a_crawl_goes_on_on_another_machine_from_a_backup(parts: Parts, tmp_path: Path) -> None:
    backup, restore, go_on = blocks("operating.md", "## Backup, and restore on another machine")
    other = tmp_path / "other"
    operator = Operator(parts.address, DIR=parts.data, BACKUP=tmp_path / "backup", OTHER=other)
    node = parts.node("one")
    parts.launch(settings=slow_spec())  # lest it come to its end before its backup is restored
    parts.until_asked(6)
    backed_up = time.monotonic()
    for command in backup:
        if "crawls" in command:  # an operator types slowly
            until_logged(parts, len(parts.pages) + 5)
        said = operator.types(command)
        if "create" in command:
            operator.names["NAME"] = said.partition(":")[0]
    parts.until_asked(len(parts.web.log()) + 10)
    newest = json.loads(toehold("events", "--json", "--frontier", parts.address).stdout.splitlines()[-1])[
        "cursor"
    ]
    lost = parts.frontier.kill()
    shutil.rmtree(parts.data)

    copy, start = restore
    operator.types(copy)
    assert start == "toehold-frontier --data OTHER --listen HOST:PORT"
    parts.data = other
    parts.start_frontier()
    eventually(
        lambda: parts.status()["status"]["state"] == "PAUSED", "the pause"
    )  # what was out has come back
    assert "kept in" in parts.status()["status"]["reason"]
    newer = toehold("events", "--from", newest, "--frontier", parts.address)
    assert newer.returncode != 0 and "is not the one that was read" in newer.stderr, newer
    verify, resume = go_on
    assert re.search(r"^result +no difference found$", operator.types(verify), re.M)
    operator.types(resume)
    parts.set(BRISK)
    eventually(lambda: parts.status()["status"]["state"] == "FINISHED", "the crawl's end")
    parts.until_logged()
    assert node.runs
    log = parts.web.log()
    again = [entry.url for entry in log if backed_up - 1 <= entry.start <= lost]
    assert complaints(parts.web, FEW, again=[*again, *in_flight(log, backed_up, lost)]) == []
    assert len({line.url for line in parts.pages}) == len(parts.pages)
    assert parts.status()["statistics"]["succeeded_count"] == sum(
        line.disposition == "succeeded" for line in parts.pages
    )
    assert parts.wrong_warcs() == []
    assert list((other / "crawls" / CRAWL).glob("crawl.log.cut-*"))
