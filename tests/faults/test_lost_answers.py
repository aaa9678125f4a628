"""An answer gets lost, and whoever asked asks again, as it was: nothing is done twice.

The tables have every RPC of the contract: a new one fails these tests until it says what a repeat of it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from faults.relay import Relay
from frontier_harness.calls import (
    PAUSE,
    TIMEOUT_S,
    Refusal,
    Stubs,
    fresh_name,
    report,
    seconds,
    seed_of,
    spec,
)
from frontier_harness.every_rpc import READING, RPCS, request
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.waiting import PATIENCE_S, eventually

from frontier_server.core.rows.keys import CrawlRow
from frontier_server.core.rows.records import CountersRow, ServerRow, decode
from frontier_server.core.rows.store import Family
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_client import FrontierClient
from toehold_client.errors import FrontierUnavailable, ToeholdError

LEASE_MS = 3_600_000  # nothing lapses, and nobody is given up, while this is looked at


@dataclass(frozen=True, slots=True)
class Again:
    """What becomes of the second of two like requests."""

    refused: str = ""
    """The reason of its refusal."""
    told: frozenset[Family] = frozenset()
    """Where it may change rows."""
    differs: bool = False
    """It is answered in another way."""
    repeated: bool = True
    """The client makes it again by itself, after a connection that broke."""


def _told(*families: Family, differs: bool = False, repeated: bool = True) -> Again:
    """What was done is done; that somebody asked is told again."""
    told = frozenset((Family.CRAWLS, Family.EVENTS, *families))
    return Again(told=told, differs=differs, repeated=repeated)


def _more(*families: Family) -> Again:
    """There is one more of it afterwards. So only who asked can know whether that is wanted."""
    return _told(*families, differs=True, repeated=False)


_LEASED = (Family.QUEUES, Family.INDEX, Family.LEASES, Family.HOSTS, Family.OWN_HOSTS, Family.ROBOTS)

LOOKS = (*READING, "ListCrawls", "GetFrontier", "GetCaller", "ListCheckpoints")
AGAIN: Mapping[str, Again] = {
    # Of fetchers and feeders.
    "Schedule": Again(told=frozenset((Family.CRAWLS,)), differs=True),  # seen by now; counted as offered
    "Next": Again(told=frozenset((Family.CRAWLS, *_LEASED)), differs=True),  # others, if there are any
    "Finished": Again(differs=True),  # the same disposition, marked as repeated
    "Heartbeat": Again(),
    "RequestState": Again(),
    # A crawl's life.
    "CreateCrawl": Again("CRAWL_EXISTS", repeated=False),
    "LaunchCrawl": Again("ILLEGAL_STATE"),
    "ReopenCrawl": Again("ILLEGAL_STATE"),
    "TearDownCrawl": Again(differs=True, repeated=False),  # begun before; the client looks whether it is done
    "DeleteCrawl": Again("UNKNOWN_CRAWL"),
    # A crawl's contents.
    "AddSeeds": _told(Family.SEEDS, Family.JOBS, repeated=False),  # listed twice, fetched once
    "AddSeedBatch": _told(Family.SEEDS, Family.JOBS, repeated=False),  # likewise
    "UpdateCrawl": Again(),
    "UpdateQueue": _told(),
    "NoteUris": _told(differs=True),
    "ForgetUris": _told(differs=True),
    "ImportUris": _more(Family.JOBS, Family.IMPORTS),  # a job that finds nothing new
    "StartJob": _more(Family.JOBS),
    "CancelJob": _told(),
    "PutOverride": _told(Family.JOBS),  # queues on disk are appraised again
    "DeleteOverride": Again("UNKNOWN_OVERRIDE"),
    # The server.
    "CreateCheckpoint": _more(),
    "DeleteCheckpoint": Again("UNKNOWN_CHECKPOINT"),
    "SetPoolSize": _told(),
    "DrainNode": Again(),
    "ForgetNode": Again("UNKNOWN_NODE"),
}


def test_each_rpc_says_what_a_repeat_does() -> None:
    assert set(AGAIN) | set(LOOKS) == set(RPCS)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A frontier."""
    data = tmp_path_factory.mktemp("lost")
    with hosted(RocksStore(data / "store"), data, lease_ms=LEASE_MS, heartbeat_ms=60_000) as made:
        yield made


@pytest.fixture
def crawl(at: Hosted) -> str:
    """One that runs, with two hosts, and something that waits."""
    name = fresh_name()
    seeds = [seed_of(name, host) for host in ("a.", "b.")]
    at.stubs.launch(name, *seeds, of=spec(0, statistics_interval=seconds(86_400)))
    at.stubs.schedule(name, *(f"{seed}page" for seed in seeds))
    return name


def test_looking_changes_nothing(at: Hosted, crawl: str) -> None:
    job = at.stubs.job(crawl, verify={}).job
    before = _rows(at)
    for rpc in sorted(set(LOOKS) - {"StateEvents"}):  # which has no end
        asked = request(rpc, crawl)
        for field, value in (
            ("uri", seed_of(crawl, "a.")),
            ("queue_key", f"example,{crawl},a,"),
            ("job", job),
        ):
            if field in asked.DESCRIPTOR.fields_by_name and rpc != "Explain":
                setattr(asked, field, value)
        assert not isinstance(_answer(at.stubs, rpc, asked), Refusal), rpc
    assert _rows(at) == before


@pytest.mark.parametrize("rpc", sorted(AGAIN))
def test_what_is_asked_again_is_not_done_twice(at: Hosted, crawl: str, rpc: str) -> None:
    asked, again = _asked(at.stubs, rpc, crawl), AGAIN[rpc]
    unasked = _rows(at)
    first = _answer(at.stubs, rpc, asked)
    assert not isinstance(first, Refusal), first
    _settle(at, rpc, getattr(asked, "crawl", crawl))
    before = _rows(at)
    assert before != unasked or rpc in ("Heartbeat", "DeleteCheckpoint")  # memory, and files
    second = _answer(at.stubs, rpc, asked)
    _settle(at, rpc, getattr(asked, "crawl", crawl))
    after = _rows(at)
    assert {row[0] for row in before.keys() | after.keys() if before.get(row) != after.get(row)} <= again.told
    if again.refused:
        assert isinstance(second, Refusal) and second.reason == again.refused
    else:
        assert (second != first) == again.differs


def test_what_a_next_gave_out_is_not_given_out_again(at: Hosted, crawl: str) -> None:
    answers = [at.stubs.next(crawl, 1, TIMEOUT_S, crawl) for _ in range(2)]
    first, second = (lease.uri for answer in answers for lease in answer.leases)
    assert first != second


def test_a_report_that_counted_gets_its_disposition_again(at: Hosted, crawl: str) -> None:
    (lease,) = at.stubs.next(crawl, 1, TIMEOUT_S, crawl).leases
    answers = [at.stubs.finish(report(lease), node=crawl) for _ in range(2)]
    assert answers == [[("SUCCEEDED", False)], [("SUCCEEDED", True)]]


def _asked(stubs: Stubs, rpc: str, crawl: str) -> Any:
    """A request that is granted once, and all that it takes for that."""
    made = request(rpc, crawl)
    uri = seed_of(crawl, "a.")
    match rpc:
        case "Finished" | "Heartbeat" | "DrainNode":
            (lease,) = stubs.next(crawl, 1, TIMEOUT_S, crawl).leases
            made = _with_lease(rpc, lease, crawl)
            stubs.heartbeat([lease.token], node=crawl)
        case "Next":
            made.node = crawl
        case "CreateCrawl":
            made.crawl = fresh_name()
        case "ForgetNode":
            made.node = crawl
            gone = frontier_pb2.HeartbeatRequest(node=crawl, session="session", leaving=True)
            stubs.frontier.Heartbeat(gone, timeout=TIMEOUT_S)
        case "LaunchCrawl" | "DeleteCrawl" | "ReopenCrawl":
            made.crawl = fresh_name()
            stubs.create(made.crawl)
            stubs.seed(made.crawl, uri)
            if rpc == "ReopenCrawl":
                stubs.request(made.crawl, crawl_pb2.TARGET_STATE_FINISH)
        case "CancelJob":
            made.job = stubs.job(crawl, verify={}).job
        case "DeleteOverride":
            stubs.admin.PutOverride(request("PutOverride", crawl), timeout=TIMEOUT_S)
        case "DeleteCheckpoint":
            asked = admin_pb2.CreateCheckpointRequest()
            made.checkpoint = stubs.admin.CreateCheckpoint(asked, timeout=TIMEOUT_S).checkpoint.checkpoint
        case "UpdateQueue":
            made.queue_key = f"example,{crawl},a,"
        case "Schedule":
            made.candidates[0].uri = f"{uri}offered"
        case "ImportUris":
            made.entries[0].candidate.uri = f"{uri}imported"
        case "AddSeeds" | "NoteUris":
            made.uris[0] = f"{uri}added"
        case "ForgetUris":
            made.uris[0] = f"{uri}noted"
            stubs.admin.NoteUris(admin_pb2.NoteUrisRequest(crawl=crawl, uris=made.uris), timeout=TIMEOUT_S)
    return made


def _with_lease(rpc: str, lease: frontier_pb2.Lease, node: str) -> Any:
    if rpc == "Finished":
        return frontier_pb2.FinishedRequest(node=node, session="session", reports=[report(lease)])
    if rpc == "Heartbeat":
        return frontier_pb2.HeartbeatRequest(node=node, session="session", tokens=[lease.token])
    return admin_pb2.DrainNodeRequest(node=node)


def _answer(stubs: Stubs, rpc: str, asked: Any) -> list[Any] | Refusal:
    method = RPCS[rpc]
    service = stubs.frontier if method.containing_service.name == "FrontierService" else stubs.admin
    try:
        told = getattr(service, rpc)(iter((asked,)) if method.client_streaming else asked, timeout=TIMEOUT_S)
        return list(told) if method.server_streaming else [told]
    except grpc.RpcError as problem:
        return Refusal.of(problem)


def _settle(at: Hosted, rpc: str, crawl: str) -> None:
    """Wait until what was begun has ended."""

    def ended() -> bool:
        jobs = at.stubs.ask("ListJobs", crawl).jobs
        torn_down = at.stubs.describe(crawl).status.torn_down
        return all(job.HasField("finish_time") for job in jobs) and (rpc != "TearDownCrawl" or torn_down)

    if rpc != "DeleteCrawl":
        eventually(ended, "the end of jobs")
    eventually(lambda: at.look(lambda core: not core.upkeep.has_work), "the end of what is done in slices")


def _rows(at: Hosted) -> dict[tuple[Family, bytes], Any]:
    return at.look(
        lambda core: {
            (family, key): _at_rest(key, value) if family is Family.CRAWLS else value
            for family in Family
            for key, value in core.shard.store.scan(family, b"", b"")
        }
    )


def _at_rest(key: bytes, value: bytes) -> Any:
    """A row, but for how far logs are, which follow by themselves, and for the time when that was noted."""
    match key[4]:
        case CrawlRow.COUNTERS:
            counters = decode(CountersRow, value)
            counters.logged_outcome = counters.log_bytes = 0
            counters.job_log_event = counters.job_log_bytes = 0
            return counters
        case CrawlRow.SERVER:
            server = decode(ServerRow, value)
            server.time_ms = 0
            return server
    return value


# What the client does by itself.

CLIENT: Mapping[str, Callable[[FrontierClient, str, Any], object]] = {
    "Schedule": lambda client, crawl, made: client.schedule(crawl, list(made.candidates)),
    "Next": lambda client, crawl, made: client.next(node=crawl, session="session", max_leases=1, crawl=crawl),
    "Finished": lambda client, crawl, made: client.finished(
        list(made.reports), node=crawl, session="session"
    ),
    "Heartbeat": lambda client, crawl, made: client.heartbeat(
        node=crawl, session="session", tokens=list(made.tokens)
    ),
    "RequestState": lambda client, crawl, made: client.request_state(crawl, PAUSE),
    "CreateCrawl": lambda client, crawl, made: client.create_crawl(made.crawl, made.spec),
    "LaunchCrawl": lambda client, crawl, made: client.launch_crawl(made.crawl),
    "ReopenCrawl": lambda client, crawl, made: client.reopen_crawl(made.crawl),
    "TearDownCrawl": lambda client, crawl, made: client.tear_down_crawl(crawl),
    "DeleteCrawl": lambda client, crawl, made: client.delete_crawl(made.crawl),
    "AddSeeds": lambda client, crawl, made: client.add_seeds(crawl, made.uris),
    "UpdateCrawl": lambda client, crawl, made: client.update_crawl(crawl, made.spec),
    "UpdateQueue": lambda client, crawl, made: client.update_queue(crawl, made.queue_key, made.change),
    "NoteUris": lambda client, crawl, made: client.note_uris(crawl, made.uris),
    "ForgetUris": lambda client, crawl, made: client.forget_uris(crawl, made.uris),
    "ImportUris": lambda client, crawl, made: client.import_uris(crawl, made.entries),
    "StartJob": lambda client, crawl, made: client.start_job(crawl, made.verify),
    "CancelJob": lambda client, crawl, made: client.cancel_job(crawl, made.job),
    "PutOverride": lambda client, crawl, made: client.put_override(
        crawl, made.override.surt_prefix, made.override.settings
    ),
    "DeleteOverride": lambda client, crawl, made: client.delete_override(crawl, made.surt_prefix),
    "CreateCheckpoint": lambda client, crawl, made: client.create_checkpoint(),
    "DeleteCheckpoint": lambda client, crawl, made: client.delete_checkpoint(made.checkpoint),
    "SetPoolSize": lambda client, crawl, made: client.set_pool_size(1, crawl),
    "DrainNode": lambda client, crawl, made: client.drain_node(crawl),
    "ForgetNode": lambda client, crawl, made: client.forget_node(crawl),
}


def test_the_client_is_tried_with_all_that_changes_anything() -> None:
    assert set(CLIENT) == set(AGAIN) - {"AddSeedBatch"}  # `add_seeds` takes any number


@pytest.mark.parametrize("rpc", sorted(CLIENT))
def test_a_client_asks_again_by_itself_where_that_does_nothing_twice(
    at: Hosted, crawl: str, rpc: str
) -> None:
    """The first answer gets lost; whoever cannot ask again is told that nobody knows."""
    made = _asked(at.stubs, rpc, crawl)
    with (
        Relay(at.served.address, lose={rpc: 1}) as relay,
        FrontierClient(relay.address, patience_s=PATIENCE_S) as client,
    ):
        relay.lose_at_most = 1
        try:
            CLIENT[rpc](client, crawl, made)
            problem: ToeholdError | None = None
        except ToeholdError as error:
            problem = error
        asked = relay.answered[rpc] + relay.refused[rpc]
    assert relay.lost[rpc] == 1
    again = AGAIN[rpc]
    assert asked == 1 + again.repeated
    if again.repeated:
        assert (problem.reason if problem else "") == again.refused
    elif rpc != "TearDownCrawl":
        assert isinstance(problem, FrontierUnavailable)
