"""A split of a cluster while machines, or other splits, are at work; and machines that wake up after it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from faults import split_cluster
from faults.split_cluster import DATA, HOSTS, REFUSED, URIS, VERSION, Deployment, ended, served, split_here
from faults.test_shards import CRAWL
from frontier_harness.calls import Stubs
from frontier_harness.command_line import Toehold
from frontier_harness.descendants import signal_all
from frontier_harness.process import run_to_end
from frontier_harness.splits import silent

from frontier_server.cluster.identity import ClusterUnusable, begin_generation
from frontier_server.cluster.members import FOLDER
from frontier_server.program import cluster_splitting
from frontier_server.program.cluster_splitting import Taken, split
from frontier_server.program.exits import EXIT_SPLIT
from frontier_server.program.shard_map import cluster_map, read_map
from frontier_server.replicated.folders import below
from frontier_server.replicated.log import Kind
from frontier_server.replicated.records import Form
from toehold.frontier.v1 import frontier_pb2

filled, deployment, toehold = split_cluster.filled, split_cluster.deployment, split_cluster.toehold


def test_a_split_is_refused_while_a_machine_runs(deployment: Deployment, toehold: Toehold) -> None:
    with deployment.machine("one") as one:
        code, said, problem = toehold(
            "shards", "split", "--log", deployment.url, "--data", str(deployment.work)
        )
        assert (code, said) == (REFUSED, "")
        assert f"log {deployment.url} is in use by machine one; stop all machines first" in problem
        served(one.stubs, 2)
        assert one.stubs.schedule(CRAWL, "http://www.site0.example/later") == ["QUEUED"]
        ended(one)


@pytest.mark.parametrize("before", ["built", "seal"])
def test_a_split_notices_a_machine_that_starts_meanwhile(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    step = getattr(cluster_splitting, before)
    with ExitStack() as stack:

        def begin_one(*arguments: Any) -> object:
            one = stack.enter_context(deployment.machine("one"))
            served(one.stubs, 2)
            assert one.stubs.schedule(CRAWL, "http://www.site0.example/later") == ["QUEUED"]
            return step(*arguments)

        monkeypatch.setattr(cluster_splitting, before, begin_one)
        with pytest.raises(Taken, match=r"a machine has opened the log of shard-0000 meanwhile"):
            split_here(deployment)
    monkeypatch.undo()
    assert deployment.cluster.shards == 2
    split_here(deployment)
    with deployment.machine("one") as one:
        served(one.stubs, 4)
        assert one.stubs.statistics(CRAWL).queued_count == HOSTS + URIS + 1
        ended(one)


def test_a_member_that_opens_its_log_after_the_last_look_of_a_split_ends(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine began before that, and was slow."""
    cluster_map(deployment.folder / "one", deployment.cluster, deployment.url)
    codes: list[int] = []

    def open_late(*arguments: Any) -> object:
        member = "--member", "shard-0", "--sockets", str(deployment.folder)
        ending = run_to_end("--data", str(deployment.folder / "one"), *member)
        codes.append(ending.returncode)
        assert "the number of shards was doubled meanwhile; start the machine again" in ending.stderr
        return begin_generation(*arguments)

    monkeypatch.setattr(cluster_splitting, "begin_generation", open_late)
    split_here(deployment)
    assert codes == [EXIT_SPLIT]
    assert deployment.cluster.shards == 4


def changes_of(deployment: Deployment, folder: str) -> int:
    """The records with changes in the logs of a generation."""
    found, cluster, bucket = 0, deployment.cluster, below(deployment.bucket, folder)
    for record in bucket.found("log/"):
        _, log, number = record.name.split("/")
        data = bucket.get(record.name)
        assert data is not None
        found += Form(cluster.id, log, "").read(data, int(number)).kind is Kind.CHANGES
    return found


def refuses(stubs: Stubs) -> bool:
    """Whether a machine acknowledges no new page."""
    request = frontier_pb2.ScheduleRequest(
        crawl=CRAWL, candidates=[frontier_pb2.Candidate(uri=f"http://www.site0.example/{time.time_ns()}")]
    )
    try:
        stubs.frontier.Schedule(request, timeout=1)
    except grpc.RpcError:
        return True
    return False


@pytest.mark.parametrize("names", [("one", "other"), ("one", "one")])
def test_a_machine_of_the_old_generation_that_wakes_up_acknowledges_nothing(
    deployment: Deployment, names: Sequence[str]
) -> None:
    sleeping, waking = names
    with deployment.machine(sleeping) as zombie:
        served(zombie.stubs, 2)
        signal_all(zombie.child.pid, signal.SIGSTOP)
        deployment.split()
        before = changes_of(deployment, "")
        new = deployment.machine(waking, "new")
        with new:
            served(new.stubs, 4)
            signal_all(zombie.child.pid, signal.SIGCONT)
            asked = 0
            while zombie.child.poll() is None:
                assert refuses(zombie.stubs)
                asked += 1
                time.sleep(0.05)
            assert zombie.wait() == DATA
            assert changes_of(deployment, "") == before
            served(new.stubs, 4)
            assert new.stubs.statistics(CRAWL).queued_count == HOSTS + URIS
            assert new.stubs.schedule(CRAWL, "http://www.site1.example/later") == ["QUEUED"]
            ended(new)
    assert asked


def test_a_machine_makes_its_directory_anew_once_after_a_split(deployment: Deployment) -> None:
    with deployment.machine("one") as one:
        served(one.stubs, 2)
        ended(one)
    (deployment.folder / "one" / "shard-0001" / "left").write_text("of the generation before")
    split_here(deployment)
    with deployment.machine("one") as one:
        served(one.stubs, 4)
        ended(one)
    found = read_map(deployment.folder / "one")
    assert found is not None and (found.shards, found.folder) == (4, deployment.cluster.folder)
    assert not (deployment.folder / "one" / "shard-0001" / "left").exists()
    with deployment.machine("one") as one:  # what is current stays
        served(one.stubs, 4)
        ended(one)
    assert one.errors.read_text().count("members_removed") == 1
    assert "store_restored" not in one.errors.read_text().rpartition("machine_joins")[2]


def test_a_split_that_another_one_has_overtaken_is_refused(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first one stands still after its last look, while another one runs to its end."""
    other = tmp_path / "other work"
    other.mkdir()

    def run_other(*arguments: Any) -> object:
        monkeypatch.undo()
        split(deployment.bucket, other, VERSION, silent, watch_s=0.0)
        return begin_generation(*arguments)

    monkeypatch.setattr(cluster_splitting, "begin_generation", run_other)
    with pytest.raises(ClusterUnusable, match="was split by another command meanwhile"):
        split_here(deployment)
    assert (deployment.cluster.shards, deployment.cluster.generation) == (4, 2)
    with deployment.machine("one") as one:
        served(one.stubs, 4)
        assert one.stubs.statistics(CRAWL).queued_count == HOSTS + URIS
        ended(one)


def test_a_machine_names_its_generation_and_ignores_other_cards(deployment: Deployment) -> None:
    """A card of the generation before is none of this one's machines."""
    deployment.bucket.put(f"{FOLDER}zombie/notice", b"{}")
    split_here(deployment)
    with deployment.machine("one") as one:
        served(one.stubs, 4)
        card = json.loads((deployment.folder / "bucket" / FOLDER / "one" / "notice").read_bytes())
        assert card["cluster"] == f"{deployment.cluster.id}/{deployment.cluster.folder}"
        ended(one)
