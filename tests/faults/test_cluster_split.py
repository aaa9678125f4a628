"""A frontier on several machines whose shards are doubled: also by a split that is killed, and with machines
that sleep meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import grpc
import pytest
from frontier_harness.buckets import FaultyBucket
from frontier_harness.calls import PAUSE, Stubs, next_request, report, spec
from frontier_harness.command_line import Toehold, toehold_of
from frontier_harness.descendants import children
from frontier_harness.process import ServerProcess, run_to_end
from frontier_harness.waiting import PATIENCE_S, eventually

from frontier_server.cluster.identity import Cluster, ClusterUnusable, begin_generation, identified, seal
from frontier_server.cluster.members import FOLDER
from frontier_server.core.rows.keys import is_mark
from frontier_server.core.rows.store import Family
from frontier_server.logs.archive import LogArchive
from frontier_server.program import cluster_splitting
from frontier_server.program.cluster_splitting import Taken, split
from frontier_server.program.exits import EXIT_SPLIT
from frontier_server.program.shard_map import MapUnusable, ShardMap, cluster_map, read_map
from frontier_server.replicated.buckets import Bucket, open_bucket
from frontier_server.replicated.folders import below
from frontier_server.replicated.log import Kind
from frontier_server.replicated.object_log import ObjectLog
from frontier_server.replicated.records import Form
from frontier_server.replicated.replicas import Replicas
from frontier_server.stores.logged import Mark, mark_of, open_logged
from frontier_server.stores.rocks import CACHE_BYTES, RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

from .test_shards import CRAWL, DELAY_S, RECONNECT, Fetchers, check, uri

PAGES = 240
NODES = tuple(f"node{number}" for number in range(4))
HOLDER = "holder"
FIRST_KILL_S, LATER = 0.4, 1.35  # each time after this many times as long
PAUSED, FINISHED = "paused", "finished"
DATA, REFUSED = 4, 5  # exit codes of the frontier, and of `toehold`
VERSION = "1.0"


def silent(line: str) -> None:
    pass


class Place:
    """A bucket, and the directories of machines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"file://{folder}/bucket"
        self.work = folder / "work"

    @property
    def bucket(self) -> Bucket:
        return open_bucket(self.url)

    @property
    def cluster(self) -> Cluster:
        return identified(self.bucket, None, "", makes=False)

    def machine(self, name: str, directory: str = "") -> ServerProcess:
        """A machine, which has not begun."""
        own = "--log", self.url, "--machine", name, "--renew-seconds", "0.1"
        return ServerProcess(self.folder / (directory or name), *own, "--shards", str(self.cluster.shards))

    def split(self) -> None:
        done = run_to_end("--log", self.url, "--data", str(self.work), "--split")
        assert done.returncode == 0, done.stderr

    def split_under_kills(self) -> None:
        """Kill it a little later each time, until it is faster."""
        command = [
            sys.executable,
            "-m",
            "frontier_server",
            "--log",
            self.url,
            "--data",
            str(self.work),
            "--split",
        ]
        patience_s, kills = FIRST_KILL_S, 0
        while True:
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                time.sleep(patience_s)
                process.kill()
                code = process.wait(PATIENCE_S)
            if code == 0:
                assert kills
                return
            assert code == -9, code
            kills += 1
            patience_s *= LATER

    def copied(self, folder: Path) -> Place:
        shutil.copytree(self.folder / "bucket", folder / "bucket")
        return Place(folder)


def ready(*machines: ServerProcess) -> None:
    for machine in machines:
        machine.until_ready()


def ended(*machines: ServerProcess) -> None:
    for machine in machines:
        assert machine.stop()[0] == 0
        machine.let_go()


def served(stubs: Stubs, shards: int) -> None:
    """Wait until all shards are there, and no others."""

    def all_present() -> bool:
        found = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=PATIENCE_S).shards
        return len(found) == shards and all(shard.present for shard in found)

    eventually(all_present, f"{shards} shards")


def fetched(address: str, fetchers: Fetchers, enough: int = 0) -> None:
    """Let fetchers work until so many pages are done, or the crawl has ended."""
    with grpc.insecure_channel(address, RECONNECT) as channel:
        fetchers.stubs = Stubs(channel)
        fetchers.ending.clear()
        threads = [threading.Thread(target=fetchers.run, args=(node,)) for node in NODES]
        for thread in threads:
            thread.start()
        if enough:
            eventually(lambda: fetchers.problems or fetchers.done.total() >= enough, f"{enough} pages")
            fetchers.ending.set()
        for thread in threads:
            thread.join(PATIENCE_S * 2)
        assert not fetchers.problems, fetchers.problems[:3]
        assert not any(thread.is_alive() for thread in threads), "the crawl has not ended"


def log_lines(place: Place, crawl: str) -> list[str]:
    """The lines of a crawl's log, as the bucket has them."""
    cluster, found = place.cluster, []
    for number in range(cluster.shards):
        archive = LogArchive(below(place.bucket, cluster.folder), f"shard-{number:04}", 0)
        log = place.folder / "read" / str(number) / "crawl.log"
        archive.restore(crawl, log, 1 << 40)
        found += log.read_text().splitlines()
    return found


def begin(stubs: Stubs) -> None:
    """A crawl that goes on, one that is paused, and one that is finished."""
    ignore = crawl_pb2.RobotsSpec(policy="ignore")
    stubs.launch(PAUSED, *(f"http://paused{number}.example/" for number in range(8)), of=spec(robots=ignore))
    stubs.request(PAUSED, PAUSE)
    stubs.until(PAUSED, crawl_pb2.CRAWL_STATE_PAUSED)
    stubs.launch(FINISHED, "http://finished.example/", of=spec(robots=ignore))
    stubs.finish(*(report(lease) for lease in stubs.pages(FINISHED)))
    stubs.until(FINISHED, crawl_pb2.CRAWL_STATE_FINISHED)
    scope = crawl_pb2.ScopeSpec(accept_patterns=[r"http://www\.site[0-9]+\.example/.*"])
    stubs.create(CRAWL, spec(DELAY_S, scope=scope))
    stubs.ask("AddSeedBatch", CRAWL, uris=[uri(0)])
    stubs.ask("LaunchCrawl", CRAWL)


def told(stubs: Stubs, crawl: str) -> list[str]:
    return [str(event) for event in stubs.events_so_far(crawl)]


def crawled(place: Place, shards: int, how: Callable[[Place], None]) -> None:
    """A crawl that is split in its middle, with leases out, and ends on machines of the next generation."""
    fetchers = Fetchers(None, PAGES)  # type: ignore[arg-type]  # known where they begin
    asked = next_request(CRAWL, 10, 1, HOLDER, f"session of {HOLDER}")
    identified(place.bucket, shards, VERSION)
    with place.machine("one") as one, place.machine("other") as other:
        served(one.stubs, shards)
        begin(one.stubs)
        fetched(other.address, fetchers, PAGES // 2)
        held = [
            lease
            for lease in one.stubs.frontier.Next(asked, timeout=PATIENCE_S).leases
            if lease.purpose == frontier_pb2.PURPOSE_PAGE
        ]
        assert held
        before = {crawl: told(one.stubs, crawl) for crawl in (PAUSED, FINISHED, CRAWL)}
        counts = one.stubs.statistics(CRAWL)
        ended(other, one)
    how(place)
    assert place.cluster.shards == 2 * shards
    assert not list(place.work.glob("*/")), "the working directory is not cleared"
    with place.machine("one") as one, place.machine("other") as other:
        served(one.stubs, 2 * shards)
        stubs = one.stubs
        now = stubs.statistics(CRAWL)
        assert (now.succeeded_count, now.discovered_count) == (
            counts.succeeded_count,
            counts.discovered_count,
        )
        for crawl, events in before.items():
            assert told(stubs, crawl)[: len(events)] == events
            if crawl != FINISHED:
                assert not stubs.job(crawl, verify={}).findings
        assert stubs.describe(PAUSED).status.state == crawl_pb2.CRAWL_STATE_PAUSED
        assert stubs.statistics(PAUSED).queued_count == 8
        fetchers.stubs = stubs
        done = fetchers.done.total()
        for lease in held:
            fetchers._fetched(lease, HOLDER)
        assert fetchers.done.total() == done + len(held), "the leases count no more"
        fetched(other.address, fetchers)
        statistics = stubs.statistics(CRAWL)
        assert (statistics.succeeded_count, statistics.queued_count) == (PAGES, 0)
        assert statistics.discovered_count == PAGES
        ended(other, one)
        for machine in (one, other):
            errors = machine.errors.read_text()
            assert "log_ahead" not in errors and "log_archive" not in errors
            assert ("members_removed" in errors) and "store_wiped" not in errors
    check(fetchers, PAGES)
    pages = [line.split()[3] for line in log_lines(place, CRAWL) if "/robots.txt" not in line.split()[3]]
    assert sorted(pages) == sorted(map(uri, range(PAGES)))
    assert len(log_lines(place, FINISHED)) == 1


@pytest.mark.parametrize("shards", [1, 2])
def test_a_crawl_goes_on_over_twice_as_many_shards(tmp_path: Path, shards: int) -> None:
    crawled(Place(tmp_path), shards, Place.split)


def test_a_split_that_is_killed_again_and_again_is_completed(tmp_path: Path) -> None:
    crawled(Place(tmp_path), 2, Place.split_under_kills)


# What a split does, step by step.

HOSTS, URIS = 12, 60


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A cluster of two shards that nobody serves."""
    place = Place(tmp_path_factory.mktemp("filled"))
    identified(place.bucket, 2, VERSION)
    with place.machine("one") as one:
        served(one.stubs, 2)
        hosts = [f"www.site{number}.example" for number in range(HOSTS)]
        one.stubs.launch(CRAWL, *(f"http://{host}/" for host in hosts))
        one.stubs.schedule(CRAWL, *(f"http://{hosts[page % HOSTS]}/{page}" for page in range(URIS)))
        ended(one)
    return place


@pytest.fixture
def place(filled: Place, tmp_path: Path) -> Place:
    return filled.copied(tmp_path)


@pytest.fixture
def toehold(capfd: pytest.CaptureFixture[str]) -> Toehold:
    return toehold_of(capfd)


def split_here(place: Place, bucket: Bucket | None = None) -> None:
    place.work.mkdir(exist_ok=True)
    split(bucket or place.bucket, place.work, VERSION, silent, watch_s=0.5)


def rows(place: Place, family: Family, folder: Path) -> list[tuple[bytes, bytes]]:
    """The rows of all shards, as another machine has them when it opens the logs."""
    cluster, found = place.cluster, []
    bucket, shard_map = below(place.bucket, cluster.folder), ShardMap(folder, cluster.shards, b"")
    for name in shard_map.names[:-1]:
        directory = shard_map.directory_of(name)
        directory.mkdir(parents=True)
        log = ObjectLog(bucket, directory.name, cluster.id, VERSION)
        replicas = Replicas(bucket, directory.name)
        with closing(open_logged(directory, log, replicas, VERSION, CACHE_BYTES, 1)) as store:
            its = list(store.scan(family, b"", b""))
            if family in (Family.SEEN, Family.PENDING):
                partitions = {key[4:12] for key, _ in its}
                assert {shard_map.shard_of(partition) for partition in partitions} <= {
                    int(name.rpartition("-")[2])
                }
            found += its
    shutil.rmtree(folder)
    return sorted(row for row in found if not is_mark(family, row[0]))


class Died(BaseException):
    """The process is no more."""


class DyingBucket(FaultyBucket):
    """The bucket of a process that dies when it changes something, before that or after it."""

    def __init__(self, bucket: Bucket, left: int, after: bool) -> None:
        super().__init__(bucket)
        self.left, self._after = left, after
        self._lock = threading.Lock()

    def _asked(self, method, name, effect):  # type: ignore[no-untyped-def]
        if method in ("get", "found", "download"):
            return effect()
        with self._lock:
            self.left -= 1
            if self.left >= 0:
                return effect()
            if self._after and self.left == -1:
                effect()
            raise Died


def dying_at(filled: Place, folder: Path) -> Iterator[int]:
    """Some of the changes that a split makes in a bucket, and the last ones."""
    place = filled.copied(folder)
    counting = DyingBucket(place.bucket, 1_000_000, after=False)
    split_here(place, counting)
    changes = 1_000_000 - counting.left
    assert changes > 30
    yield from range(0, changes - 3, changes // 5)
    yield from range(changes - 3, changes)


@pytest.mark.parametrize("after", [False, True])
def test_a_split_that_dies_between_any_of_its_changes_is_completed(
    filled: Place, tmp_path: Path, after: bool
) -> None:
    whole = filled.copied(tmp_path / "whole")
    before = {family: rows(whole, family, tmp_path / "rows") for family in (Family.SEEN, Family.PENDING)}
    assert len(before[Family.SEEN]) == HOSTS + URIS
    begun = 0
    for number, left in enumerate(dying_at(filled, tmp_path / "counted")):
        place = filled.copied(tmp_path / str(number))
        with pytest.raises(Died):
            split_here(place, DyingBucket(place.bucket, left, after))
        begun += place.cluster.generation == 2
        split_here(place)
        found = place.cluster
        assert (found.shards, found.generation, found.is_sealed) == (4, 2, False)
        assert not list(place.work.glob("*"))
        for family, expected in before.items():
            assert rows(place, family, place.folder / "rows") == expected
        kept = [path for path in (place.folder / "bucket").glob("g2-*/**/*") if path.is_file()]
        assert {path.relative_to(place.folder / "bucket").parts[0] for path in kept} == {found.folder}
        shutil.rmtree(place.folder)
    assert begun == after, "only the last change begins the next generation"


@pytest.mark.parametrize(
    "step", ["_claimed", "built", "_publish", "seal", "begin_generation", "_end", "new_folder", "_clear"]
)
def test_a_split_that_dies_before_a_step_begins_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(cluster_splitting, step, die)
        with pytest.raises(Died):
            split_here(place)
    split_here(place)
    assert place.cluster.shards == 4


def test_the_new_stores_have_no_mark_of_the_old_logs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    marks: list[Mark | None] = []

    def look(_: Bucket, __: Cluster, made: ShardMap, *___: object) -> None:
        for name in made.names:
            with closing(RocksStore(made.directory_of(name) / "store")) as store:
                marks.append(mark_of(store))
        raise Died

    monkeypatch.setattr(cluster_splitting, "_publish", look)
    with pytest.raises(Died):
        split_here(place)
    assert marks == [None] * 5


def test_until_the_last_step_machines_start_as_before_and_the_split_begins_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cluster_splitting, "seal", lambda *_: (_ for _ in ()).throw(Died))
        with pytest.raises(Died):
            split_here(place)
    with place.machine("one") as one:
        served(one.stubs, 2)
        assert one.stubs.schedule(CRAWL, "http://www.site0.example/later") == ["QUEUED"]
        ended(one)
    split_here(place)
    with place.machine("one") as one:
        served(one.stubs, 4)
        eventually(
            lambda: one.stubs.statistics(CRAWL).queued_count == HOSTS + URIS + 1, "what came in between"
        )
        ended(one)


def test_a_sealed_generation_is_not_served_until_the_split_is_completed(place: Place) -> None:
    seal(place.bucket, place.cluster, VERSION)
    ending = run_to_end("--log", place.url, "--data", str(place.folder / "one"))
    assert ending.returncode == DATA
    assert (
        f"log {place.url} has an interrupted split; complete it with 'toehold shards split --log URL --data "
        "DIR' first" in ending.stderr
    )
    place.split()
    assert place.cluster.shards == 4


def test_a_cluster_can_be_split_twice(place: Place) -> None:
    split_here(place)
    split_here(place)
    assert (place.cluster.shards, place.cluster.generation) == (8, 3)
    with place.machine("one") as one:
        served(one.stubs, 8)
        assert one.stubs.statistics(CRAWL).queued_count == HOSTS + URIS
        ended(one)
    code = run_to_end("--log", place.url, "--list-shards")
    members = [json.loads(line) for line in code.stdout.splitlines()]
    assert len(members) == 9 and {member["folder"] for member in members} == {place.cluster.folder}


# Machines that are there, or wake up.


def test_a_split_is_refused_while_a_machine_runs(place: Place, toehold: Toehold) -> None:
    with place.machine("one") as one:
        code, said, problem = toehold("shards", "split", "--log", place.url, "--data", str(place.work))
        assert (code, said) == (REFUSED, "")
        assert f"log {place.url} is in use by machine one; stop all machines first" in problem
        served(one.stubs, 2)
        assert one.stubs.schedule(CRAWL, "http://www.site0.example/later") == ["QUEUED"]
        ended(one)


@pytest.mark.parametrize("before", ["built", "seal"])
def test_a_split_notices_a_machine_that_starts_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    step = getattr(cluster_splitting, before)
    with ExitStack() as stack:

        def begin_one(*arguments: object) -> object:
            one = stack.enter_context(place.machine("one"))
            served(one.stubs, 2)
            assert one.stubs.schedule(CRAWL, "http://www.site0.example/later") == ["QUEUED"]
            return step(*arguments)

        monkeypatch.setattr(cluster_splitting, before, begin_one)
        with pytest.raises(Taken, match=r"a machine has opened the log of shard-0000 meanwhile"):
            split_here(place)
    monkeypatch.undo()
    assert place.cluster.shards == 2
    split_here(place)
    with place.machine("one") as one:
        served(one.stubs, 4)
        assert one.stubs.statistics(CRAWL).queued_count == HOSTS + URIS + 1
        ended(one)


def test_a_member_that_opens_its_log_after_the_last_look_of_a_split_leaves_it_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine began before that, and was slow."""
    cluster_map(place.folder / "one", place.cluster, place.url)
    codes: list[int] = []

    def open_late(*arguments: object) -> object:
        ending = run_to_end(
            *("--data", str(place.folder / "one"), "--member", "shard-0", "--sockets", str(place.folder))
        )
        codes.append(ending.returncode)
        assert "the number of shards was doubled meanwhile; start the machine again" in ending.stderr
        return begin_generation(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(cluster_splitting, "begin_generation", open_late)
    split_here(place)
    assert codes == [EXIT_SPLIT]
    assert place.cluster.shards == 4


def of_all(machine: ServerProcess, number: signal.Signals) -> None:
    """Send a signal to all its processes: those that start others first."""
    for process in (machine.child.pid, *children(machine.child.pid)):
        os.kill(process, number)


def changes_of(place: Place, folder: str) -> int:
    """The records with changes in the logs of a generation."""
    found, cluster, bucket = 0, place.cluster, below(place.bucket, folder)
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
    place: Place, names: Sequence[str]
) -> None:
    sleeping, waking = names
    with place.machine(sleeping) as zombie:
        served(zombie.stubs, 2)
        of_all(zombie, signal.SIGSTOP)
        place.split()
        before = changes_of(place, "")
        new = place.machine(waking, "new")
        with new:
            served(new.stubs, 4)
            of_all(zombie, signal.SIGCONT)
            asked = 0
            while zombie.child.poll() is None:
                assert refuses(zombie.stubs)
                asked += 1
                time.sleep(0.05)
            assert zombie.wait() == DATA
            assert changes_of(place, "") == before
            served(new.stubs, 4)
            assert new.stubs.statistics(CRAWL).queued_count == HOSTS + URIS
            assert new.stubs.schedule(CRAWL, "http://www.site1.example/later") == ["QUEUED"]
            ended(new)
    assert asked


def test_a_former_machines_directory_is_made_anew(place: Place) -> None:
    with place.machine("one") as one:
        served(one.stubs, 2)
        ended(one)
    (place.folder / "one" / "shard-0001" / "left").write_text("of the generation before")
    split_here(place)
    with place.machine("one") as one:
        served(one.stubs, 4)
        ended(one)
    found = read_map(place.folder / "one")
    assert found is not None and (found.shards, found.folder) == (4, place.cluster.folder)
    assert not (place.folder / "one" / "shard-0001" / "left").exists()
    with place.machine("one") as one:  # what is current stays
        served(one.stubs, 4)
        ended(one)
    assert one.errors.read_text().count("members_removed") == 1
    assert "store_restored" not in one.errors.read_text().rpartition("machine_joins")[2]


# What is refused.


@pytest.mark.parametrize(("wanted", "way"), [(4, True), (8, True), (3, False), (1, False), (6, False)])
def test_another_number_of_shards_is_refused_with_the_way_out(place: Place, wanted: int, way: bool) -> None:
    ending = run_to_end("--log", place.url, "--data", str(place.folder / "one"), "--shards", str(wanted))
    assert ending.returncode == DATA
    doubled = ", or double them with 'toehold shards split --log URL --data DIR'" if way else ""
    assert ending.stderr.strip().endswith(
        f"log {place.url} has a frontier of 2 shards, got --shards {wanted}; leave --shards out{doubled}"
    )


def test_a_directory_that_is_no_splits_is_refused(place: Place, toehold: Toehold) -> None:
    place.work.mkdir()
    (place.work / "notes.txt").write_text("mine")
    code, _, problem = toehold("shards", "split", "--log", place.url, "--data", str(place.work))
    assert code == REFUSED
    assert f"data directory {place.work} must be empty, or left by an interrupted split" in problem
    assert (place.work / "notes.txt").read_text() == "mine"


def test_a_directory_of_another_clusters_split_is_refused(place: Place, tmp_path: Path) -> None:
    place.work.mkdir()
    (place.work / cluster_splitting.FILE).write_text('{"cluster": "another", "folders": []}')
    with pytest.raises(MapUnusable, match="is of a split of cluster another, but the bucket is of cluster"):
        split_here(place)
    (place.work / cluster_splitting.FILE).write_text('{"cluster": ')
    with pytest.raises(MapUnusable, match=f"has a damaged file {cluster_splitting.FILE}"):
        split_here(place)


def test_a_bucket_without_a_cluster_is_refused(tmp_path: Path, toehold: Toehold) -> None:
    url = f"file://{tmp_path}/bucket"
    code, _, problem = toehold("shards", "split", "--log", url, "--data", str(tmp_path / "work"))
    assert code == REFUSED
    assert f"log {url} has no cluster: no frontier has been started with it" in problem


def test_a_cluster_that_never_served_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    identified(place.bucket, 2, VERSION)
    with pytest.raises(ClusterUnusable, match="has no store of shard-0000 yet: start the machines once"):
        split_here(place)


def test_sixty_four_shards_are_the_most(tmp_path: Path) -> None:
    place = Place(tmp_path)
    identified(place.bucket, 64, VERSION)
    with pytest.raises(ClusterUnusable, match="has a frontier of 64 shards, and can have at most 64"):
        split_here(place)


def test_without_a_bucket_the_directory_must_be_there(tmp_path: Path, toehold: Toehold) -> None:
    code, _, problem = toehold("shards", "split", "--data", str(tmp_path / "nowhere"))
    assert code == 2
    assert "does not exist" in problem


def test_what_was_done_is_told_to_people_and_programs(place: Place, toehold: Toehold) -> None:
    code, said, _ = toehold("shards", "split", "--log", place.url, "--data", str(place.work))
    assert code == 0
    assert "The frontier has 4 shards now. Start the machines as usual, without --shards." in said
    assert f"below {place.url}/{place.cluster.folder} from now on" in said
    code, said, _ = toehold("shards", "split", "--log", place.url, "--data", str(place.work), "--json")
    assert code == 0
    assert json.loads(said) == {"log": place.url, "shards": 8}


def test_of_two_splits_at_once_one_counts(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first one stands still after its last look, while another one runs to its end."""
    other = tmp_path / "other work"
    other.mkdir()

    def run_other(*arguments: object) -> object:
        monkeypatch.undo()
        split(place.bucket, other, VERSION, silent, watch_s=0.0)
        return begin_generation(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(cluster_splitting, "begin_generation", run_other)
    with pytest.raises(ClusterUnusable, match="was split by another command meanwhile"):
        split_here(place)
    assert (place.cluster.shards, place.cluster.generation) == (4, 2)
    with place.machine("one") as one:
        served(one.stubs, 4)
        assert one.stubs.statistics(CRAWL).queued_count == HOSTS + URIS
        ended(one)


def test_machines_of_two_generations_do_not_count_on_each_other(place: Place) -> None:
    """A card of the generation before is none of this one's machines."""
    place.bucket.put(f"{FOLDER}zombie/notice", b"{}")
    split_here(place)
    with place.machine("one") as one:
        served(one.stubs, 4)
        card = json.loads((place.folder / "bucket" / FOLDER / "one" / "notice").read_bytes())
        assert card["cluster"] == f"{place.cluster.id}/{place.cluster.folder}"
        ended(one)
