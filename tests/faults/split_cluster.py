"""Machines of a cluster in a test's folder, whose shards are doubled while none of them runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from faults.test_shards import CRAWL
from frontier_harness import splits
from frontier_harness.calls import Stubs
from frontier_harness.command_line import Toehold, toehold_of
from frontier_harness.process import ServerProcess
from frontier_harness.splits import silent
from frontier_harness.waiting import PATIENCE_S, eventually

from frontier_server.cluster.identity import Cluster, identified
from frontier_server.program.cluster_splitting import split
from frontier_server.replicated.buckets import Bucket, open_bucket
from toehold.frontier.v1 import admin_pb2

VERSION = "1.0"
DATA, REFUSED = 4, 5  # exit codes of the frontier, and of `toehold`
HOSTS, URIS = 12, 60


class Deployment:
    """A bucket, and beside it the directories of machines and of a split."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"file://{folder}/bucket"
        self.work = folder / "work"

    @property
    def bucket(self) -> Bucket:
        """What its machines have in common."""
        return open_bucket(self.url)

    @property
    def cluster(self) -> Cluster:
        """The cluster as the bucket tells of it now."""
        return identified(self.bucket, None, "", makes=False)

    def machine(self, name: str, directory: str = "") -> ServerProcess:
        """A machine, which has not begun."""
        own = "--log", self.url, "--machine", name, "--renew-seconds", "0.1"
        return ServerProcess(self.folder / (directory or name), *own, "--shards", str(self.cluster.shards))

    def split(self) -> None:
        """Let the program double the shards."""
        splits.split("--log", self.url, "--data", str(self.work))

    def copied(self, folder: Path) -> Deployment:
        """The same bucket in another folder, without machines."""
        shutil.copytree(self.folder / "bucket", folder / "bucket")
        return Deployment(folder)


def ended(*machines: ServerProcess) -> None:
    """Stop machines in order."""
    for machine in machines:
        assert machine.stop()[0] == 0
        machine.let_go()


def served(stubs: Stubs, shards: int) -> None:
    """Wait until all shards are there, and no others."""

    def all_present() -> bool:
        found = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=PATIENCE_S).shards
        return len(found) == shards and all(shard.present for shard in found)

    eventually(all_present, f"{shards} shards")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """A cluster of two shards with URIS pages on HOSTS hosts, which no machine serves."""
    deployment = Deployment(tmp_path_factory.mktemp("filled"))
    identified(deployment.bucket, 2, VERSION)
    with deployment.machine("one") as one:
        served(one.stubs, 2)
        hosts = [f"www.site{number}.example" for number in range(HOSTS)]
        one.stubs.launch(CRAWL, *(f"http://{host}/" for host in hosts))
        one.stubs.schedule(CRAWL, *(f"http://{hosts[page % HOSTS]}/{page}" for page in range(URIS)))
        ended(one)
    return deployment


@pytest.fixture
def deployment(filled: Deployment, tmp_path: Path) -> Deployment:
    """A copy of that cluster for one test."""
    return filled.copied(tmp_path)


@pytest.fixture
def toehold(capfd: pytest.CaptureFixture[str]) -> Toehold:
    """Runs `toehold` in this process, and has what the frontier's program prints, too."""
    return toehold_of(capfd)


def split_here(deployment: Deployment, bucket: Bucket | None = None) -> None:
    """Double the shards in this process, perhaps as one that sees the bucket otherwise."""
    deployment.work.mkdir(exist_ok=True)
    split(bucket or deployment.bucket, deployment.work, VERSION, silent, watch_s=0.5)
