"""The operators' requests on a crawl's life: create, seed, launch, steer, change, tear down, delete.

Operations return *(answer, changes)*, like all of the core's. `by` names the operator in the event.
"""

from collections.abc import Callable, Sequence

from ..jobs import restoring
from ..journey.withdrawal import Withdrawal
from ..machines.lifecycle import CrawlState, Input, move
from ..opening import opening
from ..opening.shard import Shard
from ..rows import errors, keys
from ..rows.records import CountersRow, SpecRow
from ..rows.store import Changes, Family
from ..spec.settings import CrawlSettings
from ..state import job, life
from ..state.attendance import reconcile
from ..state.crawl import Crawl
from ..state.meaning import authorities, problems
from ..state.model import CRAWL_NAME, CRAWL_NAME_FORM, CrawlView, check_batch
from ..state.operation import Operation
from ..state.spec_problems import fixed_problems
from ..uri.scope import add_authority
from . import views
from .changes import change_spec, put_spec

MAX_CRAWLS = 100_000
# The inputs that an operator may request, and their names in events.
_ACTIONS = {Input.RESUME: "resume", Input.PAUSE: "pause", Input.HOLD: "hold", Input.STOP: "stop"}

Amended = Callable[[bytes], tuple[bytes, Sequence[str]]]
"""Makes a new spec of the old one, and says what has changed, for people to read."""


class Control:
    """Changes the lives of a frontier's crawls."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._withdrawal = Withdrawal(shard)

    def create_crawl(
        self, name: str, settings: CrawlSettings, spec: bytes, now_ms: int, by: str = ""
    ) -> tuple[CrawlView, Changes]:
        """Create a crawl in state NASCENT. `spec` is stored unchanged."""
        shard, registry = self._shard, self._shard.registry
        if not CRAWL_NAME(name):
            raise errors.InvalidName(
                f"a crawl's name must have {CRAWL_NAME_FORM}, got {name[:80]!r}", crawl=name[:80]
            )
        if found := problems(settings):
            raise errors.invalid_spec(found)
        if name in registry:
            raise errors.CrawlExists(f"crawl {name!r} already exists", crawl=name)
        if len(registry) >= MAX_CRAWLS:
            raise errors.InvalidRequest(f"a frontier can have at most {MAX_CRAWLS} crawls; delete some first")
        op = shard.begin(now_ms)
        number = shard.server.next_crawl
        shard.server.next_crawl += 1
        opening.put_server_row(op.tx, shard.server)
        row = SpecRow(name, spec, op.now_ms)
        state = life.new_state_row(op.now_ms)
        crawl = registry.made(opening.CrawlRows(number, row, state, CountersRow()))
        put_spec(op, crawl, row)
        op.put_state(crawl)
        for host, authority in authorities(settings.scope.hosts).values():
            add_authority(op.tx, registry.places, number, host, authority)
        op.acted(crawl, by, "create")
        op.event(crawl, "status_changed", state=crawl.state.value, exit_status=crawl.exit_status.value)
        registry.add(crawl)
        return views.crawl_view(crawl), shard.end(op)

    def add_seeds(self, name: str, uris: Sequence[str], now_ms: int, by: str = "") -> tuple[None, Changes]:
        """Store seeds (absolute http or https URIs); announce them if the crawl was launched."""
        crawl = self._shard.registry.unfinished(name)
        check_batch(len(uris), "seeds")
        op = self._shard.begin(now_ms)
        op.acted(crawl, by, "add-seeds")
        counters = op.counters(crawl)
        # In stores of older servers, a crawl from a checkpoint may have announced more seeds than it counts.
        counters.next_seed = max(counters.next_seed, counters.announced_seeds + 1)
        for uri in uris:
            op.tx.put(Family.SEEDS, keys.serial_key(crawl.number, counters.next_seed), uri.encode())
            counters.next_seed += 1
        if crawl.state is not CrawlState.NASCENT and not self._seeding(crawl):
            job.start(op, crawl, job.JobKind.SEED)
        return None, self._shard.end(op)

    def _seeding(self, crawl: Crawl) -> bool:
        """Whether a job will announce seeds that are added now."""
        rows = (job.get(self._shard.store, crawl, number) for number in crawl.jobs)
        return any(row.kind == job.JobKind.SEED.value for row in rows)

    def launch(
        self, name: str, now_ms: int, by: str = "", checkpoint: str = "", source: str = ""
    ) -> tuple[CrawlView, Changes]:
        """Start a crawl. A job announces its seeds or, given a checkpoint, copies crawl `source` from it."""
        crawl = self._shard.registry.named(name)
        counters = crawl.counters
        waits = counters.queued or counters.retired_uris or counters.future
        if not checkpoint and crawl.state is CrawlState.NASCENT and counters.next_seed == 1 and not waits:
            message = f"crawl {name!r} has no seeds and no waiting URIs; add some first"
            raise errors.NoSeeds(message, crawl=name)
        move(crawl.state, Input.LAUNCH, name)
        op = self._shard.begin(now_ms)
        if checkpoint:
            settings_of, source = self._shard.registry.settings_of, source or name
            found = self._shard.checkpoint_of(checkpoint)
            rows = restoring.crawl_in(found, source)
            if rows is None:
                message = f"checkpoint {checkpoint} has no crawl {source[:80]!r}"
                raise errors.UnknownCrawl(message, crawl=source[:80])
            restoring.begin(op, crawl, checkpoint, found, rows, lambda spec: settings_of(spec, ()))
        life.request(op, crawl, Input.LAUNCH, "launch", by)
        _tell_if_ignoring(op, crawl)
        if not checkpoint:
            job.start(op, crawl, job.JobKind.SEED)
        return views.crawl_view(crawl), self._shard.end(op)

    def record_checkpoint(self, name: str, now_ms: int) -> tuple[None, Changes]:
        """Record a checkpoint in the crawls that it has, except for held and finished ones."""
        op = self._shard.begin(now_ms)
        unfinished = [
            number for number, crawl in self._shard.crawls.items() if crawl.state is not CrawlState.FINISHED
        ]
        self._shard.sweep(
            op,
            f"checkpoint {name}",
            unfinished,
            lambda op, crawl: op.event(crawl, "checkpointed", checkpoint=name),
        )
        return None, self._shard.end(op)

    def check_checkpoint_free(self, name: str) -> None:
        """Raise CheckpointInUse if a crawl is being launched from a checkpoint."""
        for crawl in self._shard.registry.crawls.values():
            if crawl.restoring == name:
                raise errors.CheckpointInUse(
                    f"crawl {crawl.name!r} is being launched from checkpoint {name}", crawl=crawl.name
                )

    def request_state(self, name: str, target: Input, now_ms: int, by: str = "") -> tuple[CrawlView, Changes]:
        """Ask a crawl to run, pause, hold or stop (Input.RESUME, PAUSE, HOLD or STOP)."""
        crawl = self._shard.registry.named(name)
        op = self._shard.begin(now_ms)
        if crawl.state_row.torn_down:
            move(crawl.state, target, name)  # raises, or has no effect
            return views.crawl_view(crawl), self._shard.end(op)
        held = crawl.held
        life.request(op, crawl, target, _ACTIONS[target], by)
        if held:
            reconcile(op, crawl, self._shard.leases)  # nodes that left during the hold
        changes = self._shard.end(op)
        return views.crawl_view(crawl), changes

    def update_crawl(
        self, name: str, amended: Amended, now_ms: int, by: str = ""
    ) -> tuple[CrawlView, Changes]:
        """Change a crawl's spec.

        Raises InvalidSpec before anything changes.
        """
        crawl = self._shard.registry.unfinished(name)
        spec, told, settings = self._amended(crawl, amended)
        op = self._shard.begin(now_ms)
        self._change(op, crawl, spec, told, settings, by)
        changes = self._shard.end(op)
        return views.crawl_view(crawl), changes

    def reopen(
        self, name: str, amended: Amended, pause: bool, now_ms: int, by: str = "", recrawl_ms: int = 0
    ) -> tuple[CrawlView, Changes]:
        """Change a finished crawl's spec as `update_crawl` does, and let it run again, or be paused.

        With a time it begins to fetch its known pages again, and its limits count from now on.

        Raises InvalidSpec, IllegalState or CrawlTornDown before anything changes.
        """
        crawl = self._shard.registry.changeable(name)
        given = Input.REOPEN_TO_PAUSE if pause else Input.REOPEN
        move(crawl.state, given, name)
        if crawl.state_row.tearing_down:
            message = f"crawl {name!r} is being torn down; it can only be read, copied or deleted"
            raise errors.CrawlTornDown(message, crawl=name, state=crawl.state.value)
        restoring.check_whole(self._shard.store, crawl)
        spec, told, settings = self._amended(crawl, amended)
        limit = life.limit_reached(crawl, settings.limits, now_ms)
        if limit is not None and not recrawl_ms:
            raise errors.IllegalState(
                f"crawl {name!r} has reached limits.{limit.name} = {limit.value}; raise it above "
                f"{limit.actual}",
                crawl=name,
                state=crawl.state.value,
            )
        op = self._shard.begin(now_ms)
        self._change(op, crawl, spec, told, settings, by)
        if recrawl_ms:
            life.begin_recrawl(op, crawl, recrawl_ms)
        life.request(op, crawl, given, "reopen", by)
        if crawl.counters.announced_seeds < crawl.counters.next_seed - 1 and not self._seeding(crawl):
            job.start(op, crawl, job.JobKind.SEED)
        changes = self._shard.end(op)
        return views.crawl_view(crawl), changes

    def _amended(self, crawl: Crawl, amended: Amended) -> tuple[bytes, Sequence[str], CrawlSettings]:
        """A crawl's new spec, what to tell of the change, and its new settings. Raises InvalidSpec."""
        spec, told = amended(crawl.spec.spec)
        settings = self._shard.registry.settings_of(spec, ())
        found = {**fixed_problems(crawl.settings, settings), **problems(settings)}
        if found:
            # What an older server let pass stands in no other change's way.
            before = problems(crawl.settings)
            found = {path: problem for path, problem in found.items() if before.get(path) != problem}
        if found:
            raise errors.invalid_spec(found)
        return spec, told, settings

    def _change(
        self,
        op: Operation,
        crawl: Crawl,
        spec: bytes,
        told: Sequence[str],
        settings: CrawlSettings,
        by: str,
    ) -> None:
        if spec == crawl.spec.spec:
            return
        if settings != crawl.settings:  # unless a default was set explicitly
            op.acted(crawl, by, "update", ", ".join(told))
        ignored = crawl.settings.robots.ignored
        change_spec(op, self._shard, crawl, spec)
        if not ignored and crawl.state is not CrawlState.NASCENT:
            _tell_if_ignoring(op, crawl)

    def tear_down(self, name: str, now_ms: int, by: str = "") -> tuple[tuple[CrawlView, bool], Changes]:
        """Let a crawl end and leave memory. Returns the crawl, and whether this request began that."""
        crawl = self._shard.registry.named(name)
        op = self._shard.begin(now_ms)
        begun, held = False, crawl.held
        if not crawl.state_row.torn_down:
            begun = life.tear_down(op, crawl, by)
        if held:
            reconcile(op, crawl, self._shard.leases)
        changes = self._shard.end(op)
        return (views.crawl_view(crawl), begun), changes

    def delete_crawl(self, name: str, now_ms: int, force: bool = False) -> tuple[None, Changes]:
        """Forget a crawl, and begin to delete its rows. With `force` it may be active: its leases end."""
        crawl = self._shard.registry.named(name)
        active = crawl.state not in (CrawlState.NASCENT, CrawlState.FINISHED)
        if active and not force:
            raise errors.CrawlActive(
                f"crawl {name!r} is {crawl.state.value}; stop it first, or delete it with force",
                crawl=name,
                state=crawl.state.value,
            )
        if active:
            self._shard.registry.changeable(name)
        op = self._shard.begin(now_ms)
        for lease in self._shard.leases.of_crawl(crawl.number):
            self._withdrawal.abandon(op, lease)
        self._shard.hosts.disperse(crawl)
        crawl.state_row.deleted = True
        op.put_state(crawl)
        self._shard.registry.delete(crawl)
        return None, self._shard.end(op)


def _tell_if_ignoring(op: Operation, crawl: Crawl) -> None:
    """Record that a crawl ignores robots.txt, if it does."""
    if crawl.settings.robots.ignored:
        op.event(crawl, "problem", kind="robots-ignored", detail="robots.policy is `ignore`")
