"""What a crowd adds to the cost of work that it has no part in: the same work in a plain case and amid a
crowd, by turns, so that both have the same machine.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.calibration import loop_ms
from benchmarks.fetchers import Fetcher, fetch_together
from benchmarks.load import Load, host_names, links, schedule_requests
from benchmarks.measuring import SERVER, Figure, Limit, waits_ms
from benchmarks.processes import Child, FrontierServer
from core_doubles.codec import candidate
from core_doubles.shell import Shell

from frontier_server.core.core import Core
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.rows.store import Changes
from frontier_server.core.spec.settings import (
    CrawlSettings,
    GroupSettings,
    PolitenessSettings,
    QueueSettings,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.state.model import Grant, Report
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import crawl_pb2, frontier_pb2

Step = Callable[[Core, int], tuple[object, Changes]]
"""An operation."""

MOST = 2.0
"""How many times the plain cost the work may cost amid a crowd."""

ROUNDS = 7
IDLE_CRAWLS = 200
FEW_CRAWLS, SOME_CRAWLS, MANY_CRAWLS, PAGES_OF_A_CRAWL = 100, 300, 5_000, 15
FEW_QUEUES, MANY_QUEUES = 100, 9_000
GROUP_HOSTS, GROUP_SLOTS = 10_000, 4
POPS = 100_000
FEW_URIS, MANY_URIS, SMALL_HOSTS = 2_000, 80_000, 2
STREAMS = 10_000
PAUSES = 7
QUIET_S, LOOK_S = 1.0, 0.1
ANSWER_S = 600.0
"""How long an operator waits: a slow answer is a figure, too."""


def crowds(folder: Path) -> Iterator[Figure]:
    """Idle and due crawls, what concerns all crawls, a large group of hosts, queues that must give way, a
    queue after many pops, a large host that rests in a shared queue, and many readers of events."""
    yield _idle_crawls(folder)
    yield _due_crawls(folder)
    yield from _all_crawls(folder)
    yield _host_group(folder)
    yield _held_back(folder)
    for leases in (1, 4):
        yield _popped_queue(folder, leases)
    for assignment in ("registered-domain", "buckets"):
        yield _resting_host(folder, assignment)
    yield _readers(folder)


@dataclass(frozen=True, slots=True)
class Case:
    """One of the two cases: what is done in a round, how many times, and what it has cost so far (CPU)."""

    work: Callable[[], int]
    cpu_s: Callable[[], float]


def _compared(
    name: str, plain: Case, crowded: Case, middle: Callable[[list[float]], float] = statistics.median
) -> Figure:
    """The cost of an item in both cases, round by round in turn: the median round's, or another `middle`."""
    costs_us: dict[Case, list[float]] = {plain: [], crowded: []}
    loops_ms, rates, items = [loop_ms()], [], 0
    for _ in range(ROUNDS):
        for case, found in costs_us.items():
            before_s, start_s = case.cpu_s(), time.perf_counter()
            count = case.work()
            found.append((case.cpu_s() - before_s) / count * 1e6)
        rates.append(count / (time.perf_counter() - start_s))
        items += count
        loops_ms.append(loop_ms())
    plain_us, crowded_us = (middle(each) for each in costs_us.values())
    cpu_us = {SERVER: crowded_us, "client": 0.0, "plain": plain_us}
    limit = _limit(name, crowded_us / plain_us)
    return Figure(name, items, statistics.median(rates), cpu_us, min(loops_ms), limit=limit)


def _limit(name: str, ratio: float) -> Limit:
    return Limit(f"times the plain cost: {name}", ratio, MOST)


# Idle crawls: a server each, as it is the shell around the core that looks at every crawl, too.


def _idle_crawls(folder: Path) -> Figure:
    with ExitStack() as opened:
        plain = opened.enter_context(_busy_crawl(folder / "alone", 0))
        crowded = opened.enter_context(_busy_crawl(folder / "beside", IDLE_CRAWLS))
        return _compared(f"Next+Finished one by one, beside {IDLE_CRAWLS} idle crawls", plain, crowded)


@contextmanager
def _busy_crawl(data: Path, idle: int) -> Iterator[Case]:
    """A crawl that works, beside some that have nothing to do and wait for more."""
    hosts, others = host_names(200), [f"idle-{number}.example" for number in range(idle)]
    with FrontierServer(data) as server, Load(server.address) as load:
        fetcher = Fetcher(load, 50)
        for number, host in enumerate(others):
            load.create_crawl(f"idle-{number}", [host], launch=True, run_while_empty=True)
        if fetcher.fetch(2 * idle) != 2 * idle:  # robots.txt and a page each
            raise RuntimeError("the seeds of idle crawls were not given")
        load.create_crawl("bench", hosts, launch=True)
        load.schedule(schedule_requests("bench", links(hosts, 200)), crawl_pb2.VERDICT_QUEUED)()
        fetcher.fetch(1_000)
        yield Case(fetch_together([Fetcher(load, 1)], 150), server.cpu_s)


# Crawls that all have something to give: the core over a store on disk.


def _due_crawls(folder: Path) -> Figure:
    with ExitStack() as opened:
        cases = []
        for crawls in (FEW_CRAWLS, MANY_CRAWLS):
            core = opened.enter_context(_store_of(folder / f"due-{crawls}"))
            for number in range(crawls):
                host = f"{number}.example"
                core.create(host, replace(_settings([host]), robots=RobotsSettings(policy="ignore")))
                core.launch(host, *(f"https://{host}/{page}" for page in range(PAGES_OF_A_CRAWL)))
            cases.append(Case(_AnyCrawl(core).work, time.process_time))
        few, many = cases
        return _compared(f"Next of any crawl and Finished, {MANY_CRAWLS} crawls that are due", few, many)


class _AnyCrawl:
    """A lease of any crawl, one after the other."""

    def __init__(self, core: Shell) -> None:
        self._core = core

    def work(self, count: int = 100) -> int:
        """So many leases and reports."""
        for _ in range(count):
            (grant,) = self._core.grants(most=1)
            _report(self._core, grant)
        return count


# What concerns all crawls at once: the longest of the operations that it takes, as all callers wait for that.
# The least of the rounds counts, as the collector of garbage makes some longer.


def _all_crawls(folder: Path) -> Iterator[Figure]:
    with ExitStack() as opened:
        cores = []
        for crawls in (SOME_CRAWLS, MANY_CRAWLS):
            core = opened.enter_context(_store_of(folder / f"all-{crawls}"))
            for number in range(crawls):
                host = f"{number}.example"
                settings = replace(_settings([host]), robots=RobotsSettings(policy="ignore"))
                settings = replace(settings, politeness=PolitenessSettings(), resume_after_trouble=True)
                core.create(host, settings)
                core.launch(host, f"https://{host}/", f"https://{host}/1")
            _report(core, *itertools.chain(*iter(partial(core.grants, most=100), [])))
            cores.append(core)
        for name, work in _CONCERNS.items():
            cases = [_Longest(core, work) for core in cores]
            few, many = (Case(case.work, case.so_far_s) for case in cases)
            yield _compared(f"longest operation, {MANY_CRAWLS} crawls, {name}", few, many, min)


def _absence(core: Shell) -> Iterator[Step]:
    core.now_ms += 3_600_000
    yield lambda core, now: core.upkeep.tick(now)


def _full_disk(_: Shell) -> Iterator[Step]:
    yield lambda core, now: core.upkeep.record_trouble(("disk-reserve", "no room"), now)
    yield lambda core, now: core.upkeep.record_trouble(None, now)


def _node_in_trouble(core: Shell) -> Iterator[Step]:
    for trouble in ("no room", ""):
        yield partial(_heartbeat, trouble=trouble)


def _heartbeat(core: Core, now: int, trouble: str) -> tuple[object, Changes]:
    return core.frontier.heartbeat("node", "1", [], [], now, trouble=trouble)


_CONCERNS = {
    "a full disk": _full_disk,
    "a node in trouble": _node_in_trouble,
    "a tick after an absence": _absence,  # at last: the node leaves
}


class _Longest:
    """The longest operation of each round, summed up."""

    def __init__(self, core: Shell, steps: Callable[[Shell], Iterator[Step]]) -> None:
        self._core, self._steps = core, steps
        self._longest_s = 0.0

    def so_far_s(self) -> float:
        """The sum of the rounds so far."""
        return self._longest_s

    def work(self) -> int:
        """Do each step, and then ticks until nothing is due."""
        longest_s = 0.0
        for step in self._steps(self._core):
            longest_s = max(longest_s, self._time(step))
            while (
                due_ms := self._core.core.upkeep.next_due_ms()
            ) is not None and due_ms <= self._core.now_ms:
                longest_s = max(longest_s, self._time(lambda core, now: core.upkeep.tick(now)))
        self._longest_s += longest_s
        return 1

    def _time(self, step: Step) -> float:
        start_s = time.process_time()
        self._core.do(step)
        return time.process_time() - start_s


# A group of hosts: likewise.


def _host_group(folder: Path) -> Figure:
    hosts = host_names(GROUP_HOSTS)
    group = GroupSettings("crowd", tuple(hosts), GROUP_SLOTS)
    with ExitStack() as opened:
        plain = opened.enter_context(_core(folder / "hosts", _settings(hosts)))
        crowded = opened.enter_context(_core(folder / "group", _settings(hosts, groups=(group,))))
        for core in (plain, crowded):
            for start in range(0, GROUP_HOSTS, 1_000):
                core.schedule("bench", *(f"https://{host}/page" for host in hosts[start : start + 1_000]))
        return _compared(
            f"Next and Finished, {GROUP_HOSTS} hosts in a group of {GROUP_SLOTS} slots",
            Case(_Slots(plain, 1).work, time.process_time),
            Case(_Slots(crowded, 2).work, time.process_time),  # they ask for more than there is
            statistics.mean,  # the first calls look at all hosts, a hundred each, and that counts as well
        )


class _Slots:
    """As many leases out as a group has slots; one is reported, and another taken."""

    def __init__(self, core: Shell, most: int) -> None:
        self._core = core
        self._most = most
        self._out = core.grants("bench", GROUP_SLOTS)

    def work(self, count: int = GROUP_HOSTS // ROUNDS) -> int:
        """Once for each of so many: in all rounds together as often as there are hosts."""
        for _ in range(count):
            _report(self._core, self._out.pop(0))
            self._out += self._core.grants("bench", self._most)
            if len(self._out) != GROUP_SLOTS:
                raise RuntimeError(f"{len(self._out)} leases are out, not {GROUP_SLOTS}")
        return count


# Queues that must give way, as the caller wants fewer leases of a queue than are out: likewise.


def _held_back(folder: Path) -> Figure:
    with ExitStack() as opened:
        cases = []
        for count in (FEW_QUEUES, MANY_QUEUES):
            hosts = host_names(count)
            settings = _settings(["free.example", *hosts])
            settings = replace(
                settings,
                queues=replace(settings.queues, max_leases_per_queue=2),
                politeness=replace(settings.politeness, max_parallel=2),
                robots=RobotsSettings(policy="ignore"),
            )
            core = opened.enter_context(_core(folder / f"held-{count}", settings, robots=False))
            for start in range(0, count, 500):
                core.schedule(
                    "bench", *(f"https://{host}/{n}" for host in hosts[start : start + 500] for n in range(2))
                )
            case = _FewOfEach(core)
            case.take(count)
            core.schedule("bench", *(f"https://free.example/{n}" for n in range(2_000)))
            cases.append(Case(case.work, time.process_time))
        few, many = cases
        return _compared(f"Next and Finished, {MANY_QUEUES} queues give way to the caller's limit", few, many)


class _FewOfEach:
    """A caller that wants one lease at once of each queue."""

    def __init__(self, core: Shell) -> None:
        self._core = core

    def take(self, count: int) -> None:
        """Take so many leases; they stay out."""
        while count:
            taken = len(self._next(min(count, 100)))
            if not taken:
                raise RuntimeError(f"{count} queues gave no lease")
            count -= taken

    def work(self, count: int = 100) -> int:
        """So many leases, one at a time, of the queue that is free."""
        for _ in range(count):
            (grant,) = self._next(1)
            _report(self._core, grant)
        return count

    def _next(self, most: int) -> list[Grant]:
        want = Want(most, per_queue=1)
        return self._core.do(lambda core, now: core.frontier.next("node", "1", want, "bench", now)).grants


# A queue that much has been popped from: likewise.


def _popped_queue(folder: Path, leases: int) -> Figure:
    settings = _settings(["www.example"])
    settings = replace(
        settings,
        queues=replace(settings.queues, max_leases_per_queue=leases),
        politeness=replace(settings.politeness, max_parallel=leases),
    )
    with ExitStack() as opened:
        fresh = opened.enter_context(_core(folder / f"fresh-{leases}", settings))
        popped = opened.enter_context(_core(folder / f"popped-{leases}", settings))
        for core, pops in ((fresh, 0), (popped, POPS)):
            for start in range(0, pops + 10_000, 1_000):
                core.schedule("bench", *(f"https://www.example/{start + n}" for n in range(1_000)))
            for _ in range(pops):
                _report(core, *core.grants("bench", 1))
        for core in (fresh, popped):
            if leases > 1:
                core.grants("bench", leases - 1)  # they stay out
        return _compared(
            f"Next and Finished, urgent URIs between, after {POPS} pops, {leases - 1} others out",
            Case(_Mixed(fresh).work, time.process_time),
            Case(_Mixed(popped).work, time.process_time),
        )


class _Mixed:
    """Between two pops of a queue something more urgent comes."""

    def __init__(self, core: Shell) -> None:
        self._core = core
        self._numbers = itertools.count()

    def work(self, count: int = 20) -> int:
        """So many urgent ones, and as many others."""
        for _ in range(count):
            urgent = f"https://www.example/urgent-{next(self._numbers)}"
            self._core.schedule("bench", candidate(urgent, precedence=0))
            for expected in (True, False):
                (grant,) = self._core.grants("bench", 1)
                if (grant.uri == urgent) is not expected:
                    raise RuntimeError(f"{grant.uri} was given out before its turn")
                _report(self._core, grant)
        return 2 * count


# A queue that hosts share, of which one has many URIs and rests most of the time: likewise.


def _resting_host(folder: Path, assignment: str) -> Figure:
    with ExitStack() as opened:
        cases = []
        for uris in (FEW_URIS, MANY_URIS):
            hosts = ["large.www.example", *(f"small-{number}.www.example" for number in range(SMALL_HOSTS))]
            settings = _settings(hosts)
            settings = replace(
                settings,
                queues=replace(
                    settings.queues, partition="registered-domain", assignment=assignment, buckets=1
                ),
                politeness=PolitenessSettings(delay_factor=0, min_delay_ms=1_000, max_delay_ms=1_000),
                robots=RobotsSettings(policy="ignore"),
            )
            core = opened.enter_context(_core(folder / f"{assignment}-{uris}", settings, robots=False))
            for start in range(0, uris, 1_000):
                core.schedule("bench", *(f"https://{hosts[0]}/{start + n}" for n in range(1_000)))
            for host in hosts[1:]:
                core.schedule("bench", *(f"https://{host}/{n}" for n in range(1_000)))
            cases.append(Case(_Seconds(core).work, time.process_time))
        few, many = cases
        return _compared(f"Next+Finished, {MANY_URIS} URIs of a host that rests, by {assignment}", few, many)


class _Seconds:
    """Each host of a shared queue may be asked once a second, and is."""

    def __init__(self, core: Shell) -> None:
        self._core = core

    def work(self, seconds: int = 20) -> int:
        """Fetch all that may be fetched in so many seconds."""
        pages = 0
        for _ in range(seconds):
            self._core.now_ms += 1_000
            while (answer := self._core.next("bench", 1)).grants or answer.again:
                for grant in answer.grants:
                    self._core.finish(Report(grant.token, fetch_status=200, body_bytes=1_000))
                    pages += 1
        if pages != seconds * (1 + SMALL_HOSTS):
            raise RuntimeError(f"{pages} pages were given out in {seconds} s")
        return pages


@contextmanager
def _core(path: Path, settings: CrawlSettings, robots: bool = True) -> Iterator[Shell]:
    """A core with a crawl that runs, and its seed fetched, with its robots.txt if it heeds that."""
    with _store_of(path) as core:
        core.create("bench", settings)
        core.launch("bench", f"https://{settings.scope.hosts[0]}/")
        for _ in range(1 + robots):
            _report(core, *core.grants("bench", 1))
        yield core


@contextmanager
def _store_of(path: Path) -> Iterator[Shell]:
    """A core over a new store on disk."""
    store = RocksStore(path)
    try:
        yield Shell(store)
    finally:
        store.close()


def _settings(hosts: list[str], groups: tuple[GroupSettings, ...] = ()) -> CrawlSettings:
    return CrawlSettings(
        allowed_addresses=("loopback",),
        scope=ScopeSettings(hosts=tuple(hosts)),
        politeness=PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0),
        queues=QueueSettings(session_budget=10**9),
        run_while_empty=True,
        groups=groups,
    )


def _report(core: Shell, *grants: Grant) -> None:
    core.now_ms += 1
    core.finish(*(Report(grant.token, fetch_status=200, body_bytes=1_000) for grant in grants))


# Readers of events: how long an operator waits for an answer, by the clock. The least counts, as all readers
# hear of each request: whatever else the machine does makes some answers later, and none earlier.


def _readers(folder: Path) -> Figure:
    name = f"RequestState, {STREAMS} readers of its events"
    waits_s: dict[str, list[float]] = {}
    with ExitStack() as opened:
        servers = {case: opened.enter_context(FrontierServer(folder / case)) for case in ("unread", "read")}
        operators = {}
        for case, server in servers.items():
            load = opened.enter_context(Load(server.address))
            load.create_crawl("bench", ["www.example"], launch=True, run_while_empty=True)
            operators[case] = load
        readers = opened.enter_context(
            Child("benchmarks.readers", servers["read"].address, "bench", str(STREAMS), errors=folder / "err")
        )
        readers.hear()  # all have heard where the crawl is
        loops_ms, used_s = [loop_ms()], servers["read"].cpu_s()
        targets = itertools.cycle((crawl_pb2.TARGET_STATE_PAUSE, crawl_pb2.TARGET_STATE_RUN))
        for target in itertools.islice(targets, 2 * PAUSES):
            _until_quiet(readers)
            for case, load in operators.items():
                request = frontier_pb2.RequestStateRequest(crawl="bench", target_state=target)
                call, message = load.call("RequestState"), request.SerializeToString()
                start_s = time.perf_counter()
                call(message, timeout=ANSWER_S)
                waits_s.setdefault(case, []).append(time.perf_counter() - start_s)
        _until_quiet(readers)
        loops_ms.append(loop_ms())
        used_us = (servers["read"].cpu_s() - used_s) / (2 * PAUSES) * 1e6
    plain_s, crowded_s = (min(each) for each in waits_s.values())
    least = {"least": crowded_s * 1e3, "without readers": plain_s * 1e3}
    waits = least | waits_ms(waits_s["read"])
    cpu_us = {SERVER: used_us, "client": 0.0}
    limit = _limit(name, crowded_s / plain_s)
    return Figure(name, 2 * PAUSES, 1 / crowded_s, cpu_us, min(loops_ms), waits, limit=limit)


def _until_quiet(readers: Child) -> None:
    """Waits until all readers have heard what there is to hear."""
    last, since_s = -1, time.perf_counter()
    while time.perf_counter() < since_s + QUIET_S:
        time.sleep(LOOK_S)
        readers.say("how many")
        heard = int(readers.hear())
        if heard != last:
            last, since_s = heard, time.perf_counter()
