"""A frontier whose object store refuses, is slow, loses answers, or is away, while everybody uses it."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import grpc
import pytest
from frontier_harness.buckets import S3_BUCKET
from frontier_harness.buckets import s3_server as s3_server
from frontier_harness.calls import Stubs, spec
from frontier_harness.descendants import kill_all
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak
from frontier_harness.store_proxy import Fault, StoreProxy
from frontier_harness.waiting import PATIENCE_S, WHOLE_CRAWL_S, eventually

from toehold.frontier.v1 import crawl_pb2

from .test_machines import AnyStub
from .test_shards import CRAWL, DELAY_S, RECONNECT, REPEATED, Fetchers, check, uri

SHARDS, PAGES = 2, 300
SECRET = "s3cr3t-of-the-bucket"
WAITS = "the frontier waits for its log: "
TELLS_S = 30.0
"""A question is answered within so long, a program's start included, or what is waited for is told."""
PATIENT_S = 150.0
STARTS_S, STOPS_S = 30.0, 25.0
EXIT_STORE = 5
RESTARTS = ("member_ended", "member_fenced", "member_hung", "member_left_to_others", "member_not_started")

_CLAIMS_FRONT = '"member": "front", "event": "member_claimed"'

_T = TypeVar("_T")
_prefixes = itertools.count()


class Trouble(NamedTuple):
    """What happens to a store, and for how long."""

    fault: Fault
    length_s: float
    every: int = 1
    delay_s: float = 0.0

    def begin(self, store: StoreProxy, below: str = "") -> None:
        store.become(self.fault, self.every, below)
        store.delay_s = self.delay_s


AWAY = {
    "cut off": Trouble(Fault.CUT, 8.0),
    "silent": Trouble(Fault.SILENT, 5.0),
    "refused": Trouble(Fault.REFUSED, 4.0),
    "denied": Trouble(Fault.DENIED, 4.0),
    "full": Trouble(Fault.FULL, 4.0),
}
ILL = {
    "slow": Trouble(Fault.NONE, 10.0, delay_s=2.0),
    "answers lost": Trouble(Fault.LOST, 4.0, every=3),
}
WELL = Trouble(Fault.NONE, 0.0)


class Patient(Fetchers):
    """Fetchers that repeat what is refused for now, too, and keep the reasons."""

    def __init__(self, stubs: Stubs, pages: int) -> None:
        super().__init__(stubs, pages)
        self.told = Counter[str]()

    def _asked(self, call: Callable[[], _T]) -> _T:
        began_s = time.monotonic()
        while True:
            try:
                return call()
            except grpc.RpcError as error:
                late = time.monotonic() - began_s > PATIENT_S
                if late or error.code() not in (*REPEATED, grpc.StatusCode.RESOURCE_EXHAUSTED):
                    raise
                self.told[f"{error.code().name}: {error.details()}"] += 1
                self.longest_absence_s = max(self.longest_absence_s, time.monotonic() - began_s)
                time.sleep(0.1)


def make_crawl(stubs: Stubs) -> None:
    """Launch the crawl."""
    scope = crawl_pb2.ScopeSpec(accept_patterns=[r"http://www\.site[0-9]+\.example/.*"])
    stubs.create(CRAWL, spec(DELAY_S, scope=scope))
    stubs.ask("AddSeedBatch", CRAWL, uris=[uri(0)])
    stubs.ask("LaunchCrawl", CRAWL)


class Crawl:
    """A frontier of some machines, which reach their store by a proxy, and a crawl on it."""

    ends_s = WHOLE_CRAWL_S
    """How long the crawl may go on once all is well again."""

    def __init__(
        self,
        folder: Path,
        store: StoreProxy,
        machines: int,
        bucket: str = S3_BUCKET,
        options: Sequence[str] = (),
    ) -> None:
        self.store = store
        self._options = options
        self.folder = folder
        self.log = f"s3://{bucket}/faults/{next(_prefixes)}"
        self._environment = {
            "AWS_ENDPOINT_URL": store.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }
        self._answers: list[str] = []
        self._ending = ExitStack()
        self.machines: list[ServerProcess] = []
        for number in range(machines):
            self.start(f"machine-{number}")
        for machine in self.machines:
            machine.until_ready()

    def start(self, name: str) -> ServerProcess:
        """Start another machine, or one again."""
        own = "--shards", str(SHARDS), "--log", self.log, "--machine", name, *self._options
        machine = ServerProcess(self.folder / name, *own, environment=self._environment)
        machine.begin()
        self._ending.callback(_clear, machine)
        self.machines.append(machine)
        return machine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def happened(self, *events: str) -> list[dict[str, object]]:
        """The lines of all logs that tell of these events."""
        told = [json.loads(line) for line in self.output().splitlines() if line.startswith("{")]
        return [line for line in told if line["event"] in events]

    def output(self) -> str:
        """All that the machines have written."""
        return "\n".join({each.errors: each.errors.read_text() for each in self.machines}.values())

    def toehold(self, *arguments: str) -> tuple[int, str]:
        """`toehold` asked of the crawl: its exit code, and all that it prints."""
        done = subprocess.run(
            self._command(*arguments), capture_output=True, text=True, timeout=TELLS_S, check=False
        )
        self._answers.append(done.stdout + done.stderr)
        return done.returncode, done.stdout + done.stderr

    def _command(self, *arguments: str) -> list[str]:
        # Other doors do not reach the front while their machines cannot see its machine's object.
        address = next(each.address for each in self.machines if _CLAIMS_FRONT in each.errors.read_text())
        return [sys.executable, "-m", "toehold_cli", *arguments, "--frontier", address, "--crawl", CRAWL]

    @contextmanager
    def watched(self) -> Iterator[Path]:
        """`toehold watch` meanwhile and to the crawl's end, which it is to tell; what it prints."""
        path = self.folder / "watch"
        with path.open("w") as file:
            watch = subprocess.Popen(
                self._command("watch", "--interval", "1"), stdout=file, stderr=subprocess.STDOUT
            )
        try:
            yield path
            code = watch.wait(PATIENCE_S)
            told = path.read_text()
            self._answers.append(told)
            assert (code, "Finished" in told) == (0, True), told
        finally:
            watch.kill()
            watch.wait()

    @contextmanager
    def fetched(self) -> Iterator[Patient]:
        """A crawl that is fetched meanwhile, and to its end."""
        with ExitStack() as stack:
            channels = [
                stack.enter_context(grpc.insecure_channel(machine.address, RECONNECT))
                for machine in self.machines
            ]
            every = [Stubs(channel) for channel in channels]
            stubs = every[0]
            make_crawl(stubs)
            stubs.frontier = AnyStub([each.frontier for each in every])  # type: ignore[assignment]
            fetchers = Patient(stubs, PAGES)
            threads = [threading.Thread(target=fetchers.run, args=(f"node{number}",)) for number in range(4)]
            for thread in threads:
                thread.start()
            try:
                yield fetchers
                until_s = time.monotonic() + self.ends_s
                for thread in threads:
                    thread.join(max(until_s - time.monotonic(), 0.0))
                alive = sum(thread.is_alive() for thread in threads)
                assert not alive, f"{alive} fetchers have not ended; {fetchers.problems[:3]}; {self.why()}"
            finally:
                fetchers.ending.set()
                for thread in threads:
                    thread.join(PATIENCE_S)
            assert not fetchers.problems, fetchers.problems[:3]
        self._answers += fetchers.told

    def why(self) -> str:
        """What the frontier says of the crawl's state."""
        return self.toehold("status")[1]

    def check_unhurt(self, most_restarts: int = 0) -> None:
        """Check that all machines still serve, hardly a member was restarted, and no credential was told."""
        restarts = self.happened(*RESTARTS)
        assert len(restarts) <= most_restarts, restarts
        assert "Traceback" not in self.output()
        for machine in self.machines:
            code, _ = machine.stop()
            assert code == 0
        assert SECRET not in "".join((self.output(), *self._answers))


def _clear(machine: ServerProcess) -> None:
    if machine.child.poll() is None:
        kill_all(machine.child.pid)
        machine.child.wait()
    machine.let_go()


@pytest.fixture
def store(s3_server: str) -> Iterator[StoreProxy]:
    """A proxy before a store."""
    with StoreProxy(s3_server) as proxy:
        yield proxy


def fetched_while_away(crawl: Crawl, trouble: Trouble) -> Patient:
    """A crawl while its store is away for some time: who asks hears at once what is waited for."""
    store = crawl.store
    with crawl.fetched() as fetchers, crawl.watched() as watched:
        eventually(partial(fetchers.came_to, PAGES / 6))
        eventually(lambda: "RUNNING" in watched.read_text())
        trouble.begin(store)
        began_s = time.monotonic()
        code, told = crawl.toehold("status")  # it may be on its way when the store goes away
        assert code == 0 or WAITS in told
        eventually(lambda: WAITS in crawl.toehold("status")[1])
        eventually(lambda: WAITS in watched.read_text())
        time.sleep(max(trouble.length_s - (time.monotonic() - began_s), 0.0))
        there = sum(fetchers.done.values())
        WELL.begin(store)
        eventually(partial(fetchers.came_to, there))
    return fetchers


@pytest.mark.parametrize("trouble", AWAY.values(), ids=AWAY.keys())
def test_a_crawl_whose_store_is_away_says_so_and_goes_on_afterwards(
    tmp_path: Path, store: StoreProxy, trouble: Trouble
) -> None:
    with Crawl(tmp_path, store, 1) as crawl:
        fetchers = fetched_while_away(crawl, trouble)
        check(fetchers, PAGES)
        crawl.check_unhurt()
        assert crawl.happened("log_waits", "log_answers")


def test_two_machines_that_are_cut_off_from_the_store_keep_their_members(
    tmp_path: Path, store: StoreProxy
) -> None:
    with Crawl(tmp_path, store, 2) as crawl:
        fetchers = fetched_while_away(crawl, AWAY["cut off"])
        check(fetchers, PAGES)
        crawl.check_unhurt(most_restarts=1)


@pytest.mark.parametrize("trouble", ILL.values(), ids=ILL.keys())
def test_a_crawl_goes_on_with_a_store_that_is_ill(
    tmp_path: Path, store: StoreProxy, trouble: Trouble
) -> None:
    with Crawl(tmp_path, store, 1) as crawl:
        with crawl.fetched() as fetchers, crawl.watched():
            eventually(partial(fetchers.came_to, PAGES / 6))
            trouble.begin(store)
            there = sum(fetchers.done.values())
            time.sleep(trouble.length_s)
            assert fetchers.came_to(there)
            WELL.begin(store)
        check(fetchers, PAGES)
        crawl.check_unhurt()


def test_a_shard_whose_log_alone_is_away_is_told_of(tmp_path: Path, store: StoreProxy) -> None:
    with Crawl(tmp_path, store, 1) as crawl:
        with crawl.fetched() as fetchers, crawl.watched() as watched:
            eventually(partial(fetchers.came_to, PAGES / 6))
            eventually(lambda: "RUNNING" in watched.read_text())
            AWAY["cut off"].begin(store, below="/log/shard-0001/")
            eventually(lambda: WAITS in crawl.toehold("status")[1])
            eventually(lambda: WAITS in watched.read_text())
            WELL.begin(store)
        check(fetchers, PAGES)
        crawl.check_unhurt()


def test_a_stop_while_the_store_is_away_ends_with_what_it_lacks(tmp_path: Path, store: StoreProxy) -> None:
    with Crawl(tmp_path, store, 1) as crawl:
        machine = crawl.machines[0]
        make_crawl(machine.stubs)
        AWAY["cut off"].begin(store)
        eventually(lambda: WAITS in crawl.toehold("status")[1])
        code, took_s = machine.stop()
        assert (code, took_s < STOPS_S) == (0, True), took_s
        assert "the last write did not reach the log within 1 s: s3://" in crawl.output()
        assert "Traceback" not in crawl.output()
        assert not crawl.happened("member_hung")
        WELL.begin(store)
        crawl.machines.remove(machine)
        again = crawl.start("machine-0")
        again.until_ready()
        assert crawl.toehold("status")[0] == 0


@pytest.mark.parametrize(
    ("name", "bucket", "said"),
    [
        ("cut off", S3_BUCKET, "HTTP error"),
        ("silent", S3_BUCKET, "HTTP error"),
        ("refused", S3_BUCKET, "503 Service Unavailable: SlowDown: Please reduce your request rate."),
        ("denied", S3_BUCKET, "403 Forbidden: InvalidAccessKeyId: The access key does not exist"),
        ("full", S3_BUCKET, "507 Insufficient Storage: XMinioStorageFull: The backend has reached"),
        ("well", "another", "404 Not Found: NoSuchBucket: The specified bucket does not exist"),
    ],
)
def test_a_start_without_the_store_ends_with_what_is_wrong(
    tmp_path: Path, store: StoreProxy, name: str, bucket: str, said: str
) -> None:
    AWAY.get(name, WELL).begin(store)
    with Crawl(tmp_path, store, 0, bucket) as crawl:
        began_s = time.monotonic()
        assert crawl.start("machine").wait() == EXIT_STORE
        assert time.monotonic() - began_s < STARTS_S
        (line,) = crawl.output().splitlines()
        assert line.startswith(f"toehold-frontier: log s3://{bucket}/faults/")
        assert said in line and SECRET not in line


@pytest.mark.soak("buckets")
@pytest.mark.timeout(7200)
def test_crawls_whose_store_is_away_for_a_minute_lose_nothing(
    tmp_path: Path, store: StoreProxy, soak: Soak
) -> None:
    for life in range(soak.cycles(10)):
        name = tuple(AWAY)[life % len(AWAY)]
        machines = 1 + life % 2
        with Crawl(tmp_path / str(life), store, machines) as crawl:
            fetchers = fetched_while_away(crawl, AWAY[name]._replace(length_s=60.0))
            check(fetchers, PAGES)
            crawl.check_unhurt(most_restarts=machines - 1)
        soak.count(faults=1, checked=PAGES)
