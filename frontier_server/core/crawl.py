"""One crawl in memory: the rows that memory holds, and its active queues."""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush

from .fetch_policy import FetchPolicies
from .keys import FetchStatisticsOf
from .line import Lines
from .machines.lifecycle import CrawlState, ExitStatus
from .machines.target import Reached, Target
from .origin import Origins
from .overrides import Overrides
from .pace import Pace
from .queue import QueueState, WorkQueue
from .reading import groups_of, scope_rules
from .records import CountersRow, FetchStatisticsRow, OutcomeRow, SpecRow, StateRow
from .spec.settings import CrawlSettings, GroupSettings
from .uri.canonical import CanonicalUri
from .uri.scope import ScopeRules

MAX_KNOWN_TEXTS = 50_000
MAX_RECENT = 4_096
MAX_STATISTICS = 20_000
MAX_UNLOGGED = 2_000  # outcomes that memory keeps for the crawl log
LARGEST_QUEUES = 20  # Heritrix 2.2
INTERRUPT_WAIT_MS = 15_000  # for nodes to hear of it, and for what they broke off to be reported

_DEFAULTS = CrawlSettings()
_DEFAULT_SCOPE = ScopeRules(_DEFAULTS.scope)

SettingsOf = Callable[[bytes, Sequence[bytes]], CrawlSettings]
"""Reads a stored spec, with stored overrides on top, in order."""


class Asked:
    """When a node last asked for leases."""

    ms = 0


class Crawl:
    """A crawl: rows of it that memory holds, and its active queues."""

    def __init__(
        self,
        number: int,
        spec: SpecRow,
        settings_of: SettingsOf,
        version: str,
        state: StateRow,
        counters: CountersRow,
    ) -> None:
        self.number = number
        self.spec = spec
        self.overrides = Overrides(lambda parts: settings_of(self.spec.spec, parts))
        self.state_row = state
        self.counters = counters
        self.jobs: list[int] = []
        self.restoring = ""  # the checkpoint that its rows are being copied from
        self.receiving: set[int] = set()  # jobs that still get what they are to do
        self.ready: deque[WorkQueue] = deque()
        self.lines = Lines(number)  # of queues that are ready but for hosts and groups
        self.snoozed: list[tuple[int, int, int, WorkQueue]] = []  # heap: wake, tie, serial
        self.queues: dict[bytes, WorkQueue] = {}  # active ones
        self.recent: OrderedDict[bytes, WorkQueue] = OrderedDict()  # others that were changed of late
        # READY, BUSY and SNOOZED ones in memory; the counts of others are stored.
        self.active_counts: Counter[QueueState] = Counter()
        self.leases_out = 0
        self.pages_out = 0  # leases out but for robots.txt
        self.known_texts: set[str] = set()  # candidates' texts that have been seen, as offered
        self.scope_cache: dict[str, bool] = {}  # authority → in scope
        self.inactive_heads: dict[int, bytes] = {}  # precedence → no inactive queue's key sorts before it
        self.far_head = b""  # no far snooze's
        self.future_head = b""  # no future URI's
        self.first_far_ms: int | None = 0  # when the first of them is due, or earlier; None: there is none
        self.first_future_ms: int | None = 0
        self.statistics: dict[
            tuple[FetchStatisticsOf, str], FetchStatisticsRow
        ] = {}  # of hosts and sources, as stored
        # The last outcomes, without a gap, that are not in the crawl log yet: its writer need not read them.
        self.unlogged: deque[tuple[int, OutcomeRow]] = deque(maxlen=MAX_UNLOGGED)
        self.pace = Pace()
        self.largest: dict[bytes, int] = {}  # queues with most URIs → how many, of those touched
        self._least_of_largest = 0  # or less
        self.excused_ms = 0  # since it reached its state: that the frontier was away, and nobody could report
        self.asked = Asked()  # for its leases
        self.asked_of_any = Asked()  # for those of any crawl: of all crawls of a frontier the same
        self.passed = 0.0  # leases given when any crawl was asked for, by its weight
        self._settings_of = settings_of
        self.settings = _DEFAULTS  # until its spec is read, at once
        self.scope_rules = _DEFAULT_SCOPE
        self.group_of_host: Mapping[str, str] = {}
        self.groups: dict[str, GroupSettings] = {}
        self.policies = FetchPolicies(version)
        self._ties = 0
        self.set_spec(spec)

    def set_spec(self, spec: SpecRow) -> None:
        """Let a spec count from now on."""
        before = self.settings
        self.spec, self.settings = spec, self._settings_of(spec.spec, ())
        self.overrides.forget_made()
        # Thousands of patterns, and of hosts, take a while to be read.
        if self.settings.scope != before.scope:
            self.scope_rules = scope_rules(self.settings.scope)
        if self.settings.groups != before.groups:
            self.group_of_host = groups_of(self.settings)  # by identity rules, which are fixed
            self.groups = {group.name: group for group in self.settings.groups}
        self.origins = Origins(
            self.number, self.settings, self.group_of_host, self.overrides, self.scope_rules
        )
        self.known_texts.clear()
        self.scope_cache.clear()

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def state(self) -> CrawlState:
        """Where it is in its life."""
        return CrawlState(self.state_row.state)

    @property
    def exit_status(self) -> ExitStatus:
        """How it ended, or what it is doing."""
        return ExitStatus(self.state_row.exit_status)

    @property
    def target(self) -> Target:
        """What the frontier machine is asked to reach."""
        return Target(self.state_row.target)

    @property
    def running(self) -> bool:
        """Whether leases may be given."""
        return self.state_row.state == CrawlState.RUNNING.value

    @property
    def held(self) -> bool:
        """Whether it stands still: nothing of it is written until another state is asked for."""
        row = self.state_row
        return row.reached == Reached.HOLD.value and row.answered == row.request

    @property
    def in_flight(self) -> bool:
        """Whether anything is under way that a state must wait for.

        Leases that are out; before it stands still also outcomes that are not in its log yet,
        and imports that come in.
        """
        if self.target is Target.HOLD and (self.receiving or not self.logged):
            return True
        return bool(self.leases_out)

    @property
    def logged(self) -> bool:
        """Whether all its outcomes are in its crawl log for good."""
        return self.counters.logged_outcome + 1 >= self.counters.next_outcome

    @property
    def works(self) -> bool:
        """Whether it has jobs, or queues to let go of, and neither stands still nor is about to."""
        if self.target is Target.HOLD:
            return False
        return bool(self.jobs) or (bool(self.queues) and self.state is CrawlState.FINISHED)

    @property
    def offers(self) -> bool:
        """Whether it has a queue whose turn may come: ready, in an open line, or inactive."""
        return bool(self.ready or self.lines or self.counters.inactive)

    @property
    def asked_ms(self) -> int:
        """When a node last asked for its leases, or since its launch for any crawl's; 0 if none did."""
        of_any_ms, launch_ms = self.asked_of_any.ms, self.state_row.launch_ms
        return max(self.asked.ms, of_any_ms if launch_ms and of_any_ms >= launch_ms else 0)

    @property
    def full(self) -> bool:
        """Whether as many of its URIs are out as may be."""
        most = self.settings.max_toes
        return bool(most) and self.leases_out >= most

    @property
    def documents_full(self) -> bool:
        """Whether successes and leases out fill the document limit."""
        most = self.settings.limits.max_documents
        return bool(most) and self.counters.succeeded + self.pages_out >= most

    @property
    def limited(self) -> bool:
        """Whether what is out fills a limit of the crawl."""
        return self.full or self.documents_full

    @property
    def bound(self) -> tuple[int, str] | None:
        """Until when its pause or its end waits for what is in flight, and what says so."""
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
        bound_ms, words = min(bounds)
        return bound_ms + self.excused_ms, words

    @property
    def left(self) -> bool:
        """Whether anything is left to do: URIs that can be leased some time, leases or jobs.

        URIs in retired queues, and in those at the precedence floor, are not (D20).
        """
        counters = self.counters
        waits = counters.queued > counters.ineligible_uris or counters.future
        return bool(waits or self.leases_out or self.jobs or self.receiving)

    def elapsed_ms(self, now_ms: int) -> int:
        """How long it has run, pauses left out."""
        row = self.state_row
        return row.elapsed_ms + (now_ms - row.running_since_ms if row.running_since_ms else 0)

    # What holds for a URI.

    def settings_for(self, uri: CanonicalUri) -> CrawlSettings:
        """The settings of a URI: the crawl's, with the overrides of its SURT prefixes."""
        return self.origins.settings_for(uri)

    def put_override(self, prefix: str, override: bytes) -> None:
        """Let an override hold from now on."""
        self.overrides.put(prefix, override)
        self.origins.forget()

    def discard_override(self, prefix: str) -> None:
        """Let an override hold no more."""
        self.overrides.discard(prefix)
        self.origins.forget()

    def remember_texts(self, texts: Iterable[str]) -> None:
        """Note that URIs, written like this, have been seen."""
        if len(self.known_texts) >= MAX_KNOWN_TEXTS:
            self.known_texts.clear()
        self.known_texts.update(texts)

    def forget(self) -> None:
        """Let go of what only makes a crawl that goes on faster: it has finished."""
        self.known_texts.clear()
        self.scope_cache.clear()
        self.origins.forget()
        self.recent.clear()
        self.overrides.forget_made()

    # Queues in memory: `ready` and `snoozed` are filled by Operation.move alone.

    def push_snoozed(self, queue: WorkQueue, wake_ms: int) -> None:
        """Let a queue sleep; an earlier entry of it becomes void."""
        self._ties += 1
        queue.snooze_serial += 1
        heappush(self.snoozed, (wake_ms, self._ties, queue.snooze_serial, queue))

    def next_wake(self) -> WorkQueue | None:
        """The queue snoozed in memory that wakes first."""
        while self.snoozed:
            _, _, serial, queue = self.snoozed[0]
            if serial == queue.snooze_serial and queue.state is QueueState.SNOOZED:
                return queue
            heappop(self.snoozed)
        return None

    def known_queue(self, queue: bytes) -> WorkQueue | None:
        """A queue, if memory has it: because it is active, or because it was changed of late."""
        return self.queues.get(queue) or self.recent.get(queue)

    def remember(self, queue: WorkQueue) -> None:
        """Keep a queue that was changed, though it is not active: links come in swarms."""
        recent = self.recent
        if self.state is CrawlState.FINISHED:
            recent.pop(queue.queue, None)
            return
        recent[queue.queue] = queue
        recent.move_to_end(queue.queue)
        if len(recent) > MAX_RECENT:
            recent.popitem(last=False)

    def forget_logged(self) -> None:
        """Let go of the outcomes that are in the crawl log."""
        while self.unlogged and self.unlogged[0][0] <= self.counters.logged_outcome:
            self.unlogged.popleft()

    def let_go(self) -> None:
        """Let go of statistics at an operation's end if there are too many, or if the crawl has finished."""
        if len(self.statistics) > MAX_STATISTICS or self.state is CrawlState.FINISHED:
            self.statistics.clear()

    def note_size(self, queue: WorkQueue) -> None:
        """Keep the list of the largest queues."""
        largest, count = self.largest, queue.row.count
        if queue.queue in largest or len(largest) < LARGEST_QUEUES:
            largest[queue.queue] = count
            self._least_of_largest = min(self._least_of_largest, count)
        elif count > self._least_of_largest:
            smallest = min(largest, key=largest.__getitem__)
            if count > largest[smallest]:
                del largest[smallest]
                largest[queue.queue] = count
            self._least_of_largest = min(largest.values())

    def next_due_ms(self) -> int | None:
        """When something falls due: a queue wakes, a future URI's time comes, a limit, a bound."""
        due = [self._settle_ms(), self.next_chance_ms()]
        if self.bound is not None:
            due.append(self.bound[0])
        return min((moment for moment in due if moment is not None), default=None)

    def next_chance_ms(self) -> int | None:
        """When time alone may bring something to lease: a queue wakes, a URI's time comes, a round begins."""
        if self.state not in (CrawlState.RUNNING, CrawlState.EMPTY):
            return None
        queue = self.next_wake()
        due = [self.first_far_ms, self.first_future_ms, self.lines.next_ms()]
        if queue is not None:
            due.append(queue.wake_ms)
        if self.awaits_round:
            due.append(self.next_round_ms)
        return min((moment for moment in due if moment is not None), default=None)

    def must_settle(self, now_ms: int) -> bool:
        """Whether time alone has changed what its life depends on.

        Its time is over, a round begins, or its statistics are to be told.
        """
        due_ms = self._settle_ms()
        return due_ms is not None and due_ms <= now_ms

    def _settle_ms(self) -> int | None:
        row, limit_ms = self.state_row, self.settings.limits.max_elapsed_ms
        due = []
        if row.running_since_ms:
            due.append(self.next_statistics_ms)
        if self.state in (CrawlState.RUNNING, CrawlState.EMPTY):
            if limit_ms:
                due.append(row.running_since_ms + limit_ms - row.elapsed_ms)
            if self.awaits_round:
                due.append(self.next_round_ms)
        return min(due, default=None)

    @property
    def next_statistics_ms(self) -> int:
        """When its statistics are told again."""
        return max(self.counters.told_ms, self.state_row.launch_ms) + self.settings.statistics_interval_ms

    @property
    def rounds_left(self) -> bool:
        """Whether the seeds may be announced anew."""
        most = self.settings.reseed.max_rounds
        return most < 0 or self.state_row.round < most

    @property
    def awaits_round(self) -> bool:
        """Whether it is exhausted, and only the time of its next round has not come."""
        return self.rounds_left and not self.left

    @property
    def next_round_ms(self) -> int:
        """When its seeds may be announced anew."""
        row = self.state_row
        return max(row.round_ms, row.launch_ms) + self.settings.reseed.min_interval_ms

    # Who goes first.

    def waiting_precedence(self) -> int | None:
        """The lowest precedence of an inactive queue (S2.17)."""
        return min(self.counters.inactive, default=None)

    @property
    def inactive_queues(self) -> int:
        """How many queues wait for activation."""
        return sum(self.counters.inactive.values())
