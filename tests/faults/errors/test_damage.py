"""Files of a data directory that are flipped, cut or missing: what follows is what the manual says, and what
can be read is saved.
"""

import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import grpc
import pytest
from faults.errors import manual
from faults.errors.damage import CASES, CHECKPOINT, LOST_STORE, Case
from faults.errors.trial import Health, assert_no_traceback, run_to_end
from frontier_harness.calls import RUN, TIMEOUT_S, Stubs, report, spec
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2

ROWS = manual.rows()
PAUSED, RUNNING = crawl_pb2.CRAWL_STATE_PAUSED, crawl_pb2.CRAWL_STATE_RUNNING
HOSTS = 4
PROGRAM = ("-m", "frontier_server")
PAGES = [f"http://host{host}.example/{page}" for host in range(HOSTS) for page in range(20)]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose server was killed: files of rows, a log with more, logs, a checkpoint."""
    data = tmp_path_factory.mktemp("lived") / "data"
    for part in range(3):
        with ServerProcess(data) as server:
            stubs = server.stubs
            if part == 0:
                stubs.launch(
                    "t",
                    *(f"http://host{host}.example/" for host in range(HOSTS)),
                    of=spec(run_while_empty=True),
                )
            stubs.schedule("t", *PAGES[part::3])
            stubs.finish(*(report(lease) for lease in stubs.pages("t", 4)))
            if part == 1:
                stubs.admin.CreateCheckpoint(admin_pb2.CreateCheckpointRequest(), timeout=TIMEOUT_S)
            eventually(partial(_has_lines, data, stubs.statistics("t").succeeded_count), "lines in the log")
            if part < 2:
                server.stop()
    return data


def _has_lines(data: Path, count: int) -> bool:
    log = data / "crawls" / "t" / "crawl.log"
    return log.exists() and log.read_text().count(" 200 ") >= count


@pytest.mark.soak("corruption")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.files} {case.damage.__name__}")
def test_damage_is_met_as_the_manual_says_and_what_can_be_read_is_saved(
    lived: Path, tmp_path: Path, soak: Soak, case: Case
) -> None:
    data, row = tmp_path / "data", ROWS[case.row]
    shutil.copytree(lived, data)
    for path in _damaged(data, case.files):
        content = path.read_bytes()
        path.unlink()  # it may have another name, in a checkpoint
        path.write_bytes(content)
        case.damage(path)
    soak.count(faults=1)
    if row.exit_codes:
        code, said = run_to_end(data, {}, PROGRAM)
        assert code in row.exit_codes and row.is_told(said), (code, said)
        _salvage(data, case)
    with ServerProcess(data) as server:
        health = Health(server.stubs.channel)
        said = _launched_from(server.stubs) if case.row == CHECKPOINT else ""
        _goes_on(server.stubs)
        eventually(lambda: health.said == [row.health or "SERVING"], "its health")
        if row.event or case.row == LOST_STORE:
            kinds = [
                event.problem.kind for event in server.stubs.events_so_far("t") if event.HasField("problem")
            ]
            assert (row.event or "salvaged") in kinds
        assert server.stop()[0] == 0
    assert row.exit_codes or row.is_told(said + server.errors.read_text())
    assert_no_traceback(server.errors.read_text())
    lines = (data / "crawls" / "t" / "crawl.log").read_text(errors="replace").splitlines()
    assert [line for line in lines if len(line.split()) != 12] == []
    soak.count(checked=len(PAGES))


def _damaged(data: Path, files: str) -> list[Path]:
    """The last of such files; those that have the URIs that wait, if they are files of rows."""
    found = sorted(data.glob(files))
    return [path for path in found if b"pending" in path.read_bytes()] if "sst" in files else found[-1:]


def _salvage(data: Path, case: Case) -> None:
    ended = subprocess.run(
        [sys.executable, *PROGRAM, "--data", str(data), "--salvage"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(case.saved, ended.stdout), ended.stdout


def _launched_from(stubs: Stubs) -> str:
    """What is told to whoever launches from the last checkpoint."""
    kept = stubs.admin.ListCheckpoints(admin_pb2.ListCheckpointsRequest(), timeout=TIMEOUT_S).checkpoints
    stubs.create("u")
    try:
        stubs.ask("LaunchCrawl", "u", checkpoint=kept[-1].checkpoint, checkpoint_crawl="t")
    except grpc.RpcError as problem:
        assert problem.code() is grpc.StatusCode.NOT_FOUND
        return str(problem.details())
    stubs.until("u", crawl_pb2.CRAWL_STATE_FINISHED)
    return stubs.describe("u").status.reason


def _goes_on(stubs: Stubs) -> None:
    """All that waits is fetched, and each page that was offered has come to one."""
    if stubs.describe("t").status.state != RUNNING:
        stubs.until("t", PAUSED)
        stubs.request("t", RUN)
    assert set(stubs.schedule("t", *PAGES)) <= {"QUEUED", "ALREADY_SEEN"}
    while leases := stubs.next("t", 100, 2).leases:
        stubs.finish(*(report(lease) for lease in leases))
    assert stubs.statistics("t").succeeded_count == len(PAGES) + HOSTS
