"""What fetchers notice of a frontier with three shards: as little as possible."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Stubs,
    finished_request,
    fresh_name,
    next_request,
    refused,
    released,
    report,
    spec,
)
from frontier_harness.descendants import children
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

V = TypeVar("V")

SHARDS = 3
HOSTS = 30
"""On so many hosts of a crawl each shard has some, as good as surely."""

IGNORE = spec(robots=crawl_pb2.RobotsSpec(policy="ignore"))
ANYTHING = crawl_pb2.ScopeSpec(surt_prefixes=["+http://("])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("shards") / "data", "--shards", str(SHARDS)) as server:
        yield server


@pytest.fixture
def stubs(server: ServerProcess) -> Stubs:
    return server.stubs


def seeds_of(crawl: str) -> list[str]:
    return [f"http://{crawl}-{number}.example/" for number in range(HOSTS)]


@pytest.fixture
def crawl(stubs: Stubs) -> str:
    """A crawl without robots.txt, whose seeds on many hosts are announced."""
    name = fresh_name()
    stubs.launch(name, *seeds_of(name), of=IGNORE)
    return name


def shard_of(lease: frontier_pb2.Lease) -> int:
    slot = int.from_bytes(lease.token[4:6], "big") >> 4
    return ((slot + 1) * SHARDS - 1) // 4096


def all_of(stubs: Stubs, crawl: str, most: int = HOSTS) -> list[frontier_pb2.Lease]:
    """So many leases of a crawl."""
    leases: list[frontier_pb2.Lease] = []

    def come() -> bool:
        request = next_request(crawl, most - len(leases), 5)
        leases.extend(stubs.frontier.Next(request, timeout=TIMEOUT_S).leases)
        return len(leases) >= most

    eventually(come, "the leases")
    return leases


def test_all_shards_give_leases_of_one_fetch_policy(stubs: Stubs, crawl: str) -> None:
    leases = all_of(stubs, crawl)
    assert {shard_of(lease) for lease in leases} == set(range(SHARDS))
    assert sorted(lease.uri for lease in leases) == sorted(seeds_of(crawl))
    assert len({lease.fetch_policy_id for lease in leases}) == 1


def test_leases_one_by_one_come_from_all_shards_in_turn(stubs: Stubs, crawl: str) -> None:
    found = [shard_of(lease) for _ in range(2 * SHARDS) for lease in all_of(stubs, crawl, 1)]
    assert {found.count(shard) for shard in range(SHARDS)} == {2}


@pytest.mark.parametrize("favoured", range(SHARDS))
def test_queues_of_lower_precedence_go_first_whichever_shard_has_them(
    stubs: Stubs, crawl: str, favoured: int
) -> None:
    leases = all_of(stubs, crawl)
    first = [lease for lease in leases if shard_of(lease) == favoured]
    for lease in first:
        change = admin_pb2.QueueChange(precedence=0)
        request = admin_pb2.UpdateQueueRequest(crawl=crawl, queue_key=lease.queue_key, change=change)
        stubs.admin.UpdateQueue(request, timeout=TIMEOUT_S)
    stubs.finish(*(released(lease) for lease in leases))
    found: list[int] = []

    def tell() -> bool:
        """Whether the front has heard of the order: the favoured shard gives all that it has, one by one."""
        nonlocal found
        again = [lease for _ in first for lease in all_of(stubs, crawl, 1)]
        found = [shard_of(lease) for lease in again]
        stubs.finish(*(released(lease) for lease in again))
        return found == [favoured] * len(first)

    eventually(tell, "the favoured shard to go first")


def test_leases_of_few_queues_come_from_no_more_in_all_shards(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.launch(
        crawl,
        *seeds_of(crawl),
        of=spec(
            robots=crawl_pb2.RobotsSpec(policy="ignore"), queues=crawl_pb2.QueueSpec(max_leases_per_queue=5)
        ),
    )
    stubs.schedule(crawl, *(f"{seed}{number}" for seed in seeds_of(crawl) for number in range(5)))
    request = next_request(crawl, HOSTS)
    request.max_queues = 2
    leases = stubs.frontier.Next(request, timeout=TIMEOUT_S).leases
    assert 1 <= len({lease.queue_key for lease in leases}) <= 2


@pytest.mark.parametrize("is_named", [True, False])
def test_an_answer_has_at_most_100_leases_of_a_crawl(stubs: Stubs, is_named: bool) -> None:
    crawl = fresh_name()
    stubs.launch(crawl, *seeds_of(crawl), of=spec(robots=IGNORE.robots, scope=ANYTHING))
    stubs.schedule(crawl, *(f"http://{number}.{crawl}-{number}.example/" for number in range(400)))
    request = next_request(crawl if is_named else "", 1000)
    leases = stubs.frontier.Next(request, timeout=TIMEOUT_S).leases
    assert 1 <= [lease.crawl for lease in leases].count(crawl) <= 100
    stubs.request(crawl, FINISH)


def test_next_of_a_named_queue_is_answered_when_it_has_a_uri(stubs: Stubs, crawl: str) -> None:
    leases = all_of(stubs, crawl)
    waiting = []
    for node, lease in enumerate(leases[:SHARDS]):
        request = next_request(crawl, 1, 50, f"chooser-{node}")
        request.queues.append(lease.queue_key)
        waiting.append(stubs.frontier.Next.future(request, timeout=TIMEOUT_S))
    stubs.schedule(crawl, *(f"{lease.uri}new" for lease in leases[:SHARDS]))
    stubs.finish(*(report(lease) for lease in leases))
    found = [call.result(timeout=TIMEOUT_S).leases for call in waiting]
    assert [[each.uri for each in one] for one in found] == [[f"{lease.uri}new"] for lease in leases[:SHARDS]]


@pytest.mark.parametrize("field", ["max_leases", "max_queues", "max_leases_per_queue"])
def test_a_request_with_a_negative_limit_is_refused_though_no_shard_has_anything(
    stubs: Stubs, crawl: str, field: str
) -> None:
    all_of(stubs, crawl)
    assert not stubs.next(crawl, wait_s=1).leases
    request = next_request(crawl, wait_s=1)
    setattr(request, field, -1)
    call = partial(stubs.frontier.Next, request, timeout=TIMEOUT_S)
    refused(call, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT_VALUE", field)


def test_no_shard_leases_once_a_pause_is_acknowledged(stubs: Stubs, crawl: str) -> None:
    assert all_of(stubs, crawl, 1)
    stubs.request(crawl, PAUSE)
    answer = stubs.next(crawl)
    assert (len(answer.leases), answer.empty_reason) == (0, frontier_pb2.EMPTY_REASON_PAUSED)
    assert stubs.next().empty_reason != frontier_pb2.EMPTY_REASON_FINISHED
    stubs.request(crawl, RUN)
    assert stubs.next(crawl).leases
    stubs.request(crawl, FINISH)
    assert stubs.next(crawl).empty_reason == frontier_pb2.EMPTY_REASON_FINISHED


def test_a_caller_who_leaves_gets_no_lease_of_any_shard(stubs: Stubs, crawl: str) -> None:
    leases = all_of(stubs, crawl)
    for number in range(10):
        stubs.frontier.Next.future(
            next_request(crawl, HOSTS, 50, f"leaver-{number}"), timeout=TIMEOUT_S
        ).cancel()
    stubs.finish(*map(released, leases))
    assert len(all_of(stubs, crawl)) == HOSTS


def test_a_new_session_ends_the_leases_of_the_earlier_one_in_all_shards(stubs: Stubs, crawl: str) -> None:
    node = fresh_name()
    first = stubs.frontier.Next(next_request(crawl, HOSTS, 5, node, "first"), timeout=TIMEOUT_S).leases
    assert first
    assert stubs.frontier.Next(next_request(crawl, HOSTS, 5, node, "second"), timeout=TIMEOUT_S).leases
    for lease in first:
        request = finished_request(report(lease), node=node, session="first")
        call = partial(stubs.frontier.Finished, request, timeout=TIMEOUT_S)
        refused(call, grpc.StatusCode.FAILED_PRECONDITION, "SESSION_SUPERSEDED")


def repeated(call: Callable[[], V]) -> V:
    """The answer to a call, which is repeated while the frontier says that a shard is away, as clients do."""
    found: list[V] = []

    def done() -> bool:
        try:
            found.append(call())
        except grpc.RpcError as problem:
            assert problem.code() is grpc.StatusCode.UNAVAILABLE, problem
        return bool(found)

    eventually(done, "an answer")
    return found[0]


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """A context in which processes stand still."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def pid_of(data: Path, member: str) -> int:
    """The process of a member of the frontier in a data directory."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if member in words and any(str(data) in word for word in words):
            return int(folder.name)
    raise AssertionError(f"no process of {member}")


def test_a_shard_that_is_killed_comes_back_with_its_leases_and_those_who_wait_get_its_uris(
    tmp_path: Path,
) -> None:
    data, crawl = tmp_path / "data", fresh_name()
    with ServerProcess(data, "--shards", str(SHARDS)) as server:
        stubs = server.stubs
        stubs.launch(crawl, *seeds_of(crawl), of=IGNORE)
        leases = all_of(stubs, crawl)
        lost = [lease for lease in leases if shard_of(lease) == 1]
        others = [lease for lease in leases if shard_of(lease) != 1]
        pid = pid_of(data, "shard-1")
        waiting = stubs.frontier.Next.future(next_request(crawl, 1, 50, "waiter"), timeout=TIMEOUT_S)
        os.kill(pid, signal.SIGKILL)
        stubs.finish(*map(report, others))
        answer = stubs.heartbeat([lease.token for lease in leases])
        assert set(answer.ended_tokens) == {lease.token for lease in others}
        repeated(lambda: stubs.finish(released(lost[0]), *map(report, lost[1:])))
        (lease,) = waiting.result(timeout=TIMEOUT_S).leases
        assert lease.uri == lost[0].uri
        stubs.finish(report(lease), node="waiter")
        stubs.until(crawl, crawl_pb2.CRAWL_STATE_FINISHED)
        assert stubs.statistics(crawl).succeeded_count == HOSTS


def test_a_shard_that_stands_still_holds_nobody_up(tmp_path: Path) -> None:
    data, crawl = tmp_path / "data", fresh_name()
    with ServerProcess(data, "--shards", str(SHARDS)) as server:
        stubs = server.stubs
        stubs.launch(crawl, *seeds_of(crawl), of=IGNORE)
        pid = pid_of(data, "shard-2")
        with stopped(pid):
            found = {shard_of(lease) for _ in range(10) for lease in all_of(stubs, crawl, 1)}
            assert found == {0, 1}
        assert len(all_of(stubs, crawl, HOSTS - 10)) == HOSTS - 10


def test_a_shard_that_was_away_leases_nothing_of_a_crawl_that_was_paused_meanwhile(tmp_path: Path) -> None:
    data, crawl = tmp_path / "data", fresh_name()
    with ServerProcess(data, "--shards", str(SHARDS)) as server:
        stubs = server.stubs
        stubs.launch(crawl, *seeds_of(crawl), of=IGNORE)
        pid = pid_of(data, "shard-0")
        with stopped(pid):
            eventually(lambda: "shard_away" in server.errors.read_text(), "the front to notice")
            stubs.request(crawl, PAUSE)
        before = server.errors.read_text().count("shard_present")
        eventually(lambda: server.errors.read_text().count("shard_present") > before, "the shard to be back")
        assert stubs.next().empty_reason == frontier_pb2.EMPTY_REASON_PAUSED


def test_calls_that_need_a_shard_are_refused_at_once_while_it_is_away(tmp_path: Path) -> None:
    data, crawl = tmp_path / "data", fresh_name()
    with ServerProcess(data, "--shards", str(SHARDS)) as server:
        stubs = server.stubs
        stubs.launch(crawl, *seeds_of(crawl), of=IGNORE)
        lease = next(each for each in all_of(stubs, crawl) if shard_of(each) == 0)
        pid = pid_of(data, "shard-0")
        with stopped(pid):
            eventually(lambda: "shard_away" in server.errors.read_text(), "the front to notice")
            for call in (
                lambda: stubs.schedule(crawl, f"{lease.uri}new"),
                lambda: stubs.finish(report(lease)),
            ):
                problem = refused(call, grpc.StatusCode.UNAVAILABLE, "SHARD_AWAY", "shard 0")
                assert problem.retry_s is not None


def test_leases_outlive_a_front_that_is_killed_and_a_nodes_trouble_is_not_forgotten(tmp_path: Path) -> None:
    data, crawl = tmp_path / "data", fresh_name()
    with ServerProcess(data, "--shards", str(SHARDS)) as server:
        stubs = server.stubs
        stubs.launch(
            crawl,
            *seeds_of(crawl),
            of=spec(robots=crawl_pb2.RobotsSpec(policy="ignore"), resume_after_trouble=True),
        )
        leases = all_of(stubs, crawl)
        troubled = frontier_pb2.HeartbeatRequest(node="node", session="session", trouble="no room")
        stubs.frontier.Heartbeat(troubled, timeout=TIMEOUT_S)
        stubs.until(crawl, crawl_pb2.CRAWL_STATE_PAUSING)
        os.kill(pid_of(data, "front"), signal.SIGKILL)
        assert not repeated(lambda: stubs.next(crawl)).leases
        assert {name for name, _ in repeated(lambda: stubs.finish(*map(report, leases)))} == {"SUCCEEDED"}
        stubs.until(crawl, crawl_pb2.CRAWL_STATE_PAUSED)


def test_a_crawl_whose_uris_were_scheduled_is_launched_and_gives_them_at_once(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl, spec(robots=crawl_pb2.RobotsSpec(policy="ignore"), scope=ANYTHING))
    stubs.schedule(crawl, f"http://{crawl}.example/")
    stubs.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=crawl), timeout=TIMEOUT_S)
    stubs.until(crawl, crawl_pb2.CRAWL_STATE_RUNNING)
    assert len(stubs.next(crawl).leases) == 1


@pytest.mark.parametrize("front_alone", [True, False])
def test_leases_outlive_a_time_in_which_the_front_stands_still(tmp_path: Path, front_alone: bool) -> None:
    """Nodes cannot be heard meanwhile, though shards run on. Afterwards a silent node loses its leases."""
    data, crawl = tmp_path / "data", fresh_name()
    flags = ("--shards", str(SHARDS), "--lease-seconds", "5", "--heartbeat-seconds", "1")
    with ServerProcess(data, *flags) as server:
        stubs = server.stubs
        stubs.launch(crawl, *seeds_of(crawl), of=IGNORE)
        leases = all_of(stubs, crawl)
        tokens = [lease.token for lease in leases]
        assert not stubs.heartbeat(tokens).ended_tokens
        everybody = (server.child.pid, *children(server.child.pid))
        with stopped(*([pid_of(data, "front")] if front_alone else everybody)):
            time.sleep(8)  # the length of the absence: nothing happens that could be waited for
        assert not repeated(lambda: stubs.heartbeat(tokens)).ended_tokens
        done = leases[: HOSTS // 2]
        assert {name for name, _ in repeated(lambda: stubs.finish(*map(report, done)))} == {"SUCCEEDED"}
        eventually(lambda: stubs.statistics(crawl).leased_count == 0, "the other leases to lapse")


def test_a_teardown_goes_on_after_a_restart_whichever_parts_were_torn_down_before(tmp_path: Path) -> None:
    data, crawl = tmp_path / "data", fresh_name()
    with ServerProcess(data, "--shards", str(SHARDS)) as server:
        server.stubs.launch(crawl, *seeds_of(crawl)[:1], of=IGNORE)
        (lease,) = all_of(server.stubs, crawl, 1)
        assert server.stubs.ask("TearDownCrawl", crawl).begun
        server.kill()
    with ServerProcess(data) as server:
        stubs = server.stubs
        assert stubs.describe(crawl).status.state == crawl_pb2.CRAWL_STATE_STOPPING
        assert repeated(lambda: stubs.finish(report(lease))) == [("SUCCEEDED", False)]
        eventually(lambda: stubs.describe(crawl).status.torn_down, "the teardown")
