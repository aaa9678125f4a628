"""Everybody who uses a frontier, at once, for some seconds: nodes, a feeder, operators, followers.

They write down what they ask and what they are told (`ledger`).
"""

import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

import grpc
from faults.power.ledger import Mark, Notary
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Refusal,
    Stubs,
    candidates,
    disposition_name,
    finished_request,
    named,
    next_request,
    released,
    report,
    schedule_request,
    seconds,
    spec,
)

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

HOSTS = 24
REST_S = {"wide": 0.05, "slow": 3.0, "steered": 0.2}
LEASE_S = 600  # nothing lapses while it is judged
AGAIN_S = 0.1  # after which one comes again who got no answer
GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
REFUSED = ("CRAWL_HELD",)  # with the same code, and an answer
A = TypeVar("A")
STATUSES = (200, 200, 200, 200, 200, 200, 404, 404, 503, -2)


class Load:
    """The callers of one run."""

    pages = 5000
    """How many pages a host has that others link to."""

    def __init__(self, stubs: Stubs, notary: Notary, run: str, *, comes_again: bool = False) -> None:
        """`run` makes names that no other run has. `comes_again`: the frontier, or the way to it, may go away
        in the middle of a call; who got no answer asks again, and who follows comes back with a cursor.
        """
        self._stubs = stubs
        self.notary = notary
        self._run = run
        self._comes_again = comes_again
        self._deleted: set[str] = set()
        self.unanswered = 0
        self._over = threading.Event()
        self.problems: list[str] = []
        self.refusals: list[str] = []
        """What was said by refusals that somebody at work takes for an answer."""
        self.copies = 0  # checkpoints that were made
        self._threads: list[threading.Thread] = []
        self._streams: WeakSet[Any] = WeakSet()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Everybody is at work until the block ends."""
        for name in REST_S:
            self._begin(name)
        for body in self._bodies():
            self.start(body)
        try:
            yield
        finally:
            self._over.set()
            for stream in list(self._streams):
                stream.cancel()
            for thread in self._threads:
                thread.join(TIMEOUT_S)

    def _bodies(self) -> Iterable[Callable[[], None]]:
        """What each of them does, beside those who follow."""
        yield lambda: self._node("one", "wide")
        yield lambda: self._node("two", "")
        yield lambda: self._node("three", "", anew_s=0.7)
        yield self._feed
        yield self._import
        yield self._steer
        yield self._change
        yield self._copy
        yield self._come_and_go

    def start(self, body: Callable[[], object]) -> None:
        """One more is at work, until all are to end."""

        def guarded() -> None:
            try:
                body()
            except _Over:
                pass  # nobody waits for its answer any more
            except grpc.RpcError as problem:
                if not self._over.is_set():
                    self.problems.append(f"{problem.code()}: {problem.details()}")
            except Exception as problem:
                self.problems.append(repr(problem))

        thread = threading.Thread(target=guarded, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _wait(self, seconds: float) -> bool:
        """Whether to go on after that time."""
        return not self._over.wait(seconds)

    def _asks(
        self, what: str, call: Callable[[int], A], told: Callable[[A], Mark] | None = None, **of: Any
    ) -> A:
        """Make a call, noted before and after; again until it is answered, if one comes again."""
        while True:
            try:
                return self.notary.asks(what, call, told, **of)
            except grpc.RpcError as problem:
                if not self._is_unanswered(problem):
                    raise

    def _is_unanswered(self, problem: grpc.RpcError) -> bool:
        """Whether it is worth asking again, after a while. Raises _Over if there is no more time for that."""
        if not self._comes_again or problem.code() not in GONE or Refusal.of(problem).reason in REFUSED:
            return False
        self.unanswered += 1
        if not self._wait(AGAIN_S):
            raise _Over
        return True

    # Crawls.

    def _begin(self, crawl: str, **more: Any) -> None:
        rest_s = REST_S.get(crawl, 0.05)
        settings = spec(
            rest_s,
            outcomes_kept=1_000_000,
            statistics_interval=seconds(1),
            retry=crawl_pb2.RetrySpec(delay=seconds(0.2), max_attempts=3),
        )
        settings.politeness.overload_delay.CopyFrom(seconds(0.3))
        with refused("CRAWL_EXISTS"):  # a run before this one may have made it, or a call without an answer
            self._wish("create", crawl, lambda by: self._admin("CreateCrawl", by, crawl=crawl, spec=settings))
        seeds = [f"http://{self._host(crawl, number)}/{self._run}" for number in range(HOSTS)]
        self._add_seeds(crawl, seeds)
        with refused("ILLEGAL_STATE"):
            self._wish("launch", crawl, lambda by: self._admin("LaunchCrawl", by, crawl=crawl))
        self.start(lambda: self._follow_events(crawl))
        self.start(lambda: self._follow_outcomes(crawl))

    def _host(self, crawl: str, number: int) -> str:
        return f"h{number}.{crawl}.example"

    def _admin(self, rpc: str, by: str = "somebody", **fields: Any) -> Any:
        request = getattr(admin_pb2, f"{rpc}Request")(**fields)
        return self._patiently(getattr(self._stubs.admin, rpc), request, by)

    def _patiently(self, method: Callable[..., Any], request: Any, by: str = "somebody") -> Any:
        """Make a call, again as long as the frontier has too much to do."""
        while True:
            try:
                metadata = (("toehold-operator", by),)
                return method(request, timeout=TIMEOUT_S, metadata=metadata)
            except grpc.RpcError as problem:
                if Refusal.of(problem).reason != "OVERLOADED" or not self._wait(0.1):
                    raise

    def _wish(
        self,
        what: str,
        crawl: str,
        call: Callable[[str], Any],
        action: str = "",
        told: Callable[[Any], Mark] | None = None,
        **of: Any,
    ) -> Any:
        """What an operator asks. Each time has a name of its own, by which the event is known."""
        of |= {"crawl": crawl, "wish": action or what, "again": False}
        while True:
            by = f"{self._run}-{what}-{crawl}-{time.monotonic_ns()}"
            try:
                return self.notary.asks(what, partial(_by, call, by), told, by=by, **of)
            except grpc.RpcError as problem:
                if not self._is_unanswered(problem):
                    raise
            of["again"] = True

    def _add_seeds(self, crawl: str, uris: list[str]) -> None:
        def call(by: str) -> Any:
            request = admin_pb2.AddSeedsRequest(crawl=crawl, uris=uris)
            return self._patiently(
                lambda request, **how: self._stubs.admin.AddSeeds(iter((request,)), **how), request, by
            )

        self._wish("seeds", crawl, call, "add-seeds", uris=uris)

    # Fetchers and feeders.

    def _node(self, name: str, crawl: str, anew_s: float = 0) -> None:
        """Fetch; `anew_s`: and begin anew so often, as a node that is killed and started again."""
        session, begun_s = f"{self._run}-{name}", time.monotonic()
        while not self._over.is_set():
            if anew_s:
                session = f"{self._run}-{name}-{int((time.monotonic() - begun_s) / anew_s)}"
            self._fetch(name, session, crawl)

    def _fetch(self, name: str, session: str, crawl: str) -> None:
        answer = self._asks(
            "next",
            lambda _: self._stubs.frontier.Next(
                next_request(crawl, 20, 0.2, name, session), timeout=TIMEOUT_S
            ),
            lambda answer: {
                "leases": [
                    (
                        lease.token.hex(),
                        lease.crawl,
                        lease.uri,
                        lease.purpose == frontier_pb2.PURPOSE_ROBOTS,
                        lease.expire_time.ToMilliseconds(),
                    )
                    for lease in answer.leases
                ]
            },
            node=name,
            session=session,
        )
        if not answer.leases:
            self._wait(0.02)
            return
        self._fetches(session, answer.leases)
        links: dict[str, list[str]] = defaultdict(list)
        for lease in answer.leases:
            if lease.purpose == frontier_pb2.PURPOSE_PAGE and lease.crawl != "slow":
                links[lease.crawl] += _links(lease.crawl, lease.uri, self.pages)
        for of, uris in links.items():
            self._offer(of, uris)
        self._report(name, session, list(answer.leases))

    def _fetches(self, session: str, leases: Iterable[frontier_pb2.Lease]) -> None:
        """A node has these leases now."""

    def _report(self, node: str, session: str, leases: list[frontier_pb2.Lease]) -> None:
        told = [(lease, _status(lease)) for lease in leases]
        reports = [report(lease, status) if status else released(lease) for lease, status in told]
        rests_ms = [int(REST_S.get(lease.crawl, 0.05) * 1000) for lease in leases]
        self._asks(
            "finished",
            lambda _: self._stubs.frontier.Finished(
                finished_request(*reports, node=node, session=session), timeout=TIMEOUT_S
            ),
            lambda answer: {
                "dispositions": [
                    (disposition_name(result.disposition), result.repeated) for result in answer.results
                ]
            },
            reports=[
                (lease.token.hex(), status, rest_ms)
                for (lease, status), rest_ms in zip(told, rests_ms, strict=True)
            ],
        )

    def _offer(self, crawl: str, uris: list[str]) -> None:
        def call(_: int) -> Any:
            return self._patiently(self._stubs.frontier.Schedule, schedule_request(crawl, *uris))

        def verdicts(answer: Any) -> Mark:
            return {
                "verdicts": [
                    crawl_pb2.Verdict.Name(each).removeprefix("VERDICT_") for each in answer.verdicts
                ]
            }

        with refused("CRAWL_FINISHED", *(() if crawl in REST_S else ("UNKNOWN_CRAWL", "CRAWL_TORN_DOWN"))):
            self._asks("schedule", call, verdicts, crawl=crawl, uris=uris)

    def _import(self) -> None:
        number = 0
        while self._wait(0.1):
            number += 1
            self._bring(
                "wide",
                [f"http://{self._host('wide', each)}/list/{self._run}/{number}" for each in range(HOSTS)],
            )

    def _bring(self, crawl: str, uris: list[str]) -> int:
        """Import a list, in two parts; the number of the job that takes it in."""
        entries = [admin_pb2.ImportEntry(candidate=each) for each in candidates(*uris)]
        middle = len(entries) // 2
        parts = [
            admin_pb2.ImportUrisRequest(crawl=crawl, entries=entries[:middle]),
            admin_pb2.ImportUrisRequest(entries=entries[middle:], complete=True),
        ]

        def call(by: str) -> Any:
            metadata = (("toehold-operator", by),)
            return self._stubs.admin.ImportUris(iter(parts), timeout=TIMEOUT_S, metadata=metadata)

        while True:  # one that is refused between its parts has begun: the next is another
            try:
                told = self._wish("import", crawl, call, told=job_number, uris=uris)
            except grpc.RpcError as problem:
                if Refusal.of(problem).reason != "OVERLOADED" or not self._wait(0.1):
                    raise
            else:
                number: int = told.job.job
                return number

    def _feed(self, name: str = "fed", every_s: float = 0.1) -> None:
        number = 0
        while self._wait(every_s):
            for crawl in ("wide", "slow", "steered"):
                uris = [
                    f"http://{self._host(crawl, each % HOSTS)}/{name}/{self._run}/{number + each}?{'x' * 40}"
                    for each in range(10)
                ]
                self._offer(crawl, uris)
            number += 10

    # Operators.

    def _steer(self) -> None:
        # It may have been paused before the cut, and to ask for what there is leaves no event.
        request = frontier_pb2.RequestStateRequest(crawl="steered", target_state=RUN)
        self._asks("run", lambda _: self._patiently(self._stubs.frontier.RequestState, request))
        while self._wait(0.5):
            self._request("steered", PAUSE, "pause")
            if not self._wait(0.3):
                return
            self._request("steered", RUN, "resume")

    def _request(self, crawl: str, target: crawl_pb2.TargetState.ValueType, action: str) -> None:
        def call(by: str) -> Any:
            request = frontier_pb2.RequestStateRequest(crawl=crawl, target_state=target)
            return self._patiently(self._stubs.frontier.RequestState, request, by)

        self._wish("request", crawl, call, action)

    def _change(self) -> None:
        number = 0
        while self._wait(0.06):
            number += 1
            prefix = f"http://(example,wide,h{number % 7},)/private/"
            if number % 3:
                self._override(prefix, number % 20 + 1)
            else:
                with refused("UNKNOWN_OVERRIDE"):
                    self._no_override(prefix)
            if number % 8 == 0:
                host = self._host("wide", number % HOSTS)
                self._add_seeds("wide", [f"http://{host}/seed/{self._run}/{number}"])

    def _override(self, prefix: str, attempts: int) -> None:
        settings = crawl_pb2.OverrideSettings(retry=crawl_pb2.RetrySpec(max_attempts=attempts))
        override = crawl_pb2.Override(surt_prefix=prefix, settings=settings)
        self._wish(
            "override",
            "wide",
            lambda by: self._admin("PutOverride", by, crawl="wide", override=override),
            "put-override",
            prefix=prefix,
            settings=settings.SerializeToString().hex(),
        )

    def _no_override(self, prefix: str) -> None:
        self._wish(
            "override",
            "wide",
            lambda by: self._admin("DeleteOverride", by, crawl="wide", surt_prefix=prefix),
            "delete-override",
            prefix=prefix,
            settings="",
        )

    def _copy(self) -> None:
        while self._wait(1.2):
            self._asks(
                "checkpoint",
                lambda _: self._admin("CreateCheckpoint", "somebody"),
                lambda answer: {"name": answer.checkpoint.checkpoint},
            )
            self.copies += 1

    def _come_and_go(self) -> None:
        """Crawls that are made, launched, ended and torn down."""
        number = 0
        while self._wait(0.3):
            number += 1
            crawl = f"short-{self._run}-{number}"
            self._begin(crawl)
            if not self._wait(1.0):
                return
            self._request(crawl, FINISH, "stop")
            self._tear_down(crawl)

    def _tear_down(self, crawl: str) -> None:
        self._wish("teardown", crawl, lambda by: self._admin("TearDownCrawl", by, crawl=crawl))

    # Followers.

    def _follow_events(self, crawl: str) -> None:
        def streams(cursor: str) -> Any:
            return self._stubs.frontier.StateEvents(
                frontier_pb2.StateEventsRequest(crawl=crawl, cursor=cursor or "start")
            )

        for answer in self._follow(crawl, streams):
            if answer.HasField("event"):
                event = answer.event
                self.notary.hears(
                    "event",
                    crawl=crawl,
                    by=self._run,
                    sequence=event.sequence,
                    at_ms=event.event_time.ToMilliseconds(),
                    kind=event.WhichOneof("kind"),
                    words=named(event),
                )

    def _follow_outcomes(self, crawl: str) -> None:
        def streams(cursor: str) -> Any:
            return self._stubs.admin.StreamOutcomes(
                admin_pb2.StreamOutcomesRequest(crawl=crawl, cursor=cursor or "start", follow=True)
            )

        for answer in self._follow(crawl, streams):
            if answer.outcomes:
                self.notary.hears(
                    "outcomes",
                    crawl=crawl,
                    by=self._run,
                    outcomes=[
                        (told.uri, told.outcome_time.ToMilliseconds(), disposition_name(told.disposition))
                        for told in answer.outcomes
                    ],
                )

    def _follow(self, crawl: str, streams: Callable[[str], Any]) -> Iterator[Any]:
        """What a stream tells, from the start; one that breaks is taken up again where it was."""
        cursor = ""
        while True:
            stream = streams(cursor)
            self._until_over(stream)
            try:
                for answer in stream:
                    yield answer
                    # The first message tells where the stream begins.
                    cursor = answer.cursor or cursor
                return
            except grpc.RpcError as problem:
                if crawl in self._deleted and Refusal.of(problem).reason == "UNKNOWN_CRAWL":
                    return
                if not self._is_unanswered(problem):
                    raise

    def _until_over(self, stream: Any) -> None:
        self._streams.add(stream)
        if self._over.is_set():
            stream.cancel()


class _Over(Exception):
    """The load ends; what was asked last has no answer."""


def _by(call: Callable[[str], A], by: str, number: int) -> A:
    return call(by)


@contextmanager
def refused(*reasons: str) -> Iterator[None]:
    """What may be refused for these reasons."""
    try:
        yield
    except grpc.RpcError as problem:
        if Refusal.of(problem).reason not in reasons:
            raise


def _links(crawl: str, uri: str, pages: int) -> list[str]:
    """What is found on a page: the same each time, and more than can be fetched."""
    mixed = zlib.crc32(uri.encode())
    return [
        f"http://h{(mixed >> shift) % HOSTS}.{crawl}.example/page/{(mixed >> shift) % pages}?{'y' * 60}"
        for shift in (0, 7, 13)
    ]


def job_number(answer: Any) -> Mark:
    """Which job was begun."""
    return {"job": answer.job.job}


def _status(lease: frontier_pb2.Lease) -> int:
    """How a fetch ends; 0: it is handed back unstarted."""
    if lease.purpose == frontier_pb2.PURPOSE_ROBOTS:
        return 404
    mixed = zlib.crc32(lease.uri.encode(), lease.attempt)
    return 0 if mixed % 17 == 0 else STATUSES[mixed % len(STATUSES)]
