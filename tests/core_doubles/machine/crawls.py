"""What feeders and operators give to crawls: specs, seeds, URIs."""

from collections.abc import Sequence
from dataclasses import replace

from core_doubles.codec import candidate, spec_of
from core_doubles.machine.base import Base, step
from core_doubles.machine.choices import (
    HOUR_MS,
    NODES,
    PARTS,
    Fetch,
    controllers,
    crawl_settings,
    fetches,
    mostly,
    paths,
    picks,
    scope_changes,
    sources,
    spellings,
)
from core_doubles.machine.lives import Lives
from core_doubles.machine.nodes import Round, rounds
from core_doubles.model import life, steering
from core_doubles.model.things import Crawl, Offer
from core_doubles.web import ELSEWHERE, ROBOTS_FILES, SITES, RobotsFile, Spelled
from hypothesis import strategies as st
from hypothesis.stateful import precondition

from frontier_server.core.core import Core
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.rows import errors
from frontier_server.core.rows.store import Changes
from frontier_server.core.spec.settings import CrawlSettings, ScopeSettings
from frontier_server.core.state.model import Candidate, CrawlView, Directive, Verdict

NAMES = ("first", "second", "third", "fourth")
NONSENSE = (
    ("text", Verdict.MALFORMED),
    ("scheme", Verdict.UNSUPPORTED_SCHEME),
    ("long", Verdict.TOO_LONG),
    ("via", Verdict.TOO_LONG),
    ("path", Verdict.TOO_LONG),
    ("hop", Verdict.MALFORMED),
    ("precedence", Verdict.MALFORMED),
    ("cost", Verdict.MALFORMED),
    ("directive", Verdict.MALFORMED),
    ("out", Verdict.OUT_OF_SCOPE),
)


class Crawls(Lives):
    """Up to two crawls at a time, and others that have ended, or were torn down."""

    def names(self) -> set[str]:
        """The names that are taken."""
        return {*self.model.crawls, *self.model.torn_down}

    def create(self, name: str, chosen: CrawlSettings) -> None:
        """Create a crawl."""
        spec = spec_of(chosen)
        view = self.run(lambda core, now: core.control.create_crawl(name, chosen, spec, now))
        life.created(self.model, name, view.number, chosen)
        self.check()

    def seed(self, crawl: Crawl, seeds: Sequence[Spelled], by: str = "") -> None:
        """Add seeds."""
        texts = [seed.text for seed in seeds]

        def add(core: Core, now_ms: int) -> tuple[None, Changes]:
            return core.control.add_seeds(crawl.name, texts, now_ms, by)

        if self.takes_in(crawl, add):
            self.run(add)
            life.seeds_added(self.model, crawl, seeds, by)
            self.check()

    @precondition(lambda self: len(self.unfinished()) < 2 and len(self.names()) < len(NAMES))
    @step(chosen=crawl_settings, seeds=st.lists(spellings, max_size=6), by=controllers, works=st.booleans())
    def another_crawl(self, chosen: CrawlSettings, seeds: list[Spelled], by: str, works: bool) -> None:
        """A crawl is created; names may be used again after deletion, numbers may not."""
        name = next(name for name in NAMES if name not in self.names())
        self.create(name, chosen)
        assert self.model.crawls[name].number not in self.deleted
        if seeds:
            self.seed(self.model.crawls[name], seeds, by)
            self.launch(self.model.crawls[name], by)
        if works:
            self.work_all()

    @precondition(Base.has_crawl)
    @step(pick=picks, seeds=st.lists(spellings, min_size=1, max_size=6), by=controllers)
    def add_seeds(self, pick: int, seeds: list[Spelled], by: str) -> None:
        """Seeds come at any time."""
        self.seed(self.some_crawl(pick), seeds, by)

    @precondition(Base.has_crawl)
    @step(
        pick=picks,
        fresh=crawl_settings,
        parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=3, unique=True),
        fits=mostly(True, False),
        by=controllers,
    )
    def update_crawl(self, pick: int, fresh: CrawlSettings, parts: list[str], fits: bool, by: str) -> None:
        """Other settings for a crawl, while it lives; what is fixed cannot be changed."""
        crawl = self.some_crawl(pick)
        taken = replace(crawl.settings, **{part: getattr(fresh, part) for part in parts})
        self.alter(crawl, fitted(crawl.settings, taken) if fits else taken, parts, by)

    @precondition(Base.has_crawl)
    @step(pick=picks, fresh=scope_changes, by=controllers)
    def update_scope(self, pick: int, fresh: ScopeSettings, by: str) -> None:
        """Another scope: URIs that wait may be out of it, or back in it."""
        crawl = self.some_crawl(pick)
        taken = replace(crawl.settings, scope=fresh)
        self.alter(crawl, fitted(crawl.settings, taken), ["scope"], by)

    def alter(self, crawl: Crawl, taken: CrawlSettings, parts: list[str], by: str) -> None:
        """Change some parts of a crawl's settings, if these can be changed."""
        spec = spec_of(taken)

        def update(core: Core, now_ms: int) -> tuple[CrawlView, Changes]:
            return core.control.update_crawl(crawl.name, lambda _: (spec, parts), now_ms, by)

        if not self.takes_in(crawl, update):
            return
        if taken != fitted(crawl.settings, taken):
            self.refused(errors.InvalidSpec, update)
            return
        assert self.run(update).spec == spec
        if taken != crawl.settings:
            steering.updated(self.model, crawl, taken, by, ", ".join(parts))
        self.check()

    @precondition(Base.has_crawl)
    @step(
        node=st.sampled_from(NODES),
        most=mostly(1, 2, 4),
        rounds=st.lists(rounds, min_size=4, max_size=16),
        file=st.sampled_from(ROBOTS_FILES),
        fetch=fetches,
    )
    def good_day(self, node: str, most: int, rounds: list[Round], file: RobotsFile, fetch: Fetch) -> None:
        """Nobody holds crawls back any more, and a node goes on for a while."""
        self.trouble(None)
        for crawl in self.unfinished():
            if crawl.state in (CrawlState.PAUSING, CrawlState.PAUSED):
                self.steer(crawl, Input.RESUME)
            elif crawl.state is CrawlState.NASCENT and crawl.seeds:
                self.launch(crawl)
        self.work_all()
        self.crawl_on(node, most, rounds, file, fetch)

    # Schedule.

    @precondition(Base.has_crawl)
    @step(
        pick=picks,
        offers=st.lists(spellings, min_size=1, max_size=6),
        path=paths,
        directive=st.sampled_from(Directive),
        precedence=st.sampled_from([None, None, 1, 0, 127]),
        cost=st.sampled_from([None, None, 0, 3]),
        seed=st.sampled_from([False, False, False, True]),
        source=sources,
        age_ms=st.sampled_from([None, None, None, 0, 1, 60_000]),
        delay_ms=st.sampled_from([None, None, None, 5_000, HOUR_MS, -1]),
        again=st.booleans(),
    )
    def schedule(
        self,
        pick: int,
        offers: list[Spelled],
        path: str,
        directive: Directive,
        precedence: int | None,
        cost: int | None,
        seed: bool,
        source: str,
        age_ms: int | None,
        delay_ms: int | None,
        again: bool,
    ) -> None:
        """New, known and forced candidates, for now or later; perhaps the same twice (an answer was lost)."""
        crawl = self.some_crawl(pick)
        batch = [
            Offer(
                offer,
                path=path,
                directive=directive,
                precedence=precedence,
                cost=cost,
                seed=seed,
                source="" if seed else source,
                refetch_before_ms=None if age_ms is None else self.now_ms - age_ms,
                not_before_ms=0 if delay_ms is None else self.now_ms + delay_ms,
            )
            for offer in offers
        ]
        for _ in range(1 + again):
            self.offer(crawl, batch)

    @precondition(Base.has_crawl)
    @step(pick=picks, kind=st.sampled_from(NONSENSE))
    def schedule_nonsense(self, pick: int, kind: tuple[str, Verdict]) -> None:
        """Candidates that cannot be taken in get a verdict, and leave no trace but its count."""
        crawl = self.some_crawl(pick)
        uri = SITES[0].uri("/never")
        made: dict[str, Candidate] = {
            "text": candidate("not a URI"),
            "scheme": candidate("ftp://alpha.example/"),
            "long": candidate(uri + "x" * 9_000),
            "via": candidate(uri, via="x" * 9_000),
            "path": candidate(uri, path="L" * 3_000),
            "hop": candidate(uri, path="LZ"),
            "precedence": candidate(uri, precedence=128),
            "cost": candidate(uri, cost=256),
            "directive": candidate(uri, directive=5),
            "out": candidate(ELSEWHERE.uri("/").replace("elsewhere.example", "elsewhere.test")),
        }
        what, expected = kind

        def schedule(core: Core, now_ms: int) -> tuple[list[Verdict], Changes]:
            return core.frontier.schedule(crawl.name, [made[what]], now_ms)

        if not self.takes_in(crawl, schedule):
            return
        assert self.run(schedule) == [expected]
        crawl.verdicts[expected.value] += 1
        self.check()


def fitted(before: CrawlSettings, after: CrawlSettings) -> CrawlSettings:
    """Changed settings, but for what a URI's place depends on; and hosts in scope only grow."""
    hosts = after.scope.hosts
    if not set(hosts) >= set(before.scope.hosts):
        hosts = tuple(sorted({*hosts, *before.scope.hosts}))
    limits = {group.name: group for group in after.groups}
    return replace(
        after,
        identity=before.identity,
        scope=replace(after.scope, hosts=hosts),
        politeness=replace(after.politeness, across_crawls=before.politeness.across_crawls),
        queues=replace(after.queues, partition=before.queues.partition),
        groups=tuple(
            replace(limits[group.name], hosts=group.hosts) if group.name in limits else group
            for group in before.groups
        ),
    )
