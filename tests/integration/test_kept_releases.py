"""Stores of earlier releases open with this version, answer as they did, and are crawled to the end."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from frontier_harness.calls import TIMEOUT_S, report
from frontier_harness.process import ServerProcess
from kept_releases.answers import Answers, answers, differences
from kept_releases.history import IMPORTED, end
from kept_releases.keep import (
    BUCKET,
    BUCKET_MANIFEST,
    HERE,
    LAYOUT,
    MANIFEST,
    layout,
    unpack,
    unpack_bucket,
)
from packaging.version import Version

from toehold.frontier.v1 import admin_pb2, crawl_pb2

RELEASES = sorted(
    (each.parent for each in HERE.glob(f"*/{MANIFEST}")), key=lambda release: Version(release.name)
)


WITH_BUCKET = [release for release in RELEASES if (release / BUCKET).exists()]


@dataclass(frozen=True, slots=True)
class Opened:
    """A store of a release, in a frontier of this version."""

    told: dict[str, Answers]
    server: ServerProcess


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: release.name)
def release(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture(scope="module")
def opened(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    data = unpack(release, tmp_path_factory.mktemp("release"))
    told = json.loads((release / MANIFEST).read_text())
    with ServerProcess(data) as server:
        yield Opened(told, server)
        assert server.stop()[0] == 0
        assert "error" not in server.errors.read_text()


@pytest.mark.parametrize("release", WITH_BUCKET, ids=lambda release: release.name)
def test_a_bucket_of_an_earlier_release_answers_as_it_did_and_is_crawled_on(
    release: Path, tmp_path: Path
) -> None:
    """A machine of the release is replaced by one of this version, which has nothing but the bucket."""
    log, told = unpack_bucket(release, tmp_path), json.loads((release / BUCKET_MANIFEST).read_text())
    for machine in ("one", "another"):
        with ServerProcess(tmp_path / machine, "--log", log, "--renew-seconds", "0.1") as server:
            if machine == "one":
                found = {name: answers(server.stubs, name) for name in told}
                assert list(differences(told, found)) == []
            for name in told.keys() - {"held"}:  # nothing may be written to it
                assert list(server.stubs.job(name, verify={}).findings) == [], name
            server.stubs.schedule(
                "running", *(f"http://running.example/{machine}/{page}" for page in range(9))
            )
            assert server.stop()[0] == 0
    with ServerProcess(tmp_path / "last", "--log", log, "--renew-seconds", "0.1") as server:
        fetched = end(server.stubs, told.keys() - {"ended", "redirected", "not-launched"})
        since = {
            f"http://running.example/{machine}/{page}" for machine in ("one", "another") for page in range(9)
        }
        assert since <= fetched["running"]


def test_rows_that_differ_from_those_of_the_last_release_have_a_new_format() -> None:
    kept = json.loads((RELEASES[-1] / LAYOUT).read_text())
    now = layout()
    assert now == kept or now["format"] > kept["format"], "raise FORMAT in core/rows/records.py"


def test_a_frontier_that_only_reads_answers_as_the_release_did(release: Path, tmp_path: Path) -> None:
    told = json.loads((release / MANIFEST).read_text())
    with ServerProcess(unpack(release, tmp_path), "--read-only") as server:
        found = {name: answers(server.stubs, name) for name in told}
    assert list(differences(told, found)) == []


def test_a_store_of_an_earlier_release_answers_as_it_did(opened: Opened) -> None:
    found = {name: answers(opened.server.stubs, name) for name in opened.told}
    assert list(differences(opened.told, found)) == []


def test_its_crawls_are_verified_without_a_fault(opened: Opened) -> None:
    stubs = opened.server.stubs
    for name in opened.told:
        if name not in ("held", "torn-down"):  # nothing may be written to these
            job = stubs.job(name, verify={})
            assert (job.state, list(job.findings)) == (admin_pb2.JOB_STATE_DONE, []), name


def test_its_jobs_continue(opened: Opened) -> None:
    stubs = opened.server.stubs
    (job,) = [each for each in stubs.ask("ListJobs", "importing").jobs if each.kind == "import"]
    assert stubs.ended("importing", job.job).state == admin_pb2.JOB_STATE_DONE
    assert stubs.statistics("importing").discovered_count == IMPORTED + 1


def test_a_crawl_is_launched_from_its_checkpoint(opened: Opened) -> None:
    stubs = opened.server.stubs
    (checkpoint,) = stubs.admin.ListCheckpoints(
        admin_pb2.ListCheckpointsRequest(), timeout=TIMEOUT_S
    ).checkpoints
    stubs.create("copy", stubs.describe("paused").spec)
    request = admin_pb2.LaunchCrawlRequest(
        crawl="copy", checkpoint=checkpoint.checkpoint, checkpoint_crawl="paused"
    )
    stubs.admin.LaunchCrawl(request, timeout=TIMEOUT_S)
    stubs.until("copy", crawl_pb2.CRAWL_STATE_RUNNING)
    assert stubs.statistics("copy").queued_count > 0


def test_its_crawls_go_on_to_their_ends(opened: Opened) -> None:
    stubs = opened.server.stubs
    stubs.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl="not-launched"), timeout=TIMEOUT_S)
    crawls = opened.told.keys() - {"ended", "torn-down"}
    for name, fetched in end(stubs, crawls).items():
        told = opened.told[name]["ExportUris"]
        waited = {each["candidate"]["uri"] for each in told if "dueTime" not in each}
        assert waited <= fetched, name
        assert not stubs.statistics(name).queued_count, name


def test_a_store_of_an_earlier_release_is_crawled_on_checkpointed_and_opened_again(
    release: Path, tmp_path: Path
) -> None:
    """The version that opened it marks it as its own, and lays rows of its own beside the old ones."""
    data, again = unpack(release, tmp_path), tmp_path / "again"
    told = json.loads((release / MANIFEST).read_text())
    with ServerProcess(data) as server:
        stubs = server.stubs
        for job in stubs.ask("ListJobs", "importing").jobs:
            stubs.ended("importing", job.job)
        for name in ("importing", "running"):
            leases = stubs.next(name, session="another", wait_s=TIMEOUT_S).leases
            stubs.finish(*map(report, leases), session="another")
            stubs.schedule(name, *(f"http://{name}.example/since/{number}" for number in range(50)))
        known = {name: answers(stubs, name) for name in told}
        kept = stubs.admin.CreateCheckpoint(admin_pb2.CreateCheckpointRequest(), timeout=TIMEOUT_S)
        assert server.stop()[0] == 0
    again.mkdir()
    shutil.copytree(kept.checkpoint.path, again / "store")
    for opened in (data, again):
        with ServerProcess(opened) as server:
            found = {name: answers(server.stubs, name) for name in told}
            assert list(differences(known, found)) == []
            for name in told.keys() - {"held", "torn-down"}:
                assert list(server.stubs.job(name, verify={}).findings) == [], name
            crawls = told.keys() - {"ended", "torn-down", "not-launched"}
            for name, fetched in end(server.stubs, crawls).items():
                waited = {
                    each["candidate"]["uri"] for each in known[name]["ExportUris"] if "dueTime" not in each
                }
                assert waited <= fetched, name
            assert server.stop()[0] == 0
            assert "error" not in server.errors.read_text()


def test_a_store_of_an_earlier_release_is_salvaged_and_crawled_on(release: Path, tmp_path: Path) -> None:
    data = unpack(release, tmp_path)
    told = json.loads((release / MANIFEST).read_text())
    command = [sys.executable, "-m", "frontier_server", "--data", str(data), "--salvage"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    crawls = [line for line in done.stdout.splitlines() if line.startswith("crawl ")]
    assert len(crawls) >= len(told), done.stdout
    assert all(line.endswith("known losses: none") for line in crawls), done.stdout
    with ServerProcess(data) as server:
        stubs = server.stubs
        for name in told.keys() - {"held", "torn-down"}:
            assert list(stubs.job(name, verify={}).findings) == [], name
        for name, fetched in end(stubs, told.keys() - {"ended", "torn-down", "not-launched"}).items():
            waited = {each["candidate"]["uri"] for each in told[name]["ExportUris"] if "dueTime" not in each}
            assert waited <= fetched, name
        assert server.stop()[0] == 0
        assert "error" not in server.errors.read_text()
