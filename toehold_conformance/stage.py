"""The stage of a play: a crawl of its own on the kit's frontier and web, and runs of the fetcher."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, OverrideSettings, TargetState
from toehold.frontier.v1.frontier_pb2 import Candidate
from toehold_client.client import FrontierClient
from toehold_client.errors import ToeholdError
from toehold_client.rpc.contract import duration

from .answers import Pages, Request
from .evidence import Evidence, Fails
from .processes import Fetcher, FrontierProcess, interrupts_held_back
from .tap import Call, Tap
from .web import ALLOWED, Site, Web

QUIET_S = 12.0
"""A crawl that has not moved for so long will not end."""

_LOOK_S = 0.05
_MOMENT_S = 1.0
_CALL_S = 20.0


@dataclass(frozen=True, slots=True)
class Setting:
    """All that outlives a play: the programs, and how the fetcher is run."""

    command: Sequence[str]
    """The fetcher's, with placeholders."""
    scratch: Path
    """A directory that is deleted in the end."""
    logs: Path
    """A directory for what programs print."""
    frontier: FrontierProcess
    tap: Tap
    web: Web
    timeout_s: float
    """The longest that a play may take."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Hosts of the web that belong together."""

    name: str
    pages: Mapping[str, Pages]
    """By their own names, which are placeholders on all of them; one may have none."""
    settings: OverrideSettings | None = None
    """Settings of these hosts that differ from the crawl's."""
    all_are_seeds: bool = False
    """Whether the first page of each is a seed, and not of the first host alone."""

    def key(self, host: str) -> str:
        """The name of one of them on the whole web."""
        return f"{self.name}/{host}" if host else self.name


class Stage:
    """One play. A context: at its end its crawl has ended, and no fetcher runs."""

    def __init__(self, setting: Setting, name: str, spec: CrawlSpec, hosts: Iterable[Hosts]) -> None:
        self.web = setting.web
        self.tap = setting.tap
        self.crawl = name
        self.node = f"{name}-fetcher"
        self.facts: dict[str, float] = {}
        """The notes of the play for its cases."""
        self.trouble = ""
        self._setting = setting
        self._spec = spec
        self._hosts = list(hosts)
        self._sites: dict[str, Site] = {}
        self._seeds: list[str] = []
        self._fetchers: list[Fetcher] = []
        self._alone_since_s: float | None = None
        self._ends_s = time.monotonic() + setting.timeout_s
        self._first_call = len(setting.tap.calls)
        self._first_request = len(setting.web.requests)
        self._first_trespass = len(setting.web.trespasses)

    def __enter__(self) -> Self:
        spec = usual_spec()
        spec.MergeFrom(self._spec)
        with self.client() as client:
            client.create_crawl(self.crawl, spec)
            for hosts in self._hosts:
                for site in self._build(hosts):
                    if hosts.settings is not None:
                        client.put_override(self.crawl, f"{site.origin}/", hosts.settings)
            client.add_seeds(self.crawl, self._seeds)
            client.launch_crawl(self.crawl)
        return self

    def __exit__(self, *_: object) -> None:
        for fetcher in self._fetchers:
            fetcher.kill()
        self.tap.fault = lambda call: None
        with suppress(ToeholdError), self.client() as client:
            client.tear_down_crawl(self.crawl)
            client.tear_down_crawl(self.crawl)

    def _build(self, hosts: Hosts) -> list[Site]:
        """Puts hosts on the web."""
        sites = {key: self.web.add(hosts.key(key), pages) for key, pages in hosts.pages.items()}
        for number, site in enumerate(sites.values()):
            site.names.update({key: other.origin for key, other in sites.items() if key})
            self._sites[site.key] = site
            if number == 0 or hosts.all_are_seeds:
                self._seeds.append(f"{site.origin}/")
        return list(sites.values())

    def client(self) -> FrontierClient:
        """A client of the frontier itself."""
        return FrontierClient(self._setting.frontier.address, timeout_s=_CALL_S, patience_s=_CALL_S)

    # the fetcher

    def fetch(self) -> Fetcher:
        """Starts the fetcher."""
        number = len(self._fetchers) + 1
        folder = self._setting.scratch / f"{self.crawl}-{number}"
        folder.mkdir()
        values = {
            "frontier": self.tap.address,
            "crawl": self.crawl,
            "name": self.node,
            "node": self.node,
            "dir": str(folder),
        }
        command = []
        for word in self._setting.command:
            for name, value in values.items():
                word = word.replace(f"{{{name}}}", value)
            command.append(word)
        environment = {
            "TOEHOLD_FRONTIER": self.tap.address,
            "TOEHOLD_CRAWL": self.crawl,
            "TOEHOLD_NODE": self.node,
        }
        with interrupts_held_back():
            fetcher = Fetcher(command, self._setting.logs / f"{self.crawl}-{number}.log", environment)
            self._fetchers.append(fetcher)
        self._alone_since_s = None
        return fetcher

    # what is waited for

    def note(self, name: str) -> None:
        """Notes the present moment."""
        self.facts[name] = time.monotonic()

    def wait(self, what: str, is_so: Callable[[], bool], seconds: float = 30.0) -> None:
        """Waits until something is so. Raises Fails, as `what` did not happen."""
        deadline_s = min(time.monotonic() + seconds, self._ends_s)
        while not is_so():
            if time.monotonic() >= deadline_s:
                raise Fails(what)
            self._must_run()
            time.sleep(_LOOK_S)

    def wait_for_requests(self, count: int, path: str = "/slow") -> None:
        """Waits until so many fetches of a path have begun."""
        self.wait(
            f"The fetcher did not begin {count} fetches of {path} pages within 20 seconds.",
            lambda: sum(request.path == path for request in self.requests) >= count,
            20,
        )

    def wait_for_state(self, *states: CrawlState.ValueType, seconds: float | None = None) -> None:
        """Waits until the crawl has one of these states. Without `seconds` as long as the crawl moves."""
        names = " or ".join(CrawlState.Name(state).removeprefix("CRAWL_STATE_") for state in states)
        began_s = moved_s = time.monotonic()
        moves = -1
        with self.client() as client:
            while client.get_crawl(self.crawl).status.state not in states:
                now_s = time.monotonic()
                if (present := self._moves()) != moves:
                    moves, moved_s = present, now_s
                limit_s = seconds if seconds is not None else self._setting.timeout_s
                if now_s > min(began_s + limit_s, self._ends_s) or (
                    seconds is None and now_s > moved_s + QUIET_S
                ):
                    raise Fails(f"The crawl did not get to {names} in time: {self._left(client)}.")
                self._must_run()
                time.sleep(_LOOK_S * 2)
        self._settle()

    def _settle(self) -> None:
        """Waits for the answers that the frontier gives at this moment: its state shows before them."""
        deadline_s = time.monotonic() + _MOMENT_S
        while any(call.is_under_way and call.method != "Next" for call in self.calls):
            if time.monotonic() >= deadline_s:
                return
            time.sleep(_LOOK_S)

    def _must_run(self) -> None:
        """Raises Fails if no fetcher is left."""
        ended = [fetcher for fetcher in self._fetchers if fetcher.exit_code is not None]
        if ended and len(ended) == len(self._fetchers) and self._wait_is_over():
            raise Fails(f"The fetcher {ended[-1].how_it_ended()}.")

    def _wait_is_over(self) -> bool:
        """Whether no fetcher has run for a moment, in which its last reports can have had their effect."""
        now_s = time.monotonic()
        if self._alone_since_s is None:
            self._alone_since_s = now_s
        return now_s > self._alone_since_s + _MOMENT_S

    def _moves(self) -> int:
        """Grows with each byte that the fetcher reads, and with each Schedule and Finished."""
        busy = sum(1 for call in self.calls if call.method in ("Schedule", "Finished"))
        return busy + sum(1 + request.over + request.sent_bytes for request in self.requests)

    def _left(self, client: FrontierClient) -> str:
        statistics = client.get_statistics(self.crawl).statistics
        return f"{statistics.queued_count} URIs wait, {statistics.leased_count} are out at the fetcher"

    # the crawl

    def ask(self, target: TargetState.ValueType) -> None:
        """Asks the crawl for a state."""
        with self.client() as client:
            client.request_state(self.crawl, target)

    def finish(self) -> None:
        """Waits until the crawl has ended by itself."""
        self.wait_for_state(CrawlState.CRAWL_STATE_FINISHED)

    def schedule(self, *candidates: Candidate) -> None:
        """Offers URIs, as a feeder."""
        with self.client() as client:
            client.schedule(self.crawl, candidates)

    def uri(self, host: str, path: str = "/") -> str:
        return self._sites[host].origin + path

    def has(self, host: str) -> bool:
        """Whether a host is there: it may belong to a case that is left out."""
        return host in self._sites

    @property
    def calls(self) -> list[Call]:
        """The fetcher's calls in this play."""
        return self.tap.calls[self._first_call :]

    @property
    def requests(self) -> list[Request]:
        """The requests of this play."""
        return self.web.requests[self._first_request :]

    def kill_frontier(self) -> None:
        """Ends the frontier at once; nobody listens at its address until `start_frontier`."""
        self._setting.frontier.kill()
        self.tap.close()

    def start_frontier(self) -> None:
        """Starts it again."""
        self._setting.frontier.start()
        self.tap.open(self._setting.frontier.address)

    def evidence(self, hosts: str) -> Evidence:
        """The evidence so far, for the cases of these hosts."""
        return Evidence(
            hosts,
            {key: site.origin for key, site in self._sites.items()},
            self.requests,
            self.calls,
            self.web.trespasses[self._first_trespass :],
            self.facts,
            self.trouble,
        )


def usual_spec() -> CrawlSpec:
    """The settings of the kit's crawls: one network is allowed, everything in it is in scope, and hosts rest
    for a moment only.
    """
    spec = CrawlSpec(contact="https://contact.invalid/", allowed_addresses=[ALLOWED])
    spec.scope.accept_patterns.append(".*")
    spec.politeness.delay_factor = 0
    for name, seconds in (("min_delay", 0.05), ("max_delay", 0.05), ("overload_delay", 0.05)):
        getattr(spec.politeness, name).CopyFrom(duration(seconds))
    spec.politeness.max_overload_delay.CopyFrom(duration(0.2))
    spec.robots.max_attempts = 3
    spec.robots.retry_delay.CopyFrom(duration(0.2))
    spec.retry.max_attempts = 3
    spec.retry.delay.CopyFrom(duration(0.2))
    spec.fetch.timeout.CopyFrom(duration(30))
    spec.fetch.connect_timeout.CopyFrom(duration(5))
    spec.fetch.read_timeout.CopyFrom(duration(20))
    spec.fetch.product_token = "conformance"
    return spec
