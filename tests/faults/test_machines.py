"""A frontier on three machines that are lost with their disks, or freeze and wake up, under full use."""

from __future__ import annotations

import itertools
import shutil
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

import grpc
import msgspec
import pytest
from frontier_harness.buckets import s3_process, s3_url
from frontier_harness.calls import Stubs, spec
from frontier_harness.descendants import kill_all, signal_all
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak
from frontier_harness.waiting import PATIENCE_S, eventually

from frontier_server.cluster.members import Card
from frontier_server.replicated.buckets import Bucket, open_bucket
from toehold.frontier.v1 import crawl_pb2

from .test_shards import CRAWL, DELAY_S, RECONNECT, REPEATED, Fetchers, check, uri

MACHINES, SHARDS = 3, 6
WHILE_SLOW = (*REPEATED, grpc.StatusCode.RESOURCE_EXHAUSTED)
"""How calls end that are to be made again: the last one, while a bucket is slow."""
MEDIAN_BACK_S, WORST_BACK_S = 4.0, 8.0
LEASE_S = 10


class Machine:
    """A frontier of the cluster: a process group with a directory of its own."""

    def __init__(self, folder: Path, name: str, log: str, lease_s: int = LEASE_S) -> None:
        self.data = folder / name
        self._port = KeptPort()
        self.address = self._port.address
        self._flags = (
            "--shards",
            str(SHARDS),
            "--log",
            log,
            "--machine",
            name,
            "--lease-seconds",
            str(lease_s),
        )
        self.begin()

    def begin(self) -> None:
        """Start it."""
        self.server = ServerProcess(self.data, *self._flags, listen=self.address)
        self.server.begin()

    def lose(self) -> None:
        """Kill all its processes, and delete its directory."""
        kill_all(self.server.child.pid)
        self.server.child.wait()
        self.server.let_go()
        shutil.rmtree(self.data, ignore_errors=True)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes: those that start others first."""
        signal_all(self.server.child.pid, number)


class AnyStub:
    """The calls of a service on any of several addresses: the next one is tried when one does not answer."""

    def __init__(self, services: list[object]) -> None:
        self._services = services
        self._at = 0

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(request: object, timeout: float) -> object:
            try:
                return getattr(self._services[self._at], name)(request, timeout=timeout)
            except grpc.RpcError:
                self._at = (self._at + 1) % len(self._services)
                raise

        return call


class Cluster:
    """The machines."""

    def __init__(self, folder: Path, random: Random, log: str, lease_s: int = LEASE_S) -> None:
        """`log` is the URL of an empty bucket."""
        self._random = random
        self.back_s: list[float] = []
        """How long it took until what a machine had served was served by others."""
        self.bucket = open_bucket(log)
        self.machines = [Machine(folder, f"machine-{number}", log, lease_s) for number in range(MACHINES)]

    def until_ready(self) -> None:
        """Wait until all serve."""
        for machine in self.machines:
            machine.server.until_ready()

    def strike(self) -> None:
        """Lose a machine, or freeze one, until the others have taken over; then let it come back."""
        machine = self._random.choice(self.machines)
        others = [each for each in self.machines if each is not machine]
        had = self._served(machine)
        began_s = time.monotonic()
        if self._random.random() < 0.5:
            machine.lose()
            come_back: Callable[[], None] = machine.begin
        else:
            machine.signal(signal.SIGSTOP)
            come_back = partial(machine.signal, signal.SIGCONT)

        def is_back() -> bool:
            found = [self._served(each) for each in others]
            return all(any(each.get(member, 0) > epoch for each in found) for member, epoch in had.items())

        eventually(is_back, f"members of {machine.data.name} on other machines")
        if had:
            self.back_s.append(time.monotonic() - began_s)
        time.sleep(self._random.uniform(0.0, 3.0))
        come_back()

    def restart(self) -> None:
        """Stop the machine that has been up for longest, in order, and start it again."""
        machine = self.machines.pop(0)
        self.machines.append(machine)
        code, _ = machine.server.stop()
        assert code == 0
        machine.server.let_go()
        machine.begin()
        machine.server.until_ready()

    def _served(self, machine: Machine) -> dict[str, int]:
        """The members that a machine serves, by its own word, with the epochs of their logs: one that was
        frozen does not know yet that others have later ones."""
        notice = self.bucket.get(f"machines/{machine.data.name}/notice")
        if notice is None:
            return {}
        card = msgspec.json.decode(notice, type=Card)
        return {member: card.holds[member] for member in card.ports if member in card.holds}

    def end(self) -> None:
        """End all in order."""
        self.until_ready()
        for machine in self.machines:
            code, _ = machine.server.stop()
            assert code == 0
            machine.server.let_go()


def verify(every: Sequence[Stubs]) -> None:
    """Compare the counts of all parts of the crawl with their rows, by whatever machine answers."""
    began_s = time.monotonic()
    for stubs in itertools.cycle(every):
        try:
            job = stubs.job(CRAWL, verify={})
        except grpc.RpcError as error:
            if error.code() not in WHILE_SLOW or time.monotonic() - began_s > PATIENCE_S:
                raise
            time.sleep(0.05)
        else:
            assert not job.findings, list(job.findings)
            return


def crawl_log_lines(bucket: Bucket | Path) -> Iterator[str]:
    """The lines of the crawl's log in the bucket: of pieces that begin at one place, the last one counts."""
    if isinstance(bucket, Path):
        bucket = open_bucket(f"file://{bucket}")
    for shard in range(SHARDS):
        folder = f"logs/shard-{shard:04}/{CRAWL}/crawl.log/"
        names = [each.name for each in bucket.found(folder)]
        pieces = {int(name.removeprefix(folder).partition("-")[0]): name for name in names}
        at, found = 0, b""
        while at in pieces:
            found += bucket.get(pieces[at]) or b""
            at = len(found)
        yield from found.decode().splitlines()


def struck(
    folder: Path,
    losses: int,
    pages: int,
    seed: int,
    strike: Callable[[Cluster], None] = Cluster.strike,
    log: str = "",
    lease_s: int = LEASE_S,
) -> tuple[Fetchers, list[float]]:
    """A crawl under so many losses, to its end; its fetchers, and how long it took after each loss until all
    was served again. `log` is the URL of a bucket; by default a directory. Fetchers send no heartbeats, so
    `lease_s` must be longer than they may have to wait for an answer."""
    random = Random(seed)
    folder.mkdir(exist_ok=True)
    cluster = Cluster(folder, random, log or f"file://{folder}/bucket", lease_s)
    cluster.until_ready()
    with ExitStack() as stack:
        channels = [
            stack.enter_context(grpc.insecure_channel(machine.address, RECONNECT))
            for machine in cluster.machines
        ]
        every = [Stubs(channel) for channel in channels]
        stubs = every[0]
        made = spec(
            DELAY_S, scope=crawl_pb2.ScopeSpec(accept_patterns=[r"http://www\.site[0-9]+\.example/.*"])
        )
        stubs.create(CRAWL, made)
        stubs.ask("AddSeedBatch", CRAWL, uris=[uri(0)])
        stubs.ask("LaunchCrawl", CRAWL)
        stubs.frontier = AnyStub([each.frontier for each in every])  # type: ignore[assignment]  # as asked for
        fetchers = Fetchers(stubs, pages)
        fetchers.repeated = WHILE_SLOW
        threads = [threading.Thread(target=fetchers.run, args=(f"node{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        step = 0.8 * pages / (losses + 1)
        for number in range(1, losses + 1):
            eventually(partial(fetchers.came_to, number * step), f"pages after loss {number - 1}")
            strike(cluster)
            verify(every)
        for thread in threads:
            thread.join(PATIENCE_S * 2)
        fetchers.ending.set()
        verify(every)
        assert not fetchers.problems, fetchers.problems[:3]
        assert not any(thread.is_alive() for thread in threads), "the crawl has not ended"
    cluster.end()
    lines = Counter(line.split()[3] for line in crawl_log_lines(cluster.bucket) if line.split()[1] == "200")
    assert lines == fetchers.done
    return fetchers, cluster.back_s


def test_a_crawl_over_three_machines_that_are_lost_loses_nothing(tmp_path: Path) -> None:
    fetchers, _ = struck(tmp_path, 4, 600, seed=11)
    check(fetchers, 600)


def test_machines_that_are_restarted_one_after_the_other_lose_nothing(tmp_path: Path) -> None:
    fetchers, _ = struck(tmp_path, MACHINES, 600, seed=12, strike=Cluster.restart)
    check(fetchers, 600)


@pytest.mark.soak("machines")
@pytest.mark.timeout(7200)
def test_crawls_over_three_machines_that_are_lost_three_hundred_times_lose_nothing(
    tmp_path: Path, soak: Soak, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fifth crawl has its log behind a server that speaks S3, the others in a directory."""
    losses = soak.cycles(300)
    back_s: list[float] = []
    for life in range((losses + 19) // 20):
        pages = 4_000
        count = min(20, losses - 20 * life)
        with ExitStack() as stack:
            log = s3_url(stack.enter_context(s3_process()), monkeypatch) if life % 5 == 4 else ""
            lease_s = 3 * LEASE_S if log else LEASE_S  # the server of S3 answers one request at a time
            fetchers, took_s = struck(
                tmp_path / str(life), count, pages, soak.seed + life, log=log, lease_s=lease_s
            )
        check(fetchers, pages)
        back_s += [] if log else took_s
        soak.count(faults=count, checked=pages)
        print(f"back after {statistics.median(took_s):.1f} s, at most {max(took_s):.1f} s")
    assert statistics.median(back_s) < MEDIAN_BACK_S
    assert max(back_s) < WORST_BACK_S
