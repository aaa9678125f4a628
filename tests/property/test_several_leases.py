"""Random histories of crawls whose queues give several leases: promises, without a model of the rules.

`test_frontier_machine` has a model for queues that give one lease at a time. Here a few invariants stand for
it: no URI is out twice, no queue, host or gap is overrun, rows and memory agree after each step, and in the
end each URI has been fetched, or was taken back by those who offered it.
"""

from collections import Counter
from random import Random

import pytest
from core_doubles.codec import candidate
from core_doubles.rebuilt import as_rebuilt
from core_doubles.recount import Recount
from core_doubles.shell import CheckedShell
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frontier_server.core.journey.dispatch import Want
from frontier_server.core.journey.kept import SeenFilter
from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.spec.settings import (
    CrawlSettings,
    IdentitySettings,
    PolitenessSettings,
    QueueSettings,
    RetrySettings,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Candidate, Grant, Report, UriState

SECOND = 1_000
HOSTS = ("a", "b", "c")
PAGES = 12
NAME = "crawl"


def spec(random: Random) -> CrawlSettings:
    """Settings that let queues give several leases, in some way or other."""
    delay_ms = random.choice((0, 0, 2 * SECOND))
    return CrawlSettings(
        allowed_addresses=("loopback",),
        politeness=PolitenessSettings(
            delay_factor=0.0,
            min_delay_ms=delay_ms,
            max_delay_ms=delay_ms,
            max_parallel=random.choice((1, 2, 5, 1_000)),
        ),
        robots=RobotsSettings(policy=random.choice(("ignore", "ignore", "obey"))),
        scope=ScopeSettings(accept_patterns=(".*",)),
        identity=IdentitySettings(keep_uris=True),
        retry=RetrySettings(max_attempts=50, delay_ms=SECOND, max_lapses=200),
        queues=QueueSettings(
            max_leases_per_queue=random.choice((1, 2, 3, 1_000)),
            min_gap_ms=random.choice((0, 0, SECOND)),
            uri_order=random.choice(("arrival", "due-time")),
            session_budget=random.choice((-1, 3)),
            assignment=random.choice(("surt-authority", "surt-authority", "buckets")),
            buckets=2,
        ),
        run_while_empty=True,
    )


class History:
    """A crawl, the callers' view of it, and the promises."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.spec = spec(random)
        self.shell = CheckedShell(period_ms=60 * SECOND)
        self.shell.create(NAME, self.spec)
        self.out: dict[bytes, Grant] = {}
        self.offered: set[str] = set()
        self.done: Counter[str] = Counter()
        self.given_ms: dict[bytes, int] = {}  # queue → when its last turn was
        self.offer(8)
        self.shell.do(lambda core, now: core.control.launch(NAME, now))
        self.shell.work()

    # Steps.

    def made(self) -> Candidate:
        random, shell = self.random, self.shell
        uri = f"http://{random.choice(HOSTS)}.example/{random.randrange(PAGES)}"
        self.offered.add(uri)
        return candidate(
            uri,
            directive=random.choice((4, 4, 4, 2)),
            not_before_ms=random.choice((0, 0, shell.now_ms - 5 * SECOND, shell.now_ms + 3 * SECOND)),
            queue_key=random.choice(("", "", "own")),
        )

    def offer(self, most: int = 4) -> None:
        self.shell.schedule(NAME, *(self.made() for _ in range(self.random.randrange(1, most))))

    def offer_anew(self) -> None:
        one = self.made()
        self.shell.do(lambda core, now: core.frontier.schedule(NAME, [one], now, replace=True))
        self.taken_back(one.uri)
        self.done[one.uri] = 0

    def note(self) -> None:
        uri = self.made().uri
        self.shell.do(lambda core, now: core.administration.record_seen(NAME, [uri], now, replace=True))
        self.taken_back(uri)

    def taken_back(self, uri: str) -> None:
        """A lease of the URI, or of the robots.txt that it waits for, has ended."""
        self.out = {
            token: grant
            for token, grant in self.out.items()
            if grant.uri != uri and not (grant.robots and grant.candidate.uri == uri)
        }

    def ask(self) -> None:
        random = self.random
        queues = random.choice(((), (), (), ("own",), ("a.example", "example,b,")))
        want = Want(random.choice((1, 3, 100)), random.choice((0, 0, 1, 2)), random.choice((0, 0, 1)), queues)
        grants = self.shell.do(lambda core, now: core.frontier.next("node", "1", want, NAME, now)).grants
        crawl = self.shell.core.shard.registry.named(NAME)
        turns: Counter[bytes] = Counter()
        for grant in grants:
            lease = self.shell.core.shard.leases.out(grant.token)
            assert lease is not None
            turns[lease.row.queue] += not grant.robots
            self.out[grant.token] = grant
            allowed = self.spec.queues.max_leases_per_queue
            assert crawl.queues.active[lease.row.queue].leases_out <= allowed
            if want.per_queue and not grant.robots:
                assert crawl.queues.active[lease.row.queue].leases_out <= want.per_queue
        if want.most_queues:
            assert len(turns) <= want.most_queues
        for queue in +turns:
            gap_ms = self.shell.now_ms - self.given_ms.get(queue, 0)
            assert gap_ms >= self.spec.queues.min_gap_ms or not gap_ms, "a gap is kept between turns"
            self.given_ms[queue] = self.shell.now_ms
        pages = [grant.uri for grant in self.out.values() if not grant.robots]
        assert len(pages) == len(set(pages)), "no URI is out twice"
        assert {*pages} <= self.offered

    def report(self) -> None:
        for token in self.random.sample(sorted(self.out), min(len(self.out), self.random.randrange(1, 4))):
            grant = self.out.pop(token)
            status = self.random.choice((404,) if grant.robots else (200, 200, 200, -2, 503))
            (result,) = self.shell.finish(Report(token, fetch_status=status, duration_ms=10))
            assert result.disposition.value in ("SUCCEEDED", "DEFERRED")
            if not grant.robots and result.disposition.value == "SUCCEEDED":
                self.done[grant.uri] += 1
                assert self.done[grant.uri] == 1, "each once"

    def release(self) -> None:
        if self.out:
            token = self.random.choice(sorted(self.out))
            del self.out[token]
            (result,) = self.shell.finish(Report(token, released=True))
            assert result.disposition.value == "RELEASED"

    def wait(self) -> None:
        self.shell.now_ms += self.random.choice((100, SECOND, 3 * SECOND))
        self.shell.tick()

    def lapse(self) -> None:
        self.shell.now_ms += 61 * SECOND
        self.shell.tick()
        self.out.clear()

    def restart(self) -> None:
        self.shell.restart()

    def pause(self) -> None:
        self.shell.request(NAME, Input.PAUSE)
        if self.shell.state(NAME) is CrawlState.PAUSED or self.random.random() < 0.5:
            self.shell.request(NAME, Input.RESUME)
        else:
            self.release_all()
            self.shell.request(NAME, Input.RESUME)

    def release_all(self) -> None:
        for token in sorted(self.out):
            self.shell.finish(Report(token, released=True))
        self.out.clear()

    def forget(self) -> None:
        parameters = SeenFilter(host=f"{self.random.choice(HOSTS)}.example").parameters()
        if self.random.random() < 0.5:
            parameters = SeenFilter(queue_key="own").parameters() | {"waiting": "true"}
        self.shell.do(
            lambda core, now: core.administration.start_job(NAME, JobKind.FORGET_URIS, parameters, now)
        )
        self.shell.work()
        for uri in self.offered:
            if self.story(uri) is UriState.NEVER_SEEN:
                self.done[uri] = 0
        self.given_ms.clear()  # a queue that is forgotten has no gap

    def story(self, uri: str) -> UriState:
        return self.shell.core.administration.story(NAME, uri, self.shell.now_ms).state

    # Promises.

    def holds(self) -> None:
        crawl = self.shell.core.shard.registry.named(NAME)
        Recount(self.shell, crawl).run()
        as_rebuilt(self.shell)
        at_hosts = Counter(grant.uri.split("/")[2] for grant in self.out.values())
        assert max(at_hosts.values(), default=0) <= self.spec.politeness.max_parallel, "requests at once"
        held = {lease.sent for lease in self.shell.core.shard.leases}
        assert held == set(self.out), "the frontier knows just these leases"

    def ends(self) -> None:
        """What is left is fetched, and nothing is wrong with what is stored."""
        for _ in range(2_000):
            self.ask()
            for token in sorted(self.out):
                grant = self.out.pop(token)
                self.shell.finish(Report(token, fetch_status=404 if grant.robots else 200))
            self.shell.now_ms += SECOND
            self.shell.tick()
            if not self.shell.count(NAME, "queued_count") + self.shell.count(NAME, "future_count"):
                break
        else:
            pytest.fail("URIs are left that nobody gets")
        for uri in self.offered:
            assert self.story(uri) in (UriState.DONE, UriState.NEVER_SEEN), uri
        view = self.shell.do(lambda core, now: core.administration.start_job(NAME, JobKind.VERIFY, {}, now))
        self.shell.work()
        assert self.shell.core.administration.job(NAME, view.number).changed == 0


STEPS = ("ask", "ask", "ask", "report", "report", "report", "offer", "wait", "wait", "release", "offer_anew")
RARE = ("note", "lapse", "restart", "pause", "forget")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1))
def test_several_leases_of_a_queue_break_no_promise_in_any_history(seed: int) -> None:
    random = Random(seed)
    history = History(random)
    for _ in range(60):
        step = random.choice(RARE if random.random() < 0.12 else STEPS)
        getattr(history, step)()
        history.holds()
    history.ends()
