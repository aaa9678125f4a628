"""What was acknowledged of one crawl, and of each of its URIs."""

from collections import Counter
from dataclasses import dataclass, field

from core_doubles.codec import settings_of, spec_of
from core_doubles.replay import Watcher
from core_doubles.web import SITES, Site
from simulation.entry import demand

from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.rows.records import EventRow, OutcomeRow, decode
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.model import Verdict

_SITES = {site.uri(""): site for site in SITES}
REFUSED = frozenset(
    (
        Verdict.OUT_OF_SCOPE,
        Verdict.TOO_MANY_HOPS,
        Verdict.ROBOTS_FORBIDDEN,
        Verdict.UNSUPPORTED_SCHEME,
        Verdict.MALFORMED,
        Verdict.TOO_LONG,
    )
)


PRECLUDED = -9998


def site_of(uri: str) -> Site:
    """The site of a URI of the simulated web."""
    return _SITES["/".join(uri.split("/", 3)[:3])]


@dataclass
class Book:
    """A crawl."""

    number: int
    name: str
    settings: CrawlSettings
    overrides: dict[str, bytes] = field(default_factory=dict)
    seeds: list[str] = field(default_factory=list)
    waiting: dict[str, bytes] = field(default_factory=dict)  # URI → its key in `pending`
    places: dict[bytes, str] = field(default_factory=dict)
    future: dict[str, bytes] = field(default_factory=dict)  # URI → its key in `index`
    future_places: dict[bytes, str] = field(default_factory=dict)
    leased: dict[str, bytes] = field(default_factory=dict)
    last_token: dict[str, bytes] = field(default_factory=dict)  # whose report counted last
    done: Counter[str] = field(default_factory=Counter)  # final dispositions
    known: set[str] = field(default_factory=set)
    fetched: set[str] = field(default_factory=set)  # with a page that has links
    forgotten: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    events: list[bytes] = field(default_factory=list)
    watcher: Watcher = field(default_factory=Watcher)
    outcomes: int = 0
    repeats: bool = False  # seeds or pages may come anew by its settings
    copied: bool = False  # from a checkpoint
    set_back: bool = False  # an older copy of the store was put in its place, before or after it was made
    left_behind: int = 0  # URIs, as its last event of that kind tells
    waiting_at_end: int | None = None
    _settings: dict[str, CrawlSettings] = field(default_factory=dict)

    @property
    def spec(self) -> bytes:
        """Its spec, as it is stored."""
        return spec_of(self.settings)

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.watcher.state is CrawlState.FINISHED

    def settings_changed(self) -> None:
        """Its settings or overrides are others now."""
        self._settings.clear()
        settings = self.settings
        self.repeats |= settings.revisit.policy != "none" or settings.reseed.max_rounds != 0

    def settings_for(self, site: Site) -> CrawlSettings:
        """The settings for the URIs of a site: longer prefixes count more."""
        if not self.overrides:
            return self.settings
        name = site.uri("")
        if name not in self._settings:
            prefixes = sorted((p for p in self.overrides if site.surt.startswith(p)), key=len)
            self._settings[name] = settings_of(self.spec, [self.overrides[prefix] for prefix in prefixes])
        return self._settings[name]

    # What is written of it.

    def event(self, number: int, value: bytes) -> None:
        """An event is stored."""
        demand(number == len(self.events) + 1, f"event {number} of {self.name} after {len(self.events)}")
        self.events.append(value)
        row = decode(EventRow, value)
        self.watcher.hear(row)
        if row.kind == "uris_left":
            self.left_behind = int(row.fields["retired_count"]) + int(row.fields["ineligible_count"])
        elif row.kind == "status_changed" and self.watcher.state is CrawlState.RUNNING:
            self.left_behind = 0

    def outcome(self, number: int, value: bytes) -> OutcomeRow | None:
        """A disposition is stored; what it says, unless it is of a robots.txt."""
        demand(number == self.outcomes + 1, f"outcome {number} of {self.name} after {self.outcomes}")
        self.outcomes = number
        row = decode(OutcomeRow, value)
        if row.path.endswith("P"):
            return None
        self.done[row.uri] += 1
        if row.disposition == "SUCCEEDED" and row.fetch_status == 200:
            self.fetched.add(row.uri)
        if row.fetch_status == -6000:
            self.deleted.add(row.uri)
        return row

    def waits(self, uri: str, key: bytes, anew: bool) -> None:
        """A URI is in a queue. (What moves has left its old place in the same write.)"""
        before = self.waiting.get(uri)
        if before == key:
            return
        demand(before is None, f"{uri} waits twice in {self.name}")
        demand(uri not in self.future, f"{uri} waits in a queue, and for its time, too")
        if uri in self.done and not (anew or self.repeats or self.copied):
            demand(uri in self.forgotten, f"{uri} is queued again after its final disposition")
        self.waiting[uri], self.places[key] = key, uri
        self.known.add(uri)

    def waits_for_its_time(self, uri: str, key: bytes) -> None:
        """A URI waits until it is due."""
        demand(uri not in self.waiting, f"{uri} waits in a queue, and for its time, too")
        self.future[uri], self.future_places[key] = key, uri
        self.known.add(uri)

    def leaves(self, key: bytes) -> str | None:
        """A URI is not in its place any more."""
        uri = self.places.pop(key, None)
        if uri is not None:
            del self.waiting[uri]
            return uri
        uri = self.future_places.pop(key, None)
        if uri is not None:
            del self.future[uri]
        return uri

    # What was answered.

    def verdict(self, uri: str, verdict: Verdict) -> None:
        """What became of a candidate."""
        if verdict is Verdict.QUEUED:
            there = uri in self.waiting or uri in self.future
            demand(there, f"{uri} was said to be queued in {self.name}, and is not")
        elif verdict in (Verdict.ALREADY_SEEN, Verdict.ALREADY_QUEUED):
            demand(uri in self.known, f"{uri} was said to be seen in {self.name}, and never was")
        elif verdict in REFUSED:
            self.refused.add(uri)
