"""What a frontier has acknowledged, as those who asked it wrote down. Nothing here knows the server's code.

A mark is added to the journal before each call, and after its answer; what the frontier tells by itself is
marked when it has come. So what was acknowledged before a cut is what the marks before the cut tell. A call
that was asked and not answered may have been done, or not.
"""

from __future__ import annotations

import copy
import itertools
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from faults.power.records import Marks

A = TypeVar("A")
Mark = dict[str, Any]

FINAL = ("SUCCEEDED", "FAILED", "DISREGARDED")
KNOWN = ("QUEUED", "ALREADY_SEEN", "ALREADY_QUEUED", "ROBOTS_FORBIDDEN")
"""Verdicts after which a crawl knows a URI."""


def now_ms() -> int:
    """By the wall clock, which the frontier's follows as long as nobody sets it."""
    return time.time_ns() // 1_000_000


class Notary:
    """Writes down what is asked and what is answered. Used by any threads."""

    def __init__(self, marks: Marks, first: int = 0) -> None:
        self._marks = marks
        self._numbers = itertools.count(first)
        self._lock = threading.Lock()
        self.acknowledged = 0

    def asks(
        self, what: str, call: Callable[[int], A], told: Callable[[A], Mark] | None = None, **of: Any
    ) -> A:
        """Make a call, which gets its number, and note it before and after."""
        with self._lock:
            number = next(self._numbers)
        self._marks.add({"ask": number, "what": what, "ms": now_ms(), **of})
        answer = call(number)
        self._marks.add({"ack": number, "ms": now_ms(), **(told(answer) if told else {})})
        self.acknowledged += 1
        return answer

    def hears(self, what: str, **told: Any) -> None:
        """Note what the frontier tells by itself."""
        self._marks.add({"told": what, "ms": now_ms(), **told})


@dataclass(slots=True)
class Lease:
    """A URI that a node has."""

    crawl: str
    uri: str
    node: str
    session: str
    robots: bool
    expire_ms: int


@dataclass(slots=True)
class Crawl:
    """What was acknowledged of a crawl."""

    known: set[str] = field(default_factory=set)  # URIs
    final: dict[str, tuple[str, int]] = field(default_factory=dict)  # disposition and fetch status
    tokens: dict[str, str] = field(default_factory=dict)  # of reports that counted: token → disposition
    robots: Counter[str] = field(default_factory=Counter)  # robots.txt that were reported
    seeds: list[str] = field(default_factory=list)
    overrides: dict[str, set[str]] = field(default_factory=dict)  # by prefix, what it may be; "": none
    wishes: dict[str, str] = field(default_factory=dict)  # operator → action
    events: dict[int, tuple[int, str]] = field(default_factory=dict)  # number → time and kind
    outcomes: dict[tuple[str, int], str] = field(default_factory=dict)  # told: URI, time → disposition
    torn_down: bool = False


@dataclass(slots=True)
class Ledger:
    """What was acknowledged up to some mark."""

    ms: int = 0
    crawls: dict[str, Crawl] = field(default_factory=lambda: defaultdict(Crawl))
    created: set[str] = field(default_factory=set)
    leases: dict[str, Lease] = field(default_factory=dict)  # by token; out for sure
    rests: dict[str, int] = field(default_factory=dict)  # host → when it may be asked again
    checkpoints: list[str] = field(default_factory=list)
    asked: dict[int, Mark] = field(default_factory=dict)  # calls without an answer
    sessions: dict[str, str] = field(default_factory=dict)  # by node
    changed: list[str] = field(default_factory=list)  # what was told once in one way and once in another
    reported: dict[str, Lease] = field(default_factory=dict)  # tokens whose report is under way

    def copy(self) -> Ledger:
        """One that goes its own way."""
        return copy.deepcopy(self)

    @property
    def items(self) -> int:
        """How many things were acknowledged that a judge looks for."""
        return (
            len(self.created)
            + len(self.leases)
            + len(self.rests)
            + len(self.checkpoints)
            + sum(
                len(crawl.known)
                + len(crawl.final)
                + crawl.robots.total()
                + len(crawl.seeds)
                + len(crawl.overrides)
                + len(crawl.wishes)
                + len(crawl.events)
                + len(crawl.outcomes)
                + crawl.torn_down
                for crawl in self.crawls.values()
            )
        )

    def note(self, mark: Mark) -> None:
        """Take in the next mark."""
        self.ms = max(self.ms, mark["ms"])
        if "ask" in mark:
            self.asked[mark["ask"]] = mark
            getattr(self, f"_asked_{mark['what']}", lambda _: None)(mark)
        elif "ack" in mark:
            asked = self.asked.pop(mark["ack"])
            if wish := asked.get("wish"):
                self.crawls[asked["crawl"]].wishes[asked["by"]] = wish
            getattr(self, f"_acked_{asked['what']}", lambda *_: None)(asked, mark)
        else:
            getattr(self, f"_told_{mark['told']}")(mark)

    # Of fetchers and feeders.

    def _acked_schedule(self, asked: Mark, mark: Mark) -> None:
        of = self.crawls[asked["crawl"]].known
        of |= {uri for uri, told in zip(asked["uris"], mark["verdicts"], strict=True) if told in KNOWN}

    def _asked_next(self, mark: Mark) -> None:
        node, session = mark["node"], mark["session"]
        if self.sessions.setdefault(node, session) != session:  # what the one before had may go back
            self.sessions[node] = session
            self.leases = {token: lease for token, lease in self.leases.items() if lease.node != node}

    def _acked_next(self, asked: Mark, mark: Mark) -> None:
        for token, crawl, uri, robots, expire_ms in mark["leases"]:
            self.leases[token] = Lease(crawl, uri, asked["node"], asked["session"], robots, expire_ms)
            if not robots:
                self.crawls[crawl].known.add(uri)

    def _asked_finished(self, mark: Mark) -> None:
        for token, status, rest_ms in mark["reports"]:
            lease = self.leases.pop(token)
            self.reported[token] = lease
            if status:  # whether or not the report has counted, the host is left alone until then
                host = host_of(lease.uri)
                self.rests[host] = max(self.rests.get(host, 0), mark["ms"] + rest_ms)

    def _acked_finished(self, asked: Mark, mark: Mark) -> None:
        for (token, status, _), disposition in zip(asked["reports"], mark["dispositions"], strict=True):
            lease = self.reported.pop(token)
            of = self.crawls[lease.crawl]
            if disposition not in FINAL:
                continue
            of.tokens[token] = disposition
            if lease.robots:
                of.robots[lease.uri] += 1
            else:
                of.final[lease.uri] = disposition, status

    # Of operators.

    def _acked_create(self, asked: Mark, _: Mark) -> None:
        self.created.add(asked["crawl"])

    def _acked_seeds(self, asked: Mark, _: Mark) -> None:
        self.crawls[asked["crawl"]].seeds += asked["uris"]

    def _asked_override(self, mark: Mark) -> None:
        of = self.crawls[mark["crawl"]].overrides
        of.setdefault(mark["prefix"], {""}).add(mark["settings"])

    def _acked_override(self, asked: Mark, _: Mark) -> None:
        self.crawls[asked["crawl"]].overrides[asked["prefix"]] = {asked["settings"]}

    def _acked_checkpoint(self, _: Mark, mark: Mark) -> None:
        self.checkpoints.append(mark["name"])

    # What is followed.

    def _told_event(self, mark: Mark) -> None:
        of = self.crawls[mark["crawl"]]
        event = mark["at_ms"], mark["kind"]
        if of.events.setdefault(mark["sequence"], event) != event:
            self.changed.append(f"{mark['crawl']}: event {mark['sequence']}")
        of.torn_down |= mark["kind"] == "torn_down"

    def _told_outcomes(self, mark: Mark) -> None:
        of = self.crawls[mark["crawl"]].outcomes
        of |= {(uri, at_ms): disposition for uri, at_ms, disposition in mark["outcomes"]}


def host_of(uri: str) -> str:
    """Whom a fetch of it asks."""
    return urlsplit(uri).hostname or ""
