"""Everybody who uses a frontier that may be killed at any moment: the load of power cuts, and more of it.

Four nodes that hold what they fetch for a while, and send heartbeats; four feeders; followers of events and
outcomes; operators who steer, change, import, delete by pattern, verify, make and remove checkpoints, and
make crawls that come and go. None of them knows when the frontier is away: who gets no answer asks again.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

from faults.power.ledger import Notary
from faults.power.load import HOSTS, Load, job_number, refused
from frontier_harness.calls import TIMEOUT_S, Stubs

from toehold.frontier.v1 import admin_pb2, frontier_pb2

NODES = ("one", "two", "three", "four")
LONGEST_FETCH_S = 0.2
HEARTBEAT_S = 0.5
CHECKPOINTS_KEPT = 3


class Crowd(Load):
    """The callers of one run, who come again."""

    pages = 60

    def __init__(self, stubs: Stubs, notary: Notary, run: str) -> None:
        super().__init__(stubs, notary, run, comes_again=True)
        self._chance = Random(run)
        self._held: dict[str, set[bytes]] = defaultdict(set)
        self._held_lock = threading.Lock()
        self._asleep: set[str] = set()

    def _bodies(self) -> Iterable[Callable[[], None]]:
        for name in NODES:
            yield partial(self._node, name, "wide" if name == "one" else "")
            yield partial(self._keep_alive, name)
        for number in range(4):
            yield partial(self._feed, f"fed{number}", 0.5)
        yield self._steer
        yield self._change
        yield self._copy
        yield self._come_and_go
        yield self._import
        yield self._work

    # Nodes.

    def _fetches(self, session: str, leases: Iterable[frontier_pb2.Lease]) -> None:
        with self._held_lock:
            self._held[session] |= {lease.token for lease in leases}
        self._wait(self._chance.uniform(0, LONGEST_FETCH_S))
        while session in self._asleep and self._wait(0.05):
            pass

    def sleep(self, node: str, seconds: float) -> None:
        """A node does nothing for so long, whatever it holds."""
        session = f"{self._run}-{node}"
        self._asleep.add(session)
        self._wait(seconds)
        self._asleep.discard(session)

    def _report(self, node: str, session: str, leases: list[frontier_pb2.Lease]) -> None:
        super()._report(node, session, leases)
        with self._held_lock:
            self._held[session] -= {lease.token for lease in leases}

    def _keep_alive(self, node: str) -> None:
        while self._wait(HEARTBEAT_S):
            session = f"{self._run}-{node}"
            if session not in self._asleep:
                self._heartbeat(node, session)

    def _heartbeat(self, node: str, session: str) -> None:
        with self._held_lock:
            tokens = sorted(self._held[session])
        request = frontier_pb2.HeartbeatRequest(node=node, session=session, tokens=tokens)
        self._asks(
            "heartbeat",
            lambda _: self._stubs.frontier.Heartbeat(request, timeout=TIMEOUT_S),
            lambda answer: {
                "ended": [token.hex() for token in answer.ended_tokens],
                "lease_ms": answer.lease_duration.ToMilliseconds(),
            },
            node=node,
            tokens=[token.hex() for token in tokens],
        )

    # Operators.

    def _copy(self) -> None:
        made: list[str] = []
        while self._wait(0.8):
            made.append(self.checkpoint())
            if len(made) > CHECKPOINTS_KEPT:
                self._drop(made.pop(0))

    def checkpoint(self) -> str:
        """Make a checkpoint; its name."""
        answer = self._asks(
            "checkpoint",
            lambda _: self._admin("CreateCheckpoint"),
            lambda answer: {"name": answer.checkpoint.checkpoint},
        )
        name: str = answer.checkpoint.checkpoint
        return name

    def _drop(self, name: str) -> None:
        with refused("UNKNOWN_CHECKPOINT"):  # a call without an answer may have done it
            self._asks("drop", lambda _: self._admin("DeleteCheckpoint", checkpoint=name), name=name)

    def _tear_down(self, crawl: str) -> None:
        super()._tear_down(crawl)
        while self._wait(0.05):
            status = self._asks("read", lambda _: self._admin("GetCrawl", crawl=crawl)).crawl.status
            if status.torn_down:
                break
        self._deleted.add(crawl)
        with refused("UNKNOWN_CRAWL"):
            self._asks("delete", lambda _: self._admin("DeleteCrawl", crawl=crawl), crawl=crawl)

    def _import(self) -> None:
        number = 0
        while self._wait(0.4):
            number += 1
            uris = [
                f"http://{self._host('wide', each % HOSTS)}/imported/{self._run}/{number}/{each}"
                for each in range(30)
            ]
            self._until_ended("wide", self._bring("wide", uris))

    def _work(self) -> None:
        """Jobs, one after the other."""
        number = 0
        while self._wait(0.2):
            number += 1
            crawl = ("wide", "slow")[number // 2 % 2]
            if number % 2:
                doomed = rf"http://h{number % HOSTS}\..*/fed[0-9]/.*"
                self._job(crawl, "delete-uris", delete_uris={"queue_pattern": ".*", "uri_pattern": doomed})
            else:
                self._job(crawl, "verify", verify={})

    def _job(self, crawl: str, kind: str, **asked: Any) -> None:
        told = self._wish(
            "job",
            crawl,
            lambda by: self._admin("StartJob", by, crawl=crawl, **asked),
            "start-job",
            job_number,
            kind=kind,
        )
        self._until_ended(crawl, told.job.job)

    def _until_ended(self, crawl: str, job: int) -> None:
        while self._wait(0.05):
            told = self._asks(
                "look",
                lambda _: self._admin("GetJob", crawl=crawl, job=job),
                lambda answer: {"state": _state(answer.job)},
                crawl=crawl,
                job=job,
            )
            if told.job.HasField("finish_time"):
                self.problems += [f"job {job} of {crawl}: {text}" for text in _wrong(told.job)]
                return


def _state(job: admin_pb2.Job) -> str:
    return admin_pb2.JobState.Name(job.state).removeprefix("JOB_STATE_")


def _wrong(job: admin_pb2.Job) -> list[str]:
    """What a verification has found."""
    return list(job.findings) if job.kind == "verify" else []
