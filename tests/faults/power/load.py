"""Everybody who uses a frontier, at once, for some seconds: nodes, a feeder, operators, followers.

They write down what they ask and what they are told (`ledger`).
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from faults.power.ledger import Mark, Notary
from frontier_harness.calls import (
    FINISH,
    PAUSE,
    RUN,
    TIMEOUT_S,
    Refusal,
    Stubs,
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
STATUSES = (200, 200, 200, 200, 200, 200, 404, 404, 503, -2)


class Load:
    """The callers of one run."""

    def __init__(self, stubs: Stubs, notary: Notary, run: str) -> None:
        """`run` makes names that no other run has."""
        self._stubs = stubs
        self.notary = notary
        self._run = run
        self._over = threading.Event()
        self.problems: list[str] = []
        self._threads: list[threading.Thread] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Everybody is at work until the block ends."""
        for name in REST_S:
            self._begin(name)
        for body in (
            lambda: self._node("one", "wide"),
            lambda: self._node("two", ""),
            lambda: self._node("three", ""),
            self._feed,
            self._steer,
            self._change,
            self._copy,
            self._come_and_go,
        ):
            self._start(body)
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join(TIMEOUT_S)

    def _start(self, body: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                body()
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

    # Crawls.

    def _begin(self, crawl: str, **more: Any) -> None:
        rest_s = REST_S.get(crawl, 0.05)
        settings = spec(
            rest_s,
            outcomes_kept=1_000_000,
            figures_interval=seconds(1),
            retry=crawl_pb2.RetrySpec(delay=seconds(0.2), max_attempts=3),
        )
        settings.politeness.overload_delay.CopyFrom(seconds(0.3))
        with _refused("CRAWL_EXISTS"):  # a run before this one may have made it
            self._wish("create", crawl, lambda by: self._admin("CreateCrawl", by, crawl=crawl, spec=settings))
        seeds = [f"http://{self._host(crawl, number)}/{self._run}" for number in range(HOSTS)]
        self._add_seeds(crawl, seeds)
        with _refused("ILLEGAL_STATE"):
            self._wish("launch", crawl, lambda by: self._admin("LaunchCrawl", by, crawl=crawl))
        self._start(lambda: self._follow_events(crawl))
        self._start(lambda: self._follow_outcomes(crawl))

    def _host(self, crawl: str, number: int) -> str:
        return f"h{number}.{crawl}.example"

    def _admin(self, rpc: str, by: str, **fields: Any) -> Any:
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
        """What an operator asks. Each has a name of its own, by which the event is known."""
        by = f"{self._run}-{what}-{crawl}-{time.monotonic_ns()}"
        return self.notary.asks(what, lambda _: call(by), told, crawl=crawl, by=by, wish=action or what, **of)

    def _add_seeds(self, crawl: str, uris: list[str]) -> None:
        def call(by: str) -> Any:
            request = admin_pb2.AddSeedsRequest(crawl=crawl, uris=uris)
            return self._patiently(
                lambda request, **how: self._stubs.admin.AddSeeds(iter((request,)), **how), request, by
            )

        self._wish("seeds", crawl, call, "add-seeds", uris=uris)

    # Fetchers and feeders.

    def _node(self, name: str, crawl: str) -> None:
        session = f"{self._run}-{name}"
        while not self._over.is_set():
            answer = self.notary.asks(
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
                continue
            links: dict[str, list[str]] = defaultdict(list)
            for lease in answer.leases:
                if lease.purpose == frontier_pb2.PURPOSE_PAGE and lease.crawl != "slow":
                    links[lease.crawl] += _links(lease.crawl, lease.uri)
            for of, uris in links.items():
                self._offer(of, uris)
            self._report(name, session, list(answer.leases))

    def _report(self, node: str, session: str, leases: list[frontier_pb2.Lease]) -> None:
        told = [(lease, _status(lease)) for lease in leases]
        reports = [report(lease, status) if status else released(lease) for lease, status in told]
        rests_ms = [int(REST_S.get(lease.crawl, 0.05) * 1000) for lease in leases]
        self.notary.asks(
            "finished",
            lambda _: self._stubs.frontier.Finished(
                finished_request(*reports, node=node, session=session), timeout=TIMEOUT_S
            ),
            lambda answer: {
                "dispositions": [disposition_name(result.disposition) for result in answer.results]
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

        with _refused("CRAWL_FINISHED"):
            self.notary.asks("schedule", call, verdicts, crawl=crawl, uris=uris)

    def _feed(self) -> None:
        number = 0
        while self._wait(0.1):
            for crawl in ("wide", "slow", "steered"):
                uris = [
                    f"http://{self._host(crawl, each % HOSTS)}/fed/{self._run}/{number + each}?{'x' * 40}"
                    for each in range(10)
                ]
                self._offer(crawl, uris)
            number += 10

    # Operators.

    def _steer(self) -> None:
        # It may have been paused before the cut, and to ask for what there is leaves no event.
        request = frontier_pb2.RequestStateRequest(crawl="steered", target_state=RUN)
        self._patiently(self._stubs.frontier.RequestState, request)
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
                with _refused("UNKNOWN_OVERRIDE"):
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
            self.notary.asks(
                "checkpoint",
                lambda _: self._admin("CreateCheckpoint", "somebody"),
                lambda answer: {"name": answer.checkpoint.checkpoint},
            )

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
        request = frontier_pb2.StateEventsRequest(crawl=crawl, cursor="start")
        stream = self._stubs.frontier.StateEvents(request)
        self._until_over(stream)
        for answer in stream:
            if answer.HasField("event"):
                event = answer.event
                self.notary.hears(
                    "event",
                    crawl=crawl,
                    sequence=event.sequence,
                    at_ms=event.event_time.ToMilliseconds(),
                    kind=event.WhichOneof("kind"),
                    words=named(event),
                )

    def _follow_outcomes(self, crawl: str) -> None:
        request = admin_pb2.StreamOutcomesRequest(crawl=crawl, cursor="start", follow=True)
        stream = self._stubs.admin.StreamOutcomes(request)
        self._until_over(stream)
        for answer in stream:
            if answer.outcomes:
                self.notary.hears(
                    "outcomes",
                    crawl=crawl,
                    outcomes=[
                        (told.uri, told.outcome_time.ToMilliseconds(), disposition_name(told.disposition))
                        for told in answer.outcomes
                    ],
                )

    def _until_over(self, stream: Any) -> None:
        def cancel() -> None:
            self._over.wait()
            stream.cancel()

        threading.Thread(target=cancel, daemon=True).start()


@contextmanager
def _refused(reason: str) -> Iterator[None]:
    """What may be refused for this reason."""
    try:
        yield
    except grpc.RpcError as problem:
        if Refusal.of(problem).reason != reason:
            raise


def _links(crawl: str, uri: str) -> list[str]:
    """What is found on a page: the same each time, and more than can be fetched."""
    mixed = zlib.crc32(uri.encode())
    return [
        f"http://h{(mixed >> shift) % HOSTS}.{crawl}.example/page/{(mixed >> shift) % 5000}?{'y' * 60}"
        for shift in (0, 7, 13)
    ]


def _status(lease: frontier_pb2.Lease) -> int:
    """How a fetch ends; 0: it is handed back unstarted."""
    if lease.purpose == frontier_pb2.PURPOSE_ROBOTS:
        return 404
    mixed = zlib.crc32(lease.uri.encode(), lease.attempt)
    return 0 if mixed % 17 == 0 else STATUSES[mixed % len(STATUSES)]
