"""One crawl in memory: the rows that memory holds, and its active queues."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..machines.lifecycle import CrawlState, ExitStatus
from ..machines.target import Reached, Target
from ..rows.keys import STANDS_BACK, FetchStatisticsOf, statistics_key
from ..rows.records import CountersRow, FetchStatisticsRow, OutcomeRow, SpecRow, StateRow
from ..spec.settings import CrawlSettings, GroupSettings
from ..uri.assign import Places, hash64
from ..uri.canonical import CanonicalUri
from ..uri.scope import ScopeRules
from .askers import Askers
from .fetch_policy import FetchPolicies
from .meaning import groups_of, scope_rules
from .model import NO_VERSIONS, Candidate, Directive, Versions
from .order import digest_of
from .origin import Origins
from .overrides import Overrides
from .pace import RecentPace
from .queue import QueueState, WorkQueue
from .queue_set import QueueSet

MAX_KNOWN_TEXTS = 50_000
MAX_STATISTICS = 20_000
MAX_UNLOGGED = 2_000  # outcomes that memory keeps for the crawl log
INTERRUPT_WAIT_MS = 15_000  # nodes hear of it and report the fetches that they broke off

_DEFAULTS = CrawlSettings()
_DEFAULT_SCOPE = ScopeRules(_DEFAULTS.scope)

SettingsOf = Callable[[bytes, Sequence[bytes]], CrawlSettings]
"""Reads a stored spec, with stored overrides on top, in order."""


class Crawl:
    """A crawl: its rows that memory holds, and its active queues."""

    def __init__(
        self,
        number: int,
        spec: SpecRow,
        settings_of: SettingsOf,
        places: Places,
        version: str,
        state: StateRow,
        counters: CountersRow,
    ) -> None:
        self.number = number
        self.places = places
        self.spec = spec
        self.overrides = Overrides(lambda parts: settings_of(self.spec.spec, parts))
        self.state_row = state
        self.counters = counters
        self.jobs: list[int] = []
        self.restoring = ""  # the checkpoint that its rows are being copied from
        self.receiving: set[int] = set()  # jobs that still receive their rows
        self.queues = QueueSet(number)
        self.leases_out = 0
        self.pages_out = 0  # the same without fetches of robots.txt
        self.known_out = 0  # those of them that a recrawl fetches again
        self._digest = b""
        self.intakes = 0  # requests that have offered URIs, since the start
        self.known_texts: set[str] = set()  # URIs that were seen, as offered
        self.scope_cache: dict[str, bool] = {}  # authority → in scope
        self.versions = NO_VERSIONS  # until somebody asks (Shard.versions_of)
        # Examples of refused URIs: rule → URI → number, the latest last.
        self.refused: dict[str, OrderedDict[str, int]] = {}
        self.job_head = b""  # lower bound of its jobs' keys
        self.future_head = b""  # lower bound of the future URIs' keys
        self.first_future_ms: int | None = 0
        self.first_retry = (0, "")  # when the first future URI is due, and why, if it rests before a retry
        # Statistics of hosts and sources, as stored.
        self.statistics: dict[tuple[FetchStatisticsOf, str], FetchStatisticsRow] = {}
        # The latest outcomes that the crawl log lacks, without gaps: its writer need not read the store.
        self.unlogged: deque[tuple[int, OutcomeRow]] = deque(maxlen=MAX_UNLOGGED)
        self.pace = RecentPace()
        self.excused_ms = 0  # how long the frontier was away, so that nobody could report, since this state
        self.asked = Askers()  # for leases of this crawl
        self.asked_of_any = Askers()  # for leases of any crawl; all crawls share this
        self.passed = 0.0  # leases given to nodes that work for all crawls, divided by the weight
        self._settings_of = settings_of
        self.settings = _DEFAULTS  # until set_spec reads the spec
        self.scope_rules = _DEFAULT_SCOPE
        self.group_of_host: Mapping[str, str] = {}
        self.groups: dict[str, GroupSettings] = {}
        self.policies = FetchPolicies(version)
        self.set_spec(spec)

    def __repr__(self) -> str:
        counters = self.counters
        return (
            f"<crawl {self.number} {self.name}: {self.state.value}, {counters.queued} URIs in "
            f"{len(self.queues.active)} active and other queues, {counters.future} future ones, "
            f"{self.leases_out} leases out>"
        )

    def set_spec(self, spec: SpecRow) -> None:
        """Replace the spec."""
        before = self.settings
        self._digest = b""
        self.spec, self.settings = spec, self._settings_of(spec.spec, ())
        self.overrides.forget_made()
        # Reading thousands of patterns or hosts takes a while.
        if self.settings.scope != before.scope:
            self.scope_rules = scope_rules(self.settings.scope)
        if self.settings.groups != before.groups:
            self.group_of_host = groups_of(self.settings)  # identity rules, which this depends on, are fixed
            self.groups = {group.name: group for group in self.settings.groups}
        self.origins = Origins(
            self.number, self.settings, self.group_of_host, self.overrides, self.scope_rules, self.places
        )
        self.note_forgotten()
        self.scope_cache.clear()
        self.note_scope()

    @property
    def name(self) -> str:
        return self.spec.name

    def statistics_key(self, kind: FetchStatisticsOf, name: str) -> bytes:
        """The key of the statistics of a host, at its own place, or of a source."""
        partition = self.places.of_host(name) if kind is FetchStatisticsOf.HOST else hash64(name)
        return statistics_key(self.number, kind, partition, name)

    @property
    def digest(self) -> bytes:
        """The digest of its spec and overrides."""
        if not self._digest:
            self._digest = digest_of(self.spec.spec, self.overrides.items())
        return self._digest

    @property
    def state(self) -> CrawlState:
        return CrawlState(self.state_row.state)

    @property
    def exit_status(self) -> ExitStatus:
        """How it ended, or its present course."""
        return ExitStatus(self.state_row.exit_status)

    @property
    def target(self) -> Target:
        """The target that the frontier machine is asked to reach."""
        return Target(self.state_row.target)

    @property
    def running(self) -> bool:
        """Whether leases may be given."""
        return self.state_row.state == CrawlState.RUNNING.value

    @property
    def held(self) -> bool:
        """Whether nothing of it is written until an operator asks for another state."""
        row = self.state_row
        return row.reached == Reached.HOLD.value and row.answered == row.request

    @property
    def led(self) -> bool:
        """Whether it is a part of a larger crawl, whose coordinator decides on its life (`operators.orders`).

        Then it neither ends by itself nor announces seeds, and has a share of the whole crawl's limits.
        """
        return self.state_row.order > 0

    @property
    def goes_on_after(self) -> str:
        """The trouble whose end lets it go on; empty if it is paused for another reason, or stays paused."""
        trouble = self.state_row.trouble
        goes_on = self.settings.resume_after_trouble or self.led
        if not trouble or self.target is not Target.PAUSE or not goes_on:
            return ""
        return trouble if self.state in (CrawlState.PAUSING, CrawlState.PAUSED) else ""

    @property
    def in_flight(self) -> bool:
        """Whether something is under way that the target must wait for.

        Leases are; before a hold, so are outcomes that are not in the crawl log yet and imports that are
        arriving.
        """
        if self.target is Target.HOLD and (self.receiving or not self.logged):
            return True
        return bool(self.leases_out)

    @property
    def logged(self) -> bool:
        """Whether its crawl log durably has all outcomes."""
        return self.counters.logged_outcome + 1 >= self.counters.next_outcome

    @property
    def unloaded(self) -> bool:
        """Whether memory has nothing of it to finish: no jobs, no queues, no outcomes that its log lacks."""
        return not (self.jobs or self.receiving or self.queues.active) and self.logged

    @property
    def watched(self) -> bool:
        """Whether somebody follows its changes."""
        return self.led

    @property
    def has_uris(self) -> bool:
        """Whether its URIs are in this store, with what has become of them."""
        return True

    @property
    def works(self) -> bool:
        """Whether it has jobs to do or queues to unload, unless it is held or about to be."""
        if self.target is Target.HOLD:
            return False
        return bool(self.jobs) or (bool(self.queues.active) and self.state is CrawlState.FINISHED)

    @property
    def offers(self) -> bool:
        """Whether it has a queue whose turn may come: ready, in an open line, or inactive."""
        return (
            bool(self.queues.ready or self.queues.lines or self.queues.ready.held_back)
            or self.waiting_rank() is not None
        )

    @property
    def kind(self) -> str:
        """The kind of fetchers that may fetch for it; empty for any."""
        return self.settings.fetcher

    @property
    def asked_ms(self) -> int:
        """When a fetcher of its kind last asked for leases of this crawl or, since its launch, of any crawl;
        0 if never."""
        of_any_ms, launch_ms = self.asked_of_any.last_ms(self.kind), self.state_row.launch_ms
        of_this_ms = self.asked.last_ms(self.kind)
        return max(of_this_ms, of_any_ms if launch_ms and of_any_ms >= launch_ms else 0)

    def askers(self, earliest_ms: int) -> list[str]:
        """The nodes of its kind that have asked for its leases since a time or, since its launch, for any."""
        launch_ms = self.state_row.launch_ms
        of_any = self.asked_of_any.since(max(earliest_ms, launch_ms), self.kind) if launch_ms else []
        return self.asked.since(earliest_ms, self.kind) + of_any

    @property
    def full(self) -> bool:
        """Whether `max_toes` leases are out, or its share of them."""
        if not self.settings.max_toes:
            return False
        most = self.state_row.toes_lent if self.led else self.settings.max_toes
        return self.leases_out >= most

    @property
    def documents_left(self) -> int | None:
        """How many documents the limit leaves (or its share of the limit, if it is led), those being fetched
        included; None without a limit."""
        if not self.settings.limits.max_documents:
            return None
        most = self.state_row.documents_lent if self.led else self.settings.limits.max_documents
        return max(most - self.documents, 0)

    @property
    def documents(self) -> int:
        """How many documents count towards the limit: those since the launch, or since the last recrawl."""
        return self.counters.succeeded - self.counters.succeeded_before

    @property
    def limited_bytes(self) -> int:
        """How many bytes count towards the limit, likewise."""
        return self.counters.bytes - self.counters.bytes_before

    def limited_ms(self, now_ms: int) -> int:
        """How much of its running time counts towards the limit, likewise."""
        return self.elapsed_ms(now_ms) - self.state_row.elapsed_before_ms

    def revisits(self, candidate: Candidate) -> bool:
        """Whether a candidate is a known page that the present recrawl fetches again."""
        before_ms = candidate.refetch_before_ms or 0
        return candidate.directive == Directive.HIGH and 0 < before_ms <= self.state_row.recrawl_ms

    @property
    def room_for_new(self) -> bool:
        """Whether the document limit leaves room for a page that the present recrawl does not know, beside
        the known ones that it still fetches.
        """
        kept = self.counters.kept_room
        if not kept:
            return True
        left = self.documents_left
        return left is None or self.pages_out - self.known_out + kept < left

    @property
    def documents_full(self) -> bool:
        """Whether successes and leases out fill the document limit."""
        left = self.documents_left
        return left is not None and self.pages_out >= left

    @property
    def limited(self) -> bool:
        """Whether the leases out fill a limit of the crawl."""
        return self.full or self.documents_full

    @property
    def bound(self) -> tuple[int, str] | None:
        """When its pause or end stops waiting for leases, and the name of that bound."""
        row, settings = self.state_row, self.settings
        if not self.leases_out:
            return None
        if self.state is CrawlState.PAUSING:
            return row.reach_ms + settings.pause_timeout_ms + self.excused_ms, "pause_timeout"
        if self.state is not CrawlState.STOPPING:
            return None
        bounds = [(row.reach_ms + settings.stop_timeout_ms, "stop_timeout")]
        if row.interrupt_ms:
            bounds.append((row.interrupt_ms + INTERRUPT_WAIT_MS, "interrupt"))
        bound_ms, name = min(bounds)
        return bound_ms + self.excused_ms, name

    @property
    def left(self) -> bool:
        """Whether anything is left to do: URIs that can be leased at some time, leases or jobs.

        URIs in retired queues, and in queues at the precedence floor, do not count.
        """
        counters = self.counters
        waits = counters.queued > counters.ineligible_uris or counters.future
        return bool(waits or self.leases_out or self.jobs or self.receiving)

    def elapsed_ms(self, now_ms: int) -> int:
        """How long it has run, without pauses."""
        row = self.state_row
        return row.elapsed_ms + (now_ms - row.running_since_ms if row.running_since_ms else 0)

    def leave_out(self, from_ms: int, until_ms: int) -> None:
        """Do not count a time, the latest of those that have passed, in which no server ran."""
        row = self.state_row
        if row.running_since_ms:
            row.elapsed_ms += max(from_ms - row.running_since_ms, 0)
            row.running_since_ms = max(until_ms, row.running_since_ms)

    # URIs.

    def settings_for(self, uri: CanonicalUri) -> CrawlSettings:
        """The settings of a URI: the crawl's, with the overrides of its SURT prefixes."""
        return self.origins.settings_for(uri)

    def put_override(self, prefix: str, override: bytes) -> None:
        """Add or replace an override."""
        self.overrides.put(prefix, override)
        self._digest = b""
        self.origins.forget()

    def discard_override(self, prefix: str) -> None:
        """Remove an override."""
        self.overrides.discard(prefix)
        self._digest = b""
        self.origins.forget()

    def remember_texts(self, texts: Iterable[str]) -> None:
        """Note that URIs with these texts have been seen."""
        if len(self.known_texts) >= MAX_KNOWN_TEXTS:
            self.known_texts.clear()
        self.known_texts.update(texts)

    def note_forgotten(self) -> None:
        """Note that some URIs that were seen are new again."""
        self.known_texts.clear()
        self.versions = Versions(self.versions.scope, b"")

    def note_scope(self) -> None:
        """Note that the scope is another one."""
        self.versions = Versions(b"", self.versions.seen)

    def forget(self) -> None:
        """Drop the caches of a crawl that has finished."""
        self.known_texts.clear()
        self.scope_cache.clear()
        self.refused.clear()
        self.origins.forget()
        self.queues.recent.clear()
        self.overrides.forget_made()

    def forget_logged(self) -> None:
        """Drop the outcomes that the crawl log has."""
        while self.unlogged and self.unlogged[0][0] <= self.counters.logged_outcome:
            self.unlogged.popleft()

    def let_go(self) -> None:
        """Drop statistics at an operation's end if there are too many, or if the crawl has finished."""
        if len(self.statistics) > MAX_STATISTICS or self.state is CrawlState.FINISHED:
            self.statistics.clear()

    def next_due_ms(self) -> int | None:
        """When something is due next: a queue wakes, a future URI is due, a limit or bound is reached."""
        due = [self._settle_ms(), self.next_chance_ms()]
        if self.bound is not None:
            due.append(self.bound[0])
        return min((moment for moment in due if moment is not None), default=None)

    def next_chance_ms(self) -> int | None:
        """When time alone may bring something to lease: a queue wakes, a URI's time comes, a round begins."""
        if self.state not in (CrawlState.RUNNING, CrawlState.EMPTY):
            return None
        queue = self.queues.next_wake()
        due = [
            self.queues.first_far_ms,
            self.first_future_ms,
            self.queues.lines.next_ms(),
            self.queues.ready.next_nap_ms,
        ]
        if queue is not None:
            due.append(queue.wake_ms)
        if self.awaits_round:
            due.append(self.next_round_ms)
        return min((moment for moment in due if moment is not None), default=None)

    def must_settle(self, now_ms: int) -> bool:
        """Whether a moment has come: the time limit, the next round, or the next statistics event."""
        due_ms = self._settle_ms()
        return due_ms is not None and due_ms <= now_ms

    def _settle_ms(self) -> int | None:
        row, limit_ms = self.state_row, self.settings.limits.max_elapsed_ms
        due = []
        if row.running_since_ms:
            due.append(self.next_statistics_ms)
        if self.state in (CrawlState.RUNNING, CrawlState.EMPTY):
            if limit_ms and not self.led:
                due.append(row.running_since_ms + limit_ms + row.elapsed_before_ms - row.elapsed_ms)
            if self.awaits_round:
                due.append(self.next_round_ms)
        return min(due, default=None)

    @property
    def next_statistics_ms(self) -> int:
        """When the next statistics event is due."""
        return max(self.counters.told_ms, self.state_row.launch_ms) + self.settings.statistics_interval_ms

    @property
    def rounds_left(self) -> bool:
        """Whether the seeds may be announced again."""
        most = self.settings.reseed.max_rounds
        return not self.led and (most < 0 or self.state_row.round < most)

    @property
    def awaits_round(self) -> bool:
        """Whether nothing is left to do until the next round of the seeds."""
        return self.rounds_left and not self.left

    @property
    def next_round_ms(self) -> int:
        """When its seeds may be announced again."""
        row = self.state_row
        return max(row.round_ms, row.launch_ms) + self.settings.reseed.min_interval_ms

    # Inactive queues.

    def waiting_rank(self) -> int | None:
        """The lowest rank of an inactive queue whose turn may come.

        Those that stand back get turns once there is room for new pages, or if nothing else is left: then the
        room is kept for pages that do not come, such as those of retired queues.
        """
        first = min(self.counters.inactive, default=None)
        stands_back = first is not None and first >= STANDS_BACK
        return None if stands_back and not self.room_for_new and self._known_may_come else first

    @property
    def _known_may_come(self) -> bool:
        counters = self.counters
        snoozed = counters.queues.get(QueueState.SNOOZED.value, 0)
        return bool(counters.active_queues or snoozed or counters.future or self.jobs or self.receiving)

    @property
    def next_rank(self) -> int | None:
        """The lowest rank of the queues that have their turns next: of the inactive ones, and of the first in
        line. None if there are none, or only such as wait for a host."""
        waiting, ready = self.waiting_rank(), self.queues.ready.lowest_precedence
        if waiting is None or ready is None:
            return ready if waiting is None else waiting
        return min(waiting, ready)

    def lower_waits(self, queue: WorkQueue) -> bool:
        """Whether an inactive queue of lower precedence waits, so that this one goes behind it."""
        waiting = self.waiting_rank()
        return waiting is not None and waiting < queue.row.precedence

    @property
    def inactive_queues(self) -> int:
        """How many queues wait for activation."""
        return sum(self.counters.inactive.values())

    @property
    def waiting_queues(self) -> int:
        """How many of them do not stand back now."""
        inactive = self.counters.inactive
        if self.room_for_new:
            return sum(inactive.values())
        return sum([queues for rank, queues in inactive.items() if rank < STANDS_BACK])
