"""A frontier, a node of many toes and a slow site: a crawl under load, and what there is to say about it."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import grpc
from acceptance.programs import Program, Programs
from faults.slow_site import SlowSite, Visit
from frontier_harness.calls import Stubs, released, spec
from frontier_harness.ports import KeptPort
from frontier_harness.waiting import PATIENCE_S, WHOLE_CRAWL_S

from toehold.frontier.v1 import crawl_pb2
from toehold_client import CrawlController, Event, FrontierClient

TOES = 32
LOOK_AHEAD = TOES // 4
"""How many leases a node of so many toes holds beside those that its toes are at."""

MIN_DELAY_S = 0.1
"""What a host rests between two requests here."""

ASK_EVERY_S = 0.005

RUNNING, EMPTY = crawl_pb2.CRAWL_STATE_RUNNING, crawl_pb2.CRAWL_STATE_EMPTY
PAUSING, PAUSED = crawl_pb2.CRAWL_STATE_PAUSING, crawl_pb2.CRAWL_STATE_PAUSED
STOPPING, FINISHED = crawl_pb2.CRAWL_STATE_STOPPING, crawl_pb2.CRAWL_STATE_FINISHED


class Load:
    """A frontier that serves, a site, and ways to start crawls and nodes."""

    def __init__(self, programs: Programs, folder: Path, site: SlowSite, *flags: str) -> None:
        self.site = site
        self.data = folder / "data"
        self._programs = programs
        self._folder = folder
        self._flags = flags
        self._port = KeptPort()
        self.address = self._port.address
        self.start_frontier()
        self.channel = grpc.insecure_channel(self.address, [("grpc.use_local_subchannel_pool", 1)])
        self.stubs = Stubs(self.channel)
        self.client = FrontierClient(self.address, patience_s=PATIENCE_S)

    def close(self) -> None:
        """Lets the connections go, and ends all programs: a site that ends under its visitors leaks some."""
        self.client.close()
        self.channel.close()
        self._programs.clear_away()

    def start_frontier(self) -> None:
        """Starts the frontier, for the first time, or again on the same port and data."""
        self.frontier = self._programs.frontier(self.data, *self._flags, listen=self.address).program

    def node(self, name: str = "node", toes: int = TOES) -> Program:
        """A node that runs."""
        options = ("--toes", str(toes), *self.site.resolve)
        return self._programs.node(name, self.address, self._folder / "warcs" / name, *options)

    def launch(self, crawl: str, **more: object) -> CrawlController:
        """A crawl of the whole site, launched; `more` are fields of its spec."""
        controller = CrawlController(self.client, crawl)
        settings = spec(MIN_DELAY_S, **more)
        if not settings.HasField("fetch"):  # pages that are held back must not fail by themselves
            settings.fetch.timeout.FromSeconds(int(WHOLE_CRAWL_S))
            settings.fetch.read_timeout.FromSeconds(int(WHOLE_CRAWL_S))
        controller.create(settings, self.site.seeds)
        controller.launch()
        return controller


class Asker:
    """Asks for leases again and again within a `with` block, as a node beside the one that fetches, and hands
    back all that it gets.
    """

    def __init__(self, stubs: Stubs, crawl: str) -> None:
        self._stubs = stubs
        self._crawl = crawl
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._asked: list[tuple[float, int]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def leases(self, since_s: float) -> list[int]:
        """How many leases each request has brought that was sent after a moment."""
        return [count for start, count in list(self._asked) if start > since_s]

    def _ask(self) -> None:
        while not self._ended.wait(ASK_EVERY_S):
            start = time.monotonic()
            leases = self._stubs.next(self._crawl, most=2, node="asker").leases
            self._asked.append((start, len(leases)))
            if leases:
                self._stubs.finish(*map(released, leases), node="asker")


@dataclass(frozen=True)
class Told:
    """A crawl's events in words, and when each happened by the frontier's clock."""

    words: list[str]
    times_s: list[float]

    def time_s(self, word: str) -> float:
        """When the last event of these words happened."""
        return max(when for told, when in zip(self.words, self.times_s, strict=True) if told == word)


def told(events: Iterable[Event], *left_out: str) -> Told:
    """Events in words: `PAUSED` for a state, `stop` for what an operator asked, `node_left silent`, or the
    kind alone. Kinds in `left_out` are left out.
    """
    kept = [event for event in events if event.WhichOneof("kind") not in left_out]
    times_s = [event.event_time.ToMilliseconds() / 1000 for event in kept]
    return Told([_word(event) for event in kept], times_s)


def _word(event: Event) -> str:
    kind = event.WhichOneof("kind") or ""
    match kind:
        case "status_changed":
            return crawl_pb2.CrawlState.Name(event.status_changed.state).removeprefix("CRAWL_STATE_")
        case "operator_acted":
            return event.operator_acted.action
        case "node_joined":
            return f"{kind} {event.node_joined.node}"
        case "node_left":
            return f"{kind} {event.node_left.node} {event.node_left.reason}"
        case "flights_cancelled":
            return f"{kind} {event.flights_cancelled.bound}"
        case "problem":
            return f"{kind} {event.problem.kind}"
        case _:
            return kind


def impolite(log: Iterable[Visit], min_delay_s: float = MIN_DELAY_S) -> list[str]:
    """The requests that came while their host was busy, or had not rested.

    What is broken off has ended for the frontier before the node knows, and the site: its rest is not judged.
    """
    found: list[str] = []
    last: dict[str, Visit] = {}
    for visit in log:
        before = last.get(visit.host)
        rested_s = 0.0 if before is None or before.cut else (before.end_s or visit.start_s) + min_delay_s
        if visit.start_s < rested_s:
            found.append(f"{visit.host}{visit.path} at {visit.start_s:.3f}, after {before}")
        last[visit.host] = visit
    return found
