"""The whole frontier against a model of it: what nodes, operators, time and crashes may do, in any order.

The rules are here. What must hold is in `core_doubles.model` (what each answer may be) and in
`core_doubles.audit` (memory, store and model agree after every step).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import pytest
from core_doubles.audit import Audit, nothing_is_left_of
from core_doubles.codec import candidate, spec_of
from core_doubles.model import Crawl, Lease, Model
from core_doubles.shell import PERIOD_MS, Operation, Shell
from core_doubles.web import ELSEWHERE, OPEN, ROBOTS_FILES, SITES, RobotsFile, Spelled, every_spelling
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from frontier_server.core import errors
from frontier_server.core.disposition import Disposition
from frontier_server.core.frontier import Frontier
from frontier_server.core.lifecycle import CrawlState, Input
from frontier_server.core.model import Candidate, Directive, Report, ReportResult, Verdict
from frontier_server.core.settings import (
    DAY_MS,
    CrawlSettings,
    FetchSettings,
    LimitSettings,
    PolitenessSettings,
    RetrySettings,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.store import Changes

A = TypeVar("A")
Step = Callable[..., None]
S = CrawlState

NODES = ("north", "south", "west")
PAGE_STATUSES = (200, 200, 200, 204, 301, 404, 500, 503, 503, 429, -1, -2, -3, -4, -7, -50, -61, -7000, -9998)
ROBOTS_STATUSES = (200, 200, 200, 200, 404, 301, 403, 500, 503, 429, -1, -2, -4, -7, -50, -7000)
SENSELESS = (0, 42, 600, -12_345)
INPUTS = (Input.RESUME, Input.PAUSE, Input.STOP)
MOST_DRAIN_STEPS = 3_000
MOST_SLICES = 3_000

crawl_settings = st.builds(
    CrawlSettings,
    contact=st.just("https://operator.example/"),
    scope=st.builds(
        ScopeSettings,
        hosts=st.sampled_from([(), ("alpha.example",), ("beta.example", "gamma.example:8080")]),
        max_link_hops=st.just(2),
        max_redirect_hops=st.just(3),
    ),
    politeness=st.builds(
        PolitenessSettings,
        delay_factor=st.sampled_from([5.0, 0.0, 1.5]),
        min_delay_ms=st.sampled_from([1_000, 0]),
        max_delay_ms=st.sampled_from([30_000, 1_000]),
        max_crawl_delay_ms=st.sampled_from([300_000, 5_000, 0]),
        overload_delay_ms=st.sampled_from([2_000, 0]),
        max_overload_delay_ms=st.just(10_000),
    ),
    robots=st.builds(
        RobotsSettings,
        allow_unreachable=st.booleans(),
        max_attempts=st.sampled_from([4, 2, 1]),
        retry_delay_ms=st.sampled_from([3_000, 0]),
        validity_ms=st.sampled_from([DAY_MS, 10_000]),
    ),
    retry=st.builds(
        RetrySettings,
        max_attempts=st.sampled_from([4, 2, 1]),
        delay_ms=st.sampled_from([5_000, 0, 900_000]),
        growth=st.sampled_from([2.0, 1.0]),
        max_delay_ms=st.just(1_000_000),
    ),
    fetch=st.builds(
        FetchSettings,
        timeout_ms=st.sampled_from([1_200_000, 10_000, 45_000]),
        product_token=st.sampled_from(["toehold", "otherbot"]),
    ),
    limits=st.builds(LimitSettings, max_documents=st.sampled_from([0, 0, 0, 3, 1])),
)
spellings = st.sampled_from(every_spelling())
picks = st.integers(0, 30)
paths = st.sampled_from(["L", "", "LL", "LE", "R", "RR", "LLL", "LRRRR", "RRRRR"])


class Fetch(NamedTuple):
    """How a fetch went, whatever its status."""

    duration_ms: int = 100
    retry_after_ms: int = 0
    body_bytes: int = 1


fetches = st.builds(
    Fetch,
    st.sampled_from([200, 0, 4_000, 90_000]),
    st.sampled_from([0, 8_000, 50_000]),
    st.sampled_from([10, 0]),
)


class Lost(Exception):
    """The step's write was lost in a crash."""


def step(**strategies: Any) -> Callable[[Step], Step]:
    """A rule that a crash may cut short. What fails in it keeps the run from being drained."""

    def decorate(function: Step) -> Step:
        @wraps(function)
        def guarded(self: "FrontierMachine", **drawn: Any) -> None:
            self.sound = False
            try:
                function(self, **drawn)
            except Lost:
                self.check_events()
            self.sound = True

        as_rule = cast("Callable[[Step], Step]", rule(**strategies))
        return as_rule(guarded)

    return decorate


class FrontierMachine(RuleBasedStateMachine):
    """Two crawls, three nodes, four hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.shell = Shell()
        self.model = Model(PERIOD_MS)
        self.doomed = False  # the next write is lost
        self.sound = True
        self.sessions = dict.fromkeys(NODES, 1)
        self.outcomes_read: dict[int, int] = {}
        self.events_read: dict[int, int] = {}
        self.deleted: set[int] = set()
        self.tokens = 0

    # Running operations.

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.shell.now_ms

    def run(self, operation: Operation[A]) -> A:
        """Run an operation; or run it, and lose what it changed, if the server is doomed."""
        if not self.doomed:
            return self.shell.do(operation)
        self.doomed = False
        self.shell.lose(operation)
        self.model.restarted(self.now_ms)
        raise Lost

    def refused(self, error: type[errors.FrontierError], operation: Operation[Any]) -> None:
        """Run an operation that must be refused; the audit shows that nothing was changed."""
        with pytest.raises(error) as caught:
            operation(self.shell.frontier, self.now_ms)
        assert caught.type is error, f"{caught.type.__name__}, not {error.__name__}"

    def check_outcomes(self, clearing: bool = False) -> None:
        """The final dispositions stored since are those that the model expects, each once."""
        for crawl in self.model.crawls.values():
            expected = crawl.take_outcomes()
            read = self.outcomes_read.get(crawl.number, 0)
            for number, row in self.shell.frontier.outcomes_after(crawl.number, read, 10_000):
                assert number == self.outcomes_read.get(crawl.number, 0) + 1
                self.outcomes_read[crawl.number] = number
                assert row.time_ms == self.now_ms
                outcome = row.uri, row.fetch_status, row.disposition
                if expected[outcome]:
                    expected[outcome] -= 1
                else:
                    assert clearing, f"{outcome} came from nowhere"
                    self.model.cleared(crawl, row, self.now_ms)
            assert not +expected, f"missing: {+expected}"
            assert not crawl.outcomes

    def check_events(self) -> None:
        """The events stored since are numbered without gap, and are the changes of the model."""
        for crawl in self.model.crawls.values():
            read = self.events_read.get(crawl.number, 0)
            rows = self.shell.frontier.events_after(crawl.name, read)
            assert [number for number, _ in rows] == list(range(read + 1, read + 1 + len(rows)))
            told = [(row.kind, *(str(value) for value in row.fields.values())) for _, row in rows]
            assert told == crawl.take_events()
            self.events_read[crawl.number] = read + len(rows)

    def check(self) -> None:
        """After an operation that clears nothing away."""
        self.model.settle_all()
        self.check_outcomes()
        self.check_events()

    # Choosing.

    def some_crawl(self, pick: int) -> Crawl:
        """One of the crawls."""
        crawls = list(self.model.crawls.values())
        return crawls[pick % len(crawls)]

    def some_lease(self, pick: int) -> Lease:
        """One of the leases that are out."""
        leases = list(self.model.leases.values())
        return leases[pick % len(leases)]

    def some_ended(self, pick: int) -> Lease:
        """One of the leases that have ended, the last ones first."""
        return list(self.model.ended.values())[-1 - pick % len(self.model.ended)]

    def session(self, node: str) -> str:
        """The present session of a node."""
        return str(self.sessions[node])

    def has_crawl(self) -> bool:
        """Whether there is a crawl."""
        return bool(self.model.crawls)

    def has_lease(self) -> bool:
        """Whether a lease is out."""
        return bool(self.model.leases)

    def has_ended(self) -> bool:
        """Whether a lease has ended."""
        return bool(self.model.ended)

    # Crawls.

    @initialize(
        chosen=crawl_settings,
        seeds=st.lists(spellings, min_size=1, max_size=12),
        files=st.lists(st.sampled_from(ROBOTS_FILES), max_size=len(SITES)),
    )
    def first_crawl(self, chosen: CrawlSettings, seeds: list[Spelled], files: list[RobotsFile]) -> None:
        """A crawl runs from the start, and some robots.txt are known."""
        self.create("first", chosen)
        self.seed(self.model.crawls["first"], seeds)
        self.launch(self.model.crawls["first"])
        self.work_all()
        for file in files:
            for lease in self.ask("north", self.session("north"), None, 1):
                self.report([made_report(lease, 200, file, Fetch())], "north", self.session("north"))

    def create(self, name: str, chosen: CrawlSettings) -> None:
        """Create a crawl."""
        spec = spec_of(chosen)
        view = self.run(lambda frontier, now: frontier.create_crawl(name, chosen, spec, now))
        self.model.created(name, view.number, chosen)
        self.check()

    def seed(self, crawl: Crawl, seeds: Sequence[Spelled]) -> None:
        """Add seeds."""
        texts = [seed.text for seed in seeds]
        self.run(lambda frontier, now: frontier.add_seeds(crawl.name, texts, now))
        self.model.seeds_added(crawl, seeds)
        self.check()

    def launch(self, crawl: Crawl) -> None:
        """Launch a crawl."""
        self.run(lambda frontier, now: frontier.launch(crawl.name, now))
        self.model.launched(crawl)
        self.check()

    def steer(self, crawl: Crawl, target: Input) -> None:
        """Ask a crawl to run, pause or stop."""
        self.run(lambda frontier, now: frontier.request_state(crawl.name, target, now))
        change = {
            Input.RESUME: self.model.resumed,
            Input.PAUSE: self.model.paused,
            Input.STOP: self.model.stopped,
        }
        change[target](crawl)
        self.check()

    def work(self) -> None:
        """One slice of whatever is to be done."""
        self.run(lambda frontier, now: frontier.work(now))
        for crawl in self.model.crawls.values():
            announced = self.shell.frontier.crawl(crawl.name).announced_seeds
            job_left = bool(self.shell.frontier._crawls[crawl.number].jobs)
            self.model.worked(crawl, announced, job_left, self.now_ms)
        self.check()

    def work_all(self) -> None:
        """All slices."""
        for _ in range(MOST_SLICES):
            if not self.shell.frontier.has_work:
                return
            self.work()
        raise AssertionError("jobs do not end")

    @precondition(lambda self: len(self.model.crawls) < 2)
    @step(chosen=crawl_settings)
    def another_crawl(self, chosen: CrawlSettings) -> None:
        """A crawl is created; names may be used again after deletion, numbers may not."""
        name = "second" if "first" in self.model.crawls else "first"
        self.create(name, chosen)
        assert self.model.crawls[name].number not in self.deleted

    @precondition(has_crawl)
    @step(pick=picks, seeds=st.lists(spellings, min_size=1, max_size=6))
    def add_seeds(self, pick: int, seeds: list[Spelled]) -> None:
        """Seeds come at any time."""
        crawl = self.some_crawl(pick)
        if crawl.state is S.FINISHED:
            texts = [seed.text for seed in seeds]
            self.refused(
                errors.CrawlFinished, lambda frontier, now: frontier.add_seeds(crawl.name, texts, now)
            )
        else:
            self.seed(crawl, seeds)

    @precondition(has_crawl)
    @step(pick=picks)
    def launch_one(self, pick: int) -> None:
        """A launch, possible or not."""
        crawl = self.some_crawl(pick)
        if crawl.state is S.NASCENT and crawl.seeds:
            self.launch(crawl)
        else:
            error = errors.NoSeeds if crawl.state is S.NASCENT else errors.IllegalState
            self.refused(error, lambda frontier, now: frontier.launch(crawl.name, now))

    @precondition(has_crawl)
    @step(pick=picks, wish=st.sampled_from(INPUTS))
    def steer_one(self, pick: int, wish: Input) -> None:
        """A request, possible or not (S0.13, S0.15, S0.23; D3)."""
        crawl = self.some_crawl(pick)
        if wish is Input.STOP or crawl.state in (S.RUNNING, S.PAUSING, S.PAUSED):
            self.steer(crawl, wish)
        else:
            self.refused(
                errors.IllegalState, lambda frontier, now: frontier.request_state(crawl.name, wish, now)
            )

    @precondition(has_crawl)
    @step(pick=picks)
    def pause_and_resume(self, pick: int) -> None:
        """Within one moment, with leases out or not (D2)."""
        crawl = self.some_crawl(pick)
        if crawl.state is S.RUNNING:
            for target in (Input.PAUSE, Input.RESUME, Input.PAUSE, Input.RESUME):
                if crawl.state not in (S.STOPPING, S.FINISHED):
                    self.steer(crawl, target)

    @precondition(lambda self: self.shell.frontier.has_work)
    @step()
    def work_once(self) -> None:
        """A slice of a job."""
        self.work()

    @precondition(has_crawl)
    @step(pick=picks)
    def delete_crawl(self, pick: int) -> None:
        """A deletion, possible or not."""
        crawl = self.some_crawl(pick)

        def delete(frontier: Frontier, now_ms: int) -> tuple[None, Changes]:
            return frontier.delete_crawl(crawl.name, now_ms)

        if crawl.state not in (S.NASCENT, S.FINISHED):
            self.refused(errors.CrawlActive, delete)
            return
        self.run(delete)
        self.model.deleted(crawl)
        self.deleted.add(crawl.number)
        self.refused(errors.UnknownCrawl, delete)
        self.check()

    @precondition(has_crawl)
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

    @precondition(has_crawl)
    @step(
        pick=picks,
        offers=st.lists(spellings, min_size=1, max_size=6),
        path=paths,
        directive=st.sampled_from(Directive),
        precedence=st.sampled_from([1, 0, 127]),
        seed=st.sampled_from([False, False, False, True]),
        age_ms=st.sampled_from([None, None, None, 0, 1, 60_000]),
        again=st.booleans(),
    )
    def schedule(
        self,
        pick: int,
        offers: list[Spelled],
        path: str,
        directive: Directive,
        precedence: int,
        seed: bool,
        age_ms: int | None,
        again: bool,
    ) -> None:
        """New, known and forced candidates, perhaps the same request twice (an answer was lost)."""
        crawl = self.some_crawl(pick)
        before_ms = None if age_ms is None else self.now_ms - age_ms
        candidates = [
            candidate(
                offer.text,
                path=path,
                directive=directive,
                precedence=precedence,
                seed=seed,
                refetch_before_ms=before_ms,
            )
            for offer in offers
        ]
        if crawl.state is S.FINISHED:
            self.refused(
                errors.CrawlFinished, lambda frontier, now: frontier.schedule(crawl.name, candidates, now)
            )
            return
        for _ in range(1 + again):
            verdicts = self.run(lambda frontier, now: frontier.schedule(crawl.name, candidates, now))
            assert len(verdicts) == len(offers)
            for offer, verdict in zip(offers, verdicts, strict=True):
                expected = self.model.verdict(crawl, offer, path, before_ms, seed, self.now_ms)
                possible = {expected}
                if before_ms is None and offer.text in crawl.texts:
                    possible.add(Verdict.ALREADY_SEEN)  # it may be known by its text
                assert verdict in possible, f"{offer.text}: {verdict}, not {expected}"
                self.model.offered(crawl, offer, verdict, (directive, precedence), self.now_ms)
            self.check()

    @precondition(has_crawl)
    @step(
        pick=picks,
        kind=st.sampled_from(
            ["text", "scheme", "long", "via", "path", "hop", "precedence", "directive", "out"]
        ),
    )
    def schedule_nonsense(self, pick: int, kind: str) -> None:
        """Candidates that cannot be taken in get a verdict, and leave no trace but its count."""
        crawl = self.some_crawl(pick)
        if crawl.state is S.FINISHED:
            return
        uri = SITES[0].uri("/never")
        made: dict[str, tuple[Candidate, Verdict]] = {
            "text": (candidate("not a URI"), Verdict.MALFORMED),
            "scheme": (candidate("ftp://alpha.example/"), Verdict.UNSUPPORTED_SCHEME),
            "long": (candidate(uri + "x" * 9_000), Verdict.TOO_LONG),
            "via": (candidate(uri, via="x" * 9_000), Verdict.TOO_LONG),
            "path": (candidate(uri, path="L" * 3_000), Verdict.TOO_LONG),
            "hop": (candidate(uri, path="LZ"), Verdict.MALFORMED),
            "precedence": (candidate(uri, precedence=128), Verdict.MALFORMED),
            "directive": (candidate(uri, directive=5), Verdict.MALFORMED),
            "out": (candidate(ELSEWHERE.uri("/")), Verdict.OUT_OF_SCOPE),
        }
        offered, expected = made[kind]
        answer = self.run(lambda frontier, now: frontier.schedule(crawl.name, [offered], now))
        assert answer == [expected]
        crawl.verdicts[expected.value] += 1
        self.check()

    # Nodes.

    def ask(self, node: str, session: str, name: str | None, most: int) -> list[Lease]:
        """Next; the leases that it brought."""
        answer = self.run(lambda frontier, now: frontier.next(node, session, most, name, now))
        self.model.heard(node, session, self.now_ms)
        self.check_outcomes(clearing=True)
        for grant in answer.grants:
            self.model.granted(self.model.crawls[grant.crawl], grant, node, session, self.now_ms)
        self.model.answered(answer, name, most, self.now_ms)
        self.check()
        return [self.model.leases[grant.token] for grant in answer.grants]

    def report(self, reports: Sequence[tuple[Report, RobotsFile]], node: str, session: str) -> None:
        """Finished."""
        sent = [report for report, _ in reports]
        results = self.run(lambda frontier, now: frontier.finished(sent, node, session, now))
        self.model.heard(node, session, self.now_ms)
        for (report, file), result in zip(reports, results, strict=True):
            self.model.reported(report, file, result, self.now_ms)
        self.check()

    @precondition(has_crawl)
    @step(node=st.sampled_from(NODES), pick=picks, named=st.booleans(), most=st.integers(1, 4))
    def next(self, node: str, pick: int, named: bool, most: int) -> None:
        """A node asks for leases, of a crawl or of any."""
        self.ask(node, self.session(node), self.some_crawl(pick).name if named else None, most)

    @precondition(has_lease)
    @step(
        wanted=st.lists(picks, min_size=1, max_size=3),
        status=st.sampled_from(PAGE_STATUSES),
        robots_status=st.sampled_from(ROBOTS_STATUSES),
        file=st.sampled_from(ROBOTS_FILES),
        fetch=fetches,
        again=st.booleans(),
    )
    def finish(
        self,
        wanted: list[int],
        status: int,
        robots_status: int,
        file: RobotsFile,
        fetch: Fetch,
        again: bool,
    ) -> None:
        """Reports of leases, perhaps the same request twice (an answer was lost)."""
        leases = {lease.token: lease for lease in map(self.some_lease, wanted)}
        node = next(iter(leases.values())).node
        reports = [
            made_report(lease, robots_status if lease.robots else status, file, fetch)
            for lease in leases.values()
        ]
        for _ in range(1 + again):
            self.report(reports, node, self.session(node))

    @precondition(has_crawl)
    @step(
        node=st.sampled_from(NODES),
        most=st.integers(1, 6),
        patience=st.integers(1, 4),
        links=st.lists(spellings, max_size=3),
        status=st.sampled_from(PAGE_STATUSES),
        robots_status=st.sampled_from(ROBOTS_STATUSES),
        file=st.sampled_from(ROBOTS_FILES),
        fetch=fetches,
    )
    def visit(
        self,
        node: str,
        most: int,
        patience: int,
        links: list[Spelled],
        status: int,
        robots_status: int,
        file: RobotsFile,
        fetch: Fetch,
    ) -> None:
        """What a node does all day: ask, wait until something is due, fetch, offer links, report."""
        session = self.session(node)
        leases = self.ask(node, session, None, most)
        for _ in range(patience):
            if not leases:
                self.tick_when_due()
                leases = self.ask(node, session, None, most)
        for lease in leases:
            crawl = self.model.crawls[lease.crawl]
            if links and not lease.robots:
                self.offer_links(crawl, lease, links)
        if leases:
            reports = [
                made_report(lease, robots_status if lease.robots else status, file, fetch) for lease in leases
            ]
            self.report(reports, node, session)

    def offer_links(self, crawl: Crawl, lease: Lease, links: Sequence[Spelled]) -> None:
        """Links of a page, one hop from it."""
        found = [candidate(link.text, via=lease.uri, path="L") for link in links]
        verdicts = self.run(lambda frontier, now: frontier.schedule(crawl.name, found, now))
        for link, verdict in zip(links, verdicts, strict=True):
            assert verdict is self.model.verdict(crawl, link, "L", None, False, self.now_ms)
            self.model.offered(crawl, link, verdict, (Directive.NORMAL, 1), self.now_ms)
        self.check()

    @precondition(has_ended)
    @step(pick=picks, status=st.sampled_from(PAGE_STATUSES), released=st.booleans(), fetch=fetches)
    def report_again(self, pick: int, status: int, released: bool, fetch: Fetch) -> None:
        """A report of a lease that has ended: repeated, or stale. It counts nothing."""
        lease = self.some_ended(pick)
        report, _ = made_report(lease, status, OPEN, fetch)
        report = replace(report, released=released)
        self.report([(report, OPEN)], lease.node, self.session(lease.node))

    @precondition(has_lease)
    @step(pick=picks, status=st.sampled_from(SENSELESS), fetch=fetches)
    def report_nonsense(self, pick: int, status: int, fetch: Fetch) -> None:
        """A report that makes no sense; the lease goes on."""
        lease = self.some_lease(pick)
        session = self.session(lease.node)
        self.report([made_report(lease, status, OPEN, fetch)], lease.node, session)
        assert lease.token in self.model.leases or lease.session != session

    @precondition(lambda self: self.model.leases or self.model.ended)
    @step(pick=picks, place=st.integers(0, 60), bit=st.integers(0, 7), cut=st.booleans())
    def forge(self, pick: int, place: int, bit: int, cut: bool) -> None:
        """A token that was never given out, however near it comes to one that was."""
        tokens = [*self.model.leases, *self.model.ended]
        token = bytearray(tokens[pick % len(tokens)])
        if cut:
            del token[place % len(token) :]
        else:
            token[place % len(token)] ^= 1 << bit
        forged = bytes(token)
        node, session = NODES[0], self.session(NODES[0])
        report = Report(forged, fetch_status=200)
        results = self.run(lambda frontier, now: frontier.finished([report], node, session, now))
        assert results == [ReportResult(Disposition.UNKNOWN_TOKEN)]
        self.model.heard(node, session, self.now_ms)
        self.check()
        answer = self.run(lambda frontier, now: frontier.heartbeat(node, session, [forged], [], now))
        assert answer.ended == [forged]
        self.run(lambda frontier, now: frontier.take_back([forged], now))
        self.check()

    @precondition(has_lease)
    @step(pick=picks)
    def release(self, pick: int) -> None:
        """A node hands back what it has not started."""
        lease = self.some_lease(pick)
        self.report([(Report(lease.token, released=True), OPEN)], lease.node, self.session(lease.node))

    @precondition(has_lease)
    @step(wanted=st.lists(picks, min_size=1, max_size=3))
    def take_back(self, wanted: list[int]) -> None:
        """The caller of `next` was gone."""
        tokens = [self.some_lease(pick).token for pick in wanted]
        self.run(lambda frontier, now: frontier.take_back(tokens, now))
        for token in tokens:
            self.model.released(token)
        self.check()

    @precondition(has_crawl)
    @step(
        node=st.sampled_from(NODES),
        length_ms=st.sampled_from([20_000, 1_000, 0]),
        spared=picks,
        ended=picks,
    )
    def heartbeat(self, node: str, length_ms: int, spared: int, ended: int) -> None:
        """After a while a node names its leases, perhaps all but one, and perhaps one that has ended."""
        self.shell.now_ms += length_ms
        if self.model.leases:
            node = self.some_lease(spared).node
        held = [lease.token for lease in self.model.leases.values() if lease.node == node]
        if spared % 3 == 0:
            held = held[1:]
        if ended % 3 == 0 and self.model.ended:
            held.append(self.some_ended(ended).token)
        session = self.session(node)
        steps = [("FETCHING", len(held))]
        answer = self.run(lambda frontier, now: frontier.heartbeat(node, session, held, steps, now))
        self.model.heard(node, session, self.now_ms)
        assert (answer.ended, answer.release) == self.model.heartbeat(held, self.now_ms)
        seen = {view.node: view for view in self.shell.frontier.nodes()}[node]
        assert seen.leased == sum(lease.node == node for lease in self.model.leases.values())
        assert seen.toe_steps == tuple(steps) and seen.session == session
        self.check()

    @step(node=st.sampled_from(NODES), asks=st.booleans())
    def lose_node(self, node: str, asks: bool) -> None:
        """A node dies, and its next process shows itself."""
        self.sessions[node] += 1
        if asks and self.model.crawls:
            self.ask(node, self.session(node), None, 2)
        else:
            session = self.session(node)
            self.run(lambda frontier, now: frontier.heartbeat(node, session, [], [], now))
            self.model.heard(node, session, self.now_ms)
            self.check()

    @precondition(lambda self: self.model.superseded)
    @step(pick=picks)
    def old_session_speaks(self, pick: int) -> None:
        """Which is refused, whatever it says."""
        superseded = sorted(self.model.superseded)
        node, session = superseded[pick % len(superseded)]
        error = errors.SessionSuperseded
        self.refused(error, lambda frontier, now: frontier.next(node, session, 1, None, now))
        self.refused(error, lambda frontier, now: frontier.heartbeat(node, session, [], [], now))
        report = Report(b"", fetch_status=200)
        self.refused(error, lambda frontier, now: frontier.finished([report], node, session, now))

    # Time and faults.

    def tick(self) -> None:
        """What has fallen due happens."""
        self.run(lambda frontier, now: frontier.tick(now))
        self.model.ticked(self.now_ms)
        self.check()
        due_ms = self.shell.frontier.next_due_ms()
        assert due_ms is None or due_ms > self.now_ms, "the timer would fire for ever"

    def tick_when_due(self) -> None:
        """The shell's timer: time goes on to the next due moment."""
        due_ms = self.shell.frontier.next_due_ms()
        if due_ms is not None:
            self.shell.now_ms = max(self.now_ms, due_ms)
        self.tick()

    @step(
        length_ms=st.sampled_from(
            [1, 100, 1_000, 3_000, 7_000, PERIOD_MS, PERIOD_MS + 1, 2_500_000, 25 * 3_600_000]
        )
    )
    def pass_time(self, length_ms: int) -> None:
        """Time passes, and the timer is late."""
        self.shell.now_ms += length_ms

    @step()
    def timer(self) -> None:
        """The timer is on time."""
        self.tick_when_due()

    @step()
    def tick_now(self) -> None:
        """The timer is early."""
        self.tick()

    @step()
    def restart(self) -> None:
        """The server is started anew."""
        self.shell.restart()
        self.model.restarted(self.now_ms)

    @step()
    def crash_in_next_operation(self) -> None:
        """The next operation is worked on, but its changes are never written and its answer never leaves."""
        self.doomed = True

    # What must hold.

    @invariant()
    def everything_agrees(self) -> None:
        """Memory, store and model."""
        self.sound = False
        Audit(self.shell, self.model).run()
        assert self.shell.frontier.log_positions().keys() == {c.number for c in self.model.crawls.values()}
        self.sound = True

    def teardown(self) -> None:
        """Every crawl comes to its end if nodes fetch, time passes and nobody holds it back."""
        if self.sound:
            self.doomed = False
            self.drain()

    def drain(self) -> None:
        """Fetch with success until nothing is left."""
        for crawl in list(self.model.crawls.values()):
            if crawl.state is S.NASCENT and crawl.seeds:
                self.launch(crawl)
            elif crawl.state is S.NASCENT:
                self.steer(crawl, Input.STOP)
            elif crawl.state in (S.PAUSING, S.PAUSED):
                self.steer(crawl, Input.RESUME)
        node, session = "drain", "1"
        for _ in range(MOST_DRAIN_STEPS):
            self.work_all()
            leases = self.ask(node, session, None, 100)
            if leases:
                self.report([made_report(lease, 200, OPEN, Fetch()) for lease in leases], node, session)
            elif all(crawl.state is S.FINISHED for crawl in self.model.crawls.values()):
                break
            else:
                assert self.shell.frontier.next_due_ms() is not None, "a crawl waits for nothing"
                self.tick_when_due()
        else:
            raise AssertionError(f"crawls have not ended after {MOST_DRAIN_STEPS} steps")
        self.work_all()
        frontier = self.shell.frontier
        while frontier.next_due_ms() is not None:  # the timer may still be set for leases that have ended
            self.tick_when_due()
        self.everything_agrees()
        assert not self.model.leases
        for crawl in self.model.crawls.values():
            counts = frontier.statistics(crawl.name, self.now_ms)
            active = Counter({state.value: count for state, count in counts.queue_states.items()})
            assert active["READY"] == active["BUSY"] == active["SNOOZED"] == 0
            if crawl.exit_status.value == "FINISHED":
                assert counts.counts["queued_count"] == 0, "URIs are left after a natural end"
        for number in self.deleted:
            assert nothing_is_left_of(self.shell, number), f"rows of deleted crawl {number} are left"


def made_report(lease: Lease, status: int, file: RobotsFile, fetch: Fetch) -> tuple[Report, RobotsFile]:
    """A report, and the robots.txt that it brings."""
    body = file.body if lease.robots and 200 <= status < 300 else b""
    report = Report(
        lease.token,
        fetch_status=status,
        duration_ms=fetch.duration_ms,
        retry_after_ms=fetch.retry_after_ms,
        body_bytes=fetch.body_bytes,
        robots_body=body,
    )
    return report, file


def profile(examples: int, steps: int) -> settings:
    """Enough for every commit, or for the soak. Explaining a failure would trace, and take minutes."""
    return settings(
        settings(),
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


TestFrontier = FrontierMachine.TestCase
TestFrontier.settings = profile(examples=500, steps=50)


class SoakMachine(FrontierMachine):
    """The same for long, at random."""


TestFrontierForLong = pytest.mark.soak(pytest.mark.timeout(0)(SoakMachine.TestCase))
TestFrontierForLong.settings = profile(examples=3_000, steps=200)
