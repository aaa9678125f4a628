"""What feeders and operators do with whole crawls: create, seed, launch, steer, delete; and offer URIs."""

from collections.abc import Sequence

from core_doubles.codec import candidate, spec_of
from core_doubles.machine.base import Base, step
from core_doubles.machine.choices import HOUR_MS, crawl_settings, paths, picks, sources, spellings
from core_doubles.model import life
from core_doubles.model.things import Crawl, Offer
from core_doubles.web import ELSEWHERE, SITES, Spelled
from hypothesis import strategies as st
from hypothesis.stateful import precondition

from frontier_server.core import errors
from frontier_server.core.frontier import Frontier
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.model import Candidate, Directive, Verdict
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.store import Changes

S = CrawlState
OPEN = frozenset(S) - {S.FINISHED}
INPUTS = (Input.RESUME, Input.PAUSE, Input.STOP)
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


class Crawls(Base):
    """Up to two crawls at a time."""

    def create(self, name: str, chosen: CrawlSettings) -> None:
        """Create a crawl."""
        spec = spec_of(chosen)
        view = self.run(lambda frontier, now: frontier.control.create_crawl(name, chosen, spec, now))
        life.created(self.model, name, view.number, chosen)
        self.check()

    def seed(self, crawl: Crawl, seeds: Sequence[Spelled]) -> None:
        """Add seeds."""
        texts = [seed.text for seed in seeds]
        self.run(lambda frontier, now: frontier.control.add_seeds(crawl.name, texts, now))
        life.seeds_added(self.model, crawl, seeds)
        self.check()

    def launch(self, crawl: Crawl) -> None:
        """Launch a crawl."""
        self.run(lambda frontier, now: frontier.control.launch(crawl.name, now))
        life.launched(self.model, crawl)
        self.check()

    def steer(self, crawl: Crawl, target: Input) -> None:
        """Ask a crawl to run, pause or stop."""
        self.run(lambda frontier, now: frontier.control.request_state(crawl.name, target, now))
        {Input.RESUME: life.resumed, Input.PAUSE: life.paused, Input.STOP: life.stopped}[target](
            self.model, crawl
        )
        self.check()

    @precondition(lambda self: len(self.model.crawls) < 2)
    @step(chosen=crawl_settings)
    def another_crawl(self, chosen: CrawlSettings) -> None:
        """A crawl is created; names may be used again after deletion, numbers may not."""
        name = "second" if "first" in self.model.crawls else "first"
        self.create(name, chosen)
        assert self.model.crawls[name].number not in self.deleted

    @precondition(Base.has_crawl)
    @step(pick=picks, seeds=st.lists(spellings, min_size=1, max_size=6))
    def add_seeds(self, pick: int, seeds: list[Spelled]) -> None:
        """Seeds come at any time."""
        crawl = self.some_crawl(pick)
        if crawl.state is S.FINISHED:
            texts = [seed.text for seed in seeds]
            self.refused(
                errors.CrawlFinished, lambda frontier, now: frontier.control.add_seeds(crawl.name, texts, now)
            )
        else:
            self.seed(crawl, seeds)

    @precondition(Base.has_crawl)
    @step(pick=picks)
    def launch_one(self, pick: int) -> None:
        """A launch, possible or not."""
        crawl = self.some_crawl(pick)
        if crawl.state is S.NASCENT and crawl.seeds:
            self.launch(crawl)
        else:
            error = errors.NoSeeds if crawl.state is S.NASCENT else errors.IllegalState
            self.refused(error, lambda frontier, now: frontier.control.launch(crawl.name, now))

    @precondition(Base.has_crawl)
    @step(pick=picks, wish=st.sampled_from(INPUTS))
    def steer_one(self, pick: int, wish: Input) -> None:
        """A request, possible or not (S0.13, S0.15, S0.23; D3)."""
        crawl = self.some_crawl(pick)
        if wish is Input.STOP or crawl.state in (S.RUNNING, S.EMPTY, S.PAUSING, S.PAUSED):
            self.steer(crawl, wish)
        else:
            self.refused(
                errors.IllegalState, lambda frontier, now: frontier.control.request_state(crawl.name, wish, now)
            )

    @precondition(Base.has_crawl)
    @step(pick=picks)
    def pause_and_resume(self, pick: int) -> None:
        """Within one moment, with leases out or not (D2)."""
        crawl = self.some_crawl(pick)
        if crawl.state in (S.RUNNING, S.EMPTY):
            for target in (Input.PAUSE, Input.RESUME, Input.PAUSE, Input.RESUME):
                if crawl.state not in (S.STOPPING, S.FINISHED):
                    self.steer(crawl, target)

    @precondition(Base.has_crawl)
    @step(pick=picks)
    def delete_crawl(self, pick: int) -> None:
        """A deletion, possible or not."""
        crawl = self.some_crawl(pick)

        def delete(frontier: Frontier, now_ms: int) -> tuple[None, Changes]:
            return frontier.control.delete_crawl(crawl.name, now_ms)

        if crawl.state not in (S.NASCENT, S.FINISHED):
            self.refused(errors.CrawlActive, delete)
            return
        self.run(delete)
        del self.model.crawls[crawl.name]
        self.deleted.add(crawl.number)
        self.refused(errors.UnknownCrawl, delete)
        self.check()

    @precondition(Base.has_crawl)
    @step(pick=picks, back=st.integers(0, 3))
    def note_logged(self, pick: int, back: int) -> None:
        """Outcomes are in the crawl log for good, and forgotten here."""
        crawl = self.some_crawl(pick)
        logged = self.shell.frontier.log_positions()[crawl.number][1]
        upto = max(self.shell.frontier.last_outcome(crawl.number) - back, logged)
        self.run(lambda frontier, now: frontier.note_logged(crawl.number, upto, 100 * upto, now))
        assert self.shell.frontier.log_positions()[crawl.number] == (crawl.name, upto, 100 * upto)
        self.check()

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
        if crawl.state not in OPEN:
            self.refused(
                errors.CrawlFinished,
                lambda frontier, now: frontier.schedule(crawl.name, [candidate("http://x/")], now),
            )
            return
        for _ in range(1 + again):
            if crawl.state in OPEN:
                self.offer(crawl, batch)

    @precondition(Base.has_crawl)
    @step(pick=picks, kind=st.sampled_from(NONSENSE))
    def schedule_nonsense(self, pick: int, kind: tuple[str, Verdict]) -> None:
        """Candidates that cannot be taken in get a verdict, and leave no trace but its count."""
        crawl = self.some_crawl(pick)
        if crawl.state is S.FINISHED:
            return
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
        answer = self.run(lambda frontier, now: frontier.schedule(crawl.name, [made[what]], now))
        assert answer == [expected]
        crawl.verdicts[expected.value] += 1
        self.check()
