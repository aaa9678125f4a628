"""What a frontier has acknowledged, as those who asked it wrote down. Nothing here knows the server's code.

A mark is added to the journal before each call, and after its answer; what the frontier tells by itself is
marked when it has come. So what was acknowledged before a cut is what the marks before the cut tell. A call
that was asked and not answered may have been done, or not.
"""

import copy
import itertools
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

A = TypeVar("A")
Mark = dict[str, Any]

FINAL = ("SUCCEEDED", "FAILED", "DISREGARDED")
KNOWN = ("QUEUED", "ALREADY_SEEN", "ALREADY_QUEUED", "ROBOTS_FORBIDDEN")
"""Verdicts after which a crawl knows a URI."""
ONCE = ("pause", "resume", "stop", "teardown")
"""Wishes that leave no event where an earlier one, whose answer was lost, has been granted."""
SLACK_MS = 5
"""Moments are cut to whole milliseconds, by the frontier and by those who ask it."""
CLOCKS_DIFFER_MS = 2000
"""At most, the frontier's and that of those who ask it, which nobody sets."""


class Marks(Protocol):
    """Where marks are kept, in one order."""

    def add(self, mark: Mark, /) -> None:
        """Append one. Used by any threads."""


def now_ms() -> int:
    """By the wall clock, which the frontier's follows as long as nobody sets it."""
    return time.time_ns() // 1_000_000


class Notary:
    """Writes down what is asked and what is answered. Used by any threads."""

    def __init__(self, marks: Marks, first: int = 0) -> None:
        self._marks = marks
        self._numbers = itertools.count(first)
        self._lock = threading.Condition()
        self._is_held = False
        self._under_way = 0
        self.acknowledged = 0
        self.on_answer: Callable[[], None] = lambda: None
        """Called when an answer has been noted, by whoever got it."""

    def asks(
        self, what: str, call: Callable[[int], A], told: Callable[[A], Mark] | None = None, **of: Any
    ) -> A:
        """Make a call, which gets its number, and note it before and after."""
        with self._calling() as number:
            self._marks.add({"ask": number, "what": what, "ms": now_ms(), **of})
            answer = call(number)
            self._marks.add({"ack": number, "ms": now_ms(), **(told(answer) if told else {})})
            self.acknowledged += 1
            self.on_answer()
        return answer

    @contextmanager
    def _calling(self) -> Iterator[int]:
        with self._lock:
            self._lock.wait_for(lambda: not self._is_held)
            self._under_way += 1
            number = next(self._numbers)
        try:
            yield number
        finally:
            with self._lock:
                self._under_way -= 1
                self._lock.notify_all()

    def hold(self) -> None:
        """Let no call begin any more, and wait until those under way have ended: then all is noted."""
        with self._lock:
            self._is_held = True
            self._lock.wait_for(lambda: not self._under_way)

    def release(self) -> None:
        """Let calls begin again."""
        with self._lock:
            self._is_held = False
            self._lock.notify_all()

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
    expire_ms: int  # not before


@dataclass(slots=True)
class Crawl:
    """What was acknowledged of a crawl."""

    known: set[str] = field(default_factory=set)  # URIs
    final: dict[str, tuple[str, int]] = field(default_factory=dict)  # disposition and fetch status
    tokens: dict[str, str] = field(default_factory=dict)  # of reports that counted: token → disposition
    robots: Counter[str] = field(default_factory=Counter)  # robots.txt that were reported
    seeds: list[str] = field(default_factory=list)
    offered: Counter[str] = field(default_factory=Counter)  # seeds, by how often somebody wanted to add them
    overrides: dict[str, set[str]] = field(default_factory=dict)  # by prefix, what it may be; "": none
    wishes: dict[str, str] = field(default_factory=dict)  # operator → action
    events: dict[int, tuple[int, str]] = field(default_factory=dict)  # number → time and kind
    outcomes: dict[tuple[str, int], str] = field(default_factory=dict)  # told: URI, time → disposition
    read: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # by follower, the outcomes it got
    heard: dict[str, int] = field(default_factory=dict)  # by follower, the number of the last event it got
    jobs: dict[int, str] = field(default_factory=dict)  # by number, the kind
    done: set[int] = field(default_factory=set)  # jobs that were told to be done
    imports: dict[int, list[str]] = field(default_factory=dict)  # by job, URIs
    torn_down: bool = False
    ends: bool = False  # somebody has asked for its end


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
    accepted: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # of them, in order
    wrong: list[str] = field(default_factory=list)  # what ought not to have been told
    reported: dict[str, Lease] = field(default_factory=dict)  # tokens whose report is under way
    again: set[str] = field(default_factory=set)  # tokens of reports that were handed in twice
    deleting: set[str] = field(default_factory=set)  # crawls that somebody wants to be gone
    deleted: set[str] = field(default_factory=set)  # crawls that are gone

    def copy(self) -> "Ledger":
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
            + sum(len(sessions) - 1 for sessions in self.accepted.values())
            + sum(
                len(crawl.known)
                + len(crawl.final)
                + crawl.robots.total()
                + len(crawl.seeds)
                + len(crawl.overrides)
                + len(crawl.wishes)
                + len(crawl.events)
                + len(crawl.outcomes)
                + len(crawl.jobs)
                + sum(map(len, crawl.imports.values()))
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
            wish = asked.get("wish")
            if wish and not (asked["again"] and wish in ONCE):
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
        accepted = self.accepted[asked["node"]]
        if accepted[-1:] != [asked["session"]]:
            accepted.append(asked["session"])
        busy = {host_of(lease.uri) for lease in self.leases.values() if lease.expire_ms > mark["ms"]}
        for token, crawl, uri, robots, expire_ms in mark["leases"]:
            if crawl in self.deleted:  # meanwhile
                continue
            host, of = host_of(uri), self.crawls[crawl]
            early_ms = self.rests.get(host, 0) - mark["ms"]
            if early_ms > SLACK_MS:
                self.wrong.append(f"{host} was asked {early_ms} ms too early")
            if host in busy:
                self.wrong.append(f"{host} was asked by two at once")
            if not robots and uri in of.final:
                self.wrong.append(f"{crawl}: {uri} was given out after its end")
            self.leases[token] = Lease(crawl, uri, asked["node"], asked["session"], robots, expire_ms)
            busy.add(host)
            if not robots:
                of.known.add(uri)

    def _acked_heartbeat(self, asked: Mark, mark: Mark) -> None:
        for token in mark["ended"]:
            lease = self.leases.pop(token, None)
            if lease and lease.expire_ms > mark["ms"] and not self.crawls[lease.crawl].ends:
                self.wrong.append(f"{lease.crawl}: the lease of {lease.uri} has ended before its time")
        for token in asked["tokens"]:
            if lease := self.leases.get(token):
                lease.expire_ms = max(lease.expire_ms, asked["ms"] + mark["lease_ms"])

    def _asked_finished(self, mark: Mark) -> None:
        for token, status, rest_ms in mark["reports"]:
            if token not in self.leases:
                self.again.add(token)  # it was handed in before, and perhaps counted then
                continue
            lease = self.reported[token] = self.leases.pop(token)
            if status and lease.expire_ms > mark["ms"]:
                # Whether or not the report has counted, the host is left alone until then.
                self._rests(lease, mark["ms"] + rest_ms)

    def _rests(self, lease: Lease, until_ms: int) -> None:
        host = host_of(lease.uri)
        self.rests[host] = max(self.rests.get(host, 0), until_ms)

    def _acked_finished(self, asked: Mark, mark: Mark) -> None:
        for (token, status, rest_ms), (disposition, repeated) in zip(
            asked["reports"], mark["dispositions"], strict=True
        ):
            lease = self.reported.pop(token, None)
            if lease is None:  # it had ended before
                continue
            if lease.crawl in self.deleted:  # meanwhile
                continue
            of = self.crawls[lease.crawl]
            if (
                disposition == "STALE"
                and lease.expire_ms > mark["ms"]
                and not of.ends
                and token not in self.again
            ):
                self.wrong.append(f"{lease.crawl}: the lease of {lease.uri} had ended before its time")
            if status and not repeated and disposition != "STALE":
                self._rests(lease, asked["ms"] + rest_ms)
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

    def _asked_seeds(self, mark: Mark) -> None:
        self.crawls[mark["crawl"]].offered.update(mark["uris"])

    def _acked_seeds(self, asked: Mark, _: Mark) -> None:
        self.crawls[asked["crawl"]].seeds += asked["uris"]

    def _asked_override(self, mark: Mark) -> None:
        of = self.crawls[mark["crawl"]].overrides
        of.setdefault(mark["prefix"], {""}).add(mark["settings"])

    def _acked_override(self, asked: Mark, _: Mark) -> None:
        self.crawls[asked["crawl"]].overrides[asked["prefix"]] = {asked["settings"]}

    def _acked_checkpoint(self, _: Mark, mark: Mark) -> None:
        self.checkpoints.append(mark["name"])

    def _asked_drop(self, mark: Mark) -> None:
        self.checkpoints = [name for name in self.checkpoints if name != mark["name"]]

    def _asked_teardown(self, mark: Mark) -> None:
        self.crawls[mark["crawl"]].ends = True

    def _asked_request(self, mark: Mark) -> None:
        self.crawls[mark["crawl"]].ends |= mark["wish"] == "stop"

    def _asked_delete(self, mark: Mark) -> None:
        self.deleting.add(mark["crawl"])
        self.created.discard(mark["crawl"])

    def _acked_delete(self, asked: Mark, _: Mark) -> None:
        crawl = asked["crawl"]
        self.deleted.add(crawl)
        del self.crawls[crawl]
        self.leases = {token: lease for token, lease in self.leases.items() if lease.crawl != crawl}

    def _acked_job(self, asked: Mark, mark: Mark) -> None:
        self.crawls[asked["crawl"]].jobs[mark["job"]] = asked["kind"]

    def _acked_import(self, asked: Mark, mark: Mark) -> None:
        of = self.crawls[asked["crawl"]]
        of.jobs[mark["job"]] = "import"
        of.imports[mark["job"]] = asked["uris"]

    def _acked_look(self, asked: Mark, mark: Mark) -> None:
        if mark["state"] == "DONE":
            self.crawls[asked["crawl"]].done.add(asked["job"])

    # What is followed.

    def _told_event(self, mark: Mark) -> None:
        if mark["crawl"] in self.deleted:
            return
        of = self.crawls[mark["crawl"]]
        event = mark["at_ms"], mark["kind"]
        if of.events.setdefault(mark["sequence"], event) != event:
            self.wrong.append(f"{mark['crawl']}: event {mark['sequence']} was told in two ways")
        before_ms, _ = of.events.get(mark["sequence"] - 1, (0, ""))
        if not before_ms <= mark["at_ms"] <= mark["ms"] + CLOCKS_DIFFER_MS:
            self.wrong.append(
                f"{mark['crawl']}: event {mark['sequence']} was at {mark['at_ms']}: at {mark['ms']}"
            )
        last = of.heard.get(mark["by"], 0)
        if mark["sequence"] != last + 1:
            self.wrong.append(f"{mark['crawl']}: event {mark['sequence']} was told after event {last}")
        of.heard[mark["by"]] = mark["sequence"]
        of.torn_down |= mark["kind"] == "torn_down"

    def _told_stopped(self, mark: Mark) -> None:
        """The frontier stood still for a while, which does not count: leases have as much longer to live."""
        for lease in (*self.leases.values(), *self.reported.values()):
            lease.expire_ms += mark["excused_ms"]

    def _told_outcomes(self, mark: Mark) -> None:
        if mark["crawl"] in self.deleted:
            return
        of = self.crawls[mark["crawl"]]
        of.outcomes |= {(uri, at_ms): disposition for uri, at_ms, disposition in mark["outcomes"]}
        of.read.setdefault(mark["by"], []).extend((uri, at_ms) for uri, at_ms, _ in mark["outcomes"])


def host_of(uri: str) -> str:
    """Whom a fetch of it asks."""
    return urlsplit(uri).hostname or ""
