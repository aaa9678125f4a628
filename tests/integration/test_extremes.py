"""Every number of the contract at its ends, and every text far beyond its length, through every RPC.

The cases are read from the contract's descriptors, so that a new field is tested as soon as it is there.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import TIMEOUT_S, Refusal, Stubs, report, seed_of, spec
from frontier_harness.every_rpc import READING, RPCS, ask, request
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.odd_values import Path as FieldPath
from frontier_harness.odd_values import odd_numbers, put, texts
from google.protobuf import message_factory

from frontier_server.core.core import Core
from frontier_server.core.rows.store import Family
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_base.access.roles import is_question

# How a server may refuse a request; anything else is its failure. (A held crawl is not among the cases.)
REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
)
WAIT_S = 1.0  # of an RPC that may wait as long as its caller does
CONTACT = "bot@example.org"
LONG = 1024 * 1024
SHORT = 64 * 1024  # all answers of a frontier that has refused, cut or dropped what was long
# What a long text may begin with, to be taken for what it should be.
BEGINNINGS = ("", "http://a.example/", "fe80::1%", "http://(example,")

# Fields that a request needs for another one to count, beside `every_rpc`'s.
OTHERWISE: dict[tuple[str, str], Mapping[str, Any]] = {
    ("ImportUris", "seen"): {"entries": [{"seen": {"uri": "http://a.example/s"}}], "complete": True},
    ("ListQueues", "state"): {"page_size": 1},
}


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Hosted]:
    """A frontier over what is stored in a folder."""
    store = RocksStore(folder / "store")
    try:
        with hosted(store, folder) as host:
            yield host
    finally:
        store.close()


class Case:
    """A crawl of its own, in which one field of one request after the other is odd."""

    def __init__(self, host: Hosted) -> None:
        self.host = host
        self.stubs: Stubs = host.stubs
        self.rpc = ""
        self.crawls = ["c0"]
        self._numbers = itertools.count()
        self.stubs.launch("c0", seed_of("c0"), of=spec(contact=CONTACT))
        self.fetch("c0")

    def ask(self, path: FieldPath, value: object) -> Any:
        """The answer to a request with an odd field, or how it is refused."""
        made = self._request(path)
        put(made, path, value)
        method = RPCS[self.rpc]
        service: Any = (
            self.stubs.frontier if method.containing_service.name == "FrontierService" else self.stubs.admin
        )
        sent = iter((made,)) if method.client_streaming else made
        try:
            answer = getattr(service, self.rpc)(sent, timeout=WAIT_S if self.rpc == "Next" else TIMEOUT_S)
            return _all_of(answer) if method.server_streaming else answer
        except grpc.RpcError as problem:
            told = Refusal.of(problem)
            assert told.code in REFUSALS and told.reason, (self.rpc, path, str(value)[:80], told)
            assert len(told.message) < 1000
            return told

    def _request(self, path: FieldPath) -> Any:
        number = next(self._numbers)
        method = RPCS[self.rpc]
        for (rpc, name), fields in OTHERWISE.items():
            if rpc == self.rpc and name in path:
                return message_factory.GetMessageClass(method.input_type)(crawl="c0", **fields)
        made: Any = request(self.rpc, "c0")
        match self.rpc:
            case "CreateCrawl":
                made.crawl = f"c{number + 1}"
                made.spec.contact = CONTACT
            case "Schedule":
                made.candidates[0].uri = f"{seed_of('c0')}{number}"
            case "ImportUris":
                made.entries[0].candidate.uri = f"{seed_of('c0')}{number}"
            case "Finished":
                self._offer("c0", host := f"r{number}.c0.example")
                # Beside it there may be one whose retry has come due meanwhile.
                (lease,) = [lease for lease in self.leases("c0") if lease.uri.split("/")[2] == host]
                made.reports[0].CopyFrom(report(lease))
        return made

    def leases(self, crawl: str) -> list[frontier_pb2.Lease]:
        """Leases that are there now, robots.txt out of the way."""
        while True:
            leases = self.stubs.next(crawl).leases
            robots = [lease for lease in leases if lease.purpose == frontier_pb2.PURPOSE_ROBOTS]
            if not robots:
                return list(leases)
            self.stubs.finish(*(report(lease) for lease in robots))

    def fetch(self, crawl: str) -> None:
        """Let what was set count: pages are taken in, one of them on a host that is known, and what is leased
        is fetched, or fails, or is put off."""
        number = next(self._numbers)
        hosts = {f"h{number}.{crawl}.example": 503, f"i{number}.{crawl}.example": -2}
        self._offer(crawl, f"{crawl}.example", *hosts)
        for lease in self.leases(crawl):
            status = hosts.get(lease.uri.split("/")[2], 200)
            self.stubs.finish(report(lease, status, body_bytes=2**50))

    def _offer(self, crawl: str, *hosts: str) -> None:
        number = next(self._numbers)
        offered = [frontier_pb2.Candidate(uri=f"http://{host}/{number}", seed=True) for host in hosts]
        request = frontier_pb2.ScheduleRequest(crawl=crawl, candidates=offered)
        self.stubs.frontier.Schedule(request, timeout=TIMEOUT_S)

    def follow(self, answer: object) -> None:
        """Use what was accepted."""
        if isinstance(answer, Refusal):
            return
        if isinstance(answer, admin_pb2.CreateCrawlResponse):
            crawl = answer.crawl.crawl
            self.crawls.append(crawl)
            self.stubs.seed(crawl, seed_of(crawl))
            self.stubs.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=crawl), timeout=TIMEOUT_S)
            self.stubs.until(crawl, crawl_pb2.CRAWL_STATE_RUNNING, crawl_pb2.CRAWL_STATE_FINISHED)
            with contextlib.suppress(grpc.RpcError):  # it may have ended already
                self.fetch(crawl)
        elif self.rpc in ("UpdateCrawl", "PutOverride", "Schedule", "Finished", "ImportUris"):
            self.fetch("c0")

    def read(self) -> int:
        """Everything that can be asked can be answered; the bytes of the longest answer."""
        stubs = self.stubs
        answers: list[Any] = []
        for crawl in self.crawls:
            answers += [
                *stubs.events_so_far(crawl),
                stubs.ask("GetQueue", crawl, queue_key=f"example,{crawl},"),
                stubs.ask("GetUri", crawl, uri=seed_of(crawl)),
                stubs.ask("GetJob", crawl, job=1),
                stubs.ask("Explain", crawl, uri=seed_of(crawl)),
                *stubs.ask("StreamOutcomes", crawl, cursor="start"),
            ]
            told = {"StateEvents", "GetQueue", "GetUri", "GetJob", "StreamOutcomes"}
            of_kept_uris = {"ListSeenUris", "CountSeenUris"}  # only some of the crawls keep theirs
            for rpc in READING.keys() - told - of_kept_uris:
                answer = ask(stubs, rpc, crawl)
                answers += answer if isinstance(answer, list) else [answer]
        answers += [ask(stubs, rpc) for rpc in ("ListCrawls", "GetFrontier", "ListCheckpoints")]
        assert self.host.served.runner.serving
        sizes: list[int] = [answer.ByteSize() for answer in answers]
        return max(sizes)


def _longest_row(core: Core) -> int:
    """How many bytes the longest value has that is stored."""
    return max(len(value) for family in Family for _, value in core.shard.store.scan(family, b"", b""))


def _all_of(stream: Any) -> list[Any]:
    """What a stream tells at once."""
    try:
        return [next(stream)]
    except StopIteration:
        return []
    finally:
        stream.cancel()


def with_fields(of: Any) -> list[list[str]]:
    """RPCs with such fields: those that change something each by itself, and all questions together."""
    found = sorted(rpc for rpc, method in RPCS.items() if any(True for _ in of(method.input_type)))
    questions = {rpc for rpc in found if is_question(f"{RPCS[rpc].containing_service.full_name}/{rpc}")}
    return [*([rpc] for rpc in found if rpc not in questions), sorted(questions)]


@pytest.mark.parametrize("rpcs", with_fields(odd_numbers), ids=" ".join)
def test_no_number_in_any_request_ends_the_server_or_keeps_it_from_starting(
    rpcs: list[str], tmp_path: Path
) -> None:
    with served(tmp_path) as host:
        case = Case(host)
        for case.rpc in rpcs:
            for path, value in odd_numbers(RPCS[case.rpc].input_type):
                case.follow(case.ask(path, value))
                assert host.served.runner.serving, (case.rpc, path, value)
        case.read()
        crawls = case.crawls
    with served(tmp_path) as host:
        again = Case.__new__(Case)
        again.__dict__.update(host=host, stubs=host.stubs, rpc=case.rpc, crawls=crawls)
        again.read()


@pytest.mark.parametrize("rpcs", with_fields(texts), ids=" ".join)
def test_no_text_of_any_length_is_kept_whole_or_told_again(rpcs: list[str], tmp_path: Path) -> None:
    """It is refused, cut or dropped, and a refusal is a sentence."""
    with served(tmp_path) as host:
        case = Case(host)
        for case.rpc in rpcs:
            for path, is_bytes in texts(RPCS[case.rpc].input_type):
                for beginning in BEGINNINGS:
                    long = beginning + "x" * LONG
                    answer = case.ask(path, long.encode() if is_bytes else long)
                    case.follow(answer)
                    if not isinstance(answer, (list, Refusal)):
                        assert answer.ByteSize() < SHORT, path
                assert host.served.runner.serving, (case.rpc, path)
        assert case.read() < SHORT
        assert host.look(_longest_row) < SHORT
