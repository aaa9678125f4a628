"""Programs with few descriptors: a frontier has more crawls than those, and clients still connect."""

import resource
from pathlib import Path

import grpc
import pytest
from core_doubles.memory_store import MemoryStore
from frontier_harness import hasty_program, limited_program
from frontier_harness.calls import TIMEOUT_S, Stubs, report, seed_of, spec
from frontier_harness.in_process import Served, config, serving
from frontier_harness.process import ServerProcess, run_to_end
from frontier_harness.waiting import eventually

from frontier_server.logs import crawl_log
from frontier_server.stores.descriptors import MAX_OPEN_FILES, connections, open_files
from toehold.frontier.v1 import admin_pb2, frontier_pb2
from toehold_base.serving.connections import MIN_DESCRIPTORS, MOST_CONNECTIONS

FEW, CRAWLS = 256, 300


def descriptors(server: ServerProcess) -> int:
    return len(list(Path(f"/proc/{server.child.pid}/fd").iterdir()))


def fetch_all(stubs: Stubs, most: int) -> int:
    """Fetch what can be had at once, of all crawls; how many."""
    count = 0
    while count < most:
        request = frontier_pb2.NextRequest(node="n", session="s", max_leases=1000)
        request.wait_duration.FromSeconds(10)
        leases = stubs.frontier.Next(request, timeout=TIMEOUT_S).leases
        if not leases:
            break
        stubs.finish(*[report(lease) for lease in leases], node="n", session="s")
        count += len(leases)
    return count


def test_more_crawls_than_descriptors_are_served_and_logged_and_clients_still_connect(tmp_path: Path) -> None:
    program = (limited_program.__file__, str(FEW), str(FEW))
    with ServerProcess(tmp_path / "data", program=program) as server:
        names = [f"c{number}" for number in range(CRAWLS)]
        for name in names:
            server.stubs.launch(name, seed_of(name))
        assert fetch_all(server.stubs, 2 * CRAWLS) == 2 * CRAWLS  # with their robots.txt
        logs = [server.data / "crawls" / name / "crawl.log" for name in names]
        eventually(lambda: all(len(lines(log)) == 2 for log in logs), "every line of every log")
        assert descriptors(server) < FEW
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(server.address, options) as another:
            assert Stubs(another).describe(names[-1]).crawl == names[-1]
        assert server.stop()[0] == 0


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.sampled("limit", [24, 64, MIN_DESCRIPTORS - 1])
@pytest.mark.sampled(
    ("name", "module", "flags"),
    [
        ("toehold-frontier", "frontier_server.program.program", ("--data", "data")),
        ("toehold-urlfrontier", "urlfrontier_gateway.program", ()),
        ("toehold-node", "crawler_node.program", ("--pages", "pages")),
        ("toehold-node", "crawler_node.program", ("--pages", "pages", "--processes", "2")),
    ],
)
def test_too_few_descriptors_are_refused_at_the_start_with_how_many_it_takes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    module: str,
    flags: tuple[str, ...],
    limit: int,
) -> None:
    """gRPC would crash without a word, the program end with a trace, or no connection have a descriptor."""
    monkeypatch.chdir(tmp_path)
    program = (hasty_program.__file__, module, str(limit))
    ended = run_to_end(*flags, "--listen", "127.0.0.1:0", program=program)
    said = f"the limit of open files (ulimit -n) must be at least {MIN_DESCRIPTORS}, got {limit}"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"{name}: {said}\n")
    assert list(tmp_path.iterdir()) == []


def test_as_few_descriptors_as_it_takes_are_enough_to_serve(tmp_path: Path) -> None:
    few = str(MIN_DESCRIPTORS)
    with ServerProcess(tmp_path / "data", program=(limited_program.__file__, few, few)) as server:
        server.stubs.launch("c", seed_of("c"))
        assert fetch_all(server.stubs, 2) == 2
        assert server.stop()[0] == 0


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", program=(limited_program.__file__, "300", "400")) as server:
        assert resource.prlimit(server.child.pid, resource.RLIMIT_NOFILE) == (400, 400)


@pytest.mark.parametrize(
    ("limit", "files", "most"),
    [
        (MIN_DESCRIPTORS, 128, 64),
        (700, 350, 222),
        (1024, 512, 384),
        (20_000, MAX_OPEN_FILES, 20_000 - MAX_OPEN_FILES - 128),
        (1 << 20, MAX_OPEN_FILES, MOST_CONNECTIONS),
        (resource.RLIM_INFINITY, MAX_OPEN_FILES, MOST_CONNECTIONS),
    ],
)
def test_connections_and_the_store_leave_descriptors_for_all_else(
    monkeypatch: pytest.MonkeyPatch, limit: int, files: int, most: int
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    assert (open_files(), connections()) == (files, most)


async def test_only_so_many_logs_are_open_however_many_have_lines_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawl_log, "MAX_OPEN", 3)
    most = 0
    whole = crawl_log._CrawlLog.append

    async with serving(MemoryStore(), config(tmp_path)) as served:

        def append(log: crawl_log._CrawlLog, text: bytes, outcome: int) -> None:
            nonlocal most
            most = max(most, len(served.logs._logs))
            whole(log, text, outcome)

        monkeypatch.setattr(crawl_log._CrawlLog, "append", append)
        names = [f"c{number}" for number in range(10)]
        for part in range(3):
            for name in names:
                await seeds(served, name, f"http://{name}.example/{part}", part == 0)
            await fetch(served)
            await served.logs._append()
        await served.logs.drain()
        for name in names:
            assert len(lines(served.logs.path(name))) == 4, name  # robots.txt among them
        assert most == 3


async def seeds(served: Served, crawl: str, seed: str, new: bool) -> None:
    """One more seed of a crawl."""
    if new:
        await served.admin.CreateCrawl(
            admin_pb2.CreateCrawlRequest(crawl=crawl, spec=spec(run_while_empty=True))
        )
    await served.admin.AddSeeds(iter([admin_pb2.AddSeedsRequest(crawl=crawl, uris=[seed])]))
    if new:
        await served.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=crawl))


async def fetch(served: Served) -> None:
    """All that can be had within a second."""
    while True:
        request = frontier_pb2.NextRequest(node="n", session="s", max_leases=100)
        request.wait_duration.FromSeconds(1)
        leases = (await served.frontier.Next(request)).leases
        if not leases:
            return
        reports = [report(lease) for lease in leases]
        await served.frontier.Finished(frontier_pb2.FinishedRequest(reports=reports, node="n", session="s"))
