"""A recrawl within a document limit fetches known pages of any host before new ones of any host."""

import pytest
from core_doubles.codec import candidate
from core_doubles.recount import Recount
from core_doubles.shell import Shell

from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import ExitStatus, Input
from frontier_server.core.spec.settings import (
    CrawlSettings,
    LimitSettings,
    PolitenessSettings,
    QueueSettings,
    RetrySettings,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.state.model import Candidate, Directive, Report, Verdict, Why

SLOW = [f"http://a.example/{page}" for page in range(3)]  # of one host: they take seconds
KNOWN = [*SLOW, "http://b.example/", "http://c.example/"]
NEW = [f"http://{host}.example/new" for host in "uvwxyz"]
MANY = [f"http://{number}.example/new" for number in range(300)]
NO_ANSWER = -2
RETRY_MS = 60_000


class Recrawl(Shell):
    """A crawl that fetches its known pages again, which wait, within a limit of documents."""

    def __init__(self, most: int, per_queue: int = 1, tries: int = 1) -> None:
        super().__init__()
        settings = CrawlSettings(
            allowed_addresses=("loopback",),
            limits=LimitSettings(max_documents=most),
            politeness=PolitenessSettings(
                delay_factor=0, min_delay_ms=1_000, max_delay_ms=1_000, max_parallel=per_queue
            ),
            robots=RobotsSettings(policy="ignore"),
            queues=QueueSettings(max_leases_per_queue=per_queue),
            retry=RetrySettings(max_attempts=tries, delay_ms=RETRY_MS),
            scope=ScopeSettings(accept_patterns=(".*",)),
            run_while_empty=True,
        )
        self.create("crawl", settings)
        self.launch("crawl", *KNOWN)
        assert sorted(self.fetched()) == sorted(KNOWN)
        self.request("crawl", Input.STOP)
        self.now_ms += 60_000
        before_ms = self.now_ms
        self.do(
            lambda core, now: core.control.reopen("crawl", lambda spec: (spec, ()), False, now, "", before_ms)
        )
        self.now_ms += 1
        self.before_ms = before_ms
        self.known = [self.again(uri) for uri in KNOWN]

    def again(self, uri: str) -> Candidate:
        """A page, as a recrawl offers it."""
        return candidate(uri, directive=Directive.HIGH, refetch_before_ms=self.before_ms)

    def fetched(
        self, seconds: int = 20, failing: tuple[str, ...] = (), toes: int = 100, status: int = NO_ANSWER
    ) -> list[str]:
        """Fetch with so many toe threads for so long; what was fetched, in order."""
        fetched = []
        for _ in range(seconds):
            self.tick()
            answer = self.next("crawl", toes)
            while answer.again:
                assert answer.grants
                answer = self.next("crawl", toes)
            fetched += [grant.uri for grant in answer.grants]
            self.finish(
                *(
                    Report(grant.token, fetch_status=status if grant.uri in failing else 200)
                    for grant in answer.grants
                )
            )
            Recount(self, self.core.shard.registry.named("crawl")).run()
            self.now_ms += 1_000
        return fetched

    def reasons(self, queue: str = "") -> list[tuple[Why, str]]:
        """Why nothing is fetched."""
        reasons = self.core.administration.explain("crawl", queue, "", self.now_ms)
        return [(reason.why, reason.message) for reason in reasons]


@pytest.mark.sampled("new_first", [False, True])
@pytest.mark.sampled("restarts", [False, True])
@pytest.mark.parametrize("per_queue", [1, 3])
@pytest.mark.parametrize(("most", "new_fetched"), [(5, 0), (6, 1), (8, 3), (20, 6)])
def test_new_pages_get_what_known_ones_leave_of_the_limit(
    most: int, new_fetched: int, per_queue: int, restarts: bool, new_first: bool
) -> None:
    recrawl = Recrawl(most, per_queue)
    offers = [[candidate(uri) for uri in NEW], recrawl.known]
    for offered in offers if new_first else reversed(offers):
        recrawl.schedule("crawl", *offered)
    fetched = recrawl.fetched(1)
    if restarts:
        recrawl.restart()
    fetched += recrawl.fetched()
    assert set(KNOWN) <= set(fetched)
    assert len(set(fetched) & set(NEW)) == new_fetched
    assert len(fetched) == len(KNOWN) + new_fetched


def test_new_page_takes_the_room_of_a_known_one_that_failed() -> None:
    recrawl = Recrawl(len(KNOWN))
    recrawl.schedule("crawl", *recrawl.known, *NEW)
    fetched = recrawl.fetched(failing=(SLOW[2],))
    assert set(fetched[: len(KNOWN)]) == set(KNOWN) and len(fetched) == len(KNOWN) + 1
    assert fetched[-1] in NEW
    assert recrawl.core.views.crawl("crawl").exit_status is ExitStatus.FINISHED_DOCUMENT_LIMIT


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("status", [-2, -3, -10])
def test_known_page_that_is_tried_again_keeps_its_room(status: int, restarts: bool) -> None:
    recrawl = Recrawl(len(KNOWN), tries=2)
    recrawl.schedule("crawl", *recrawl.known, *NEW)
    fetched = recrawl.fetched(failing=(SLOW[0],), status=status)
    assert set(fetched) <= set(KNOWN)
    assert recrawl.reasons()[0][0] is Why.KNOWN_PAGES_FIRST
    if restarts:
        recrawl.restart()
    recrawl.now_ms += RETRY_MS
    assert set(fetched + recrawl.fetched()) == set(KNOWN)


@pytest.mark.parametrize("status", [-2, -3, -10])
def test_known_page_that_is_offered_again_before_its_retry_counts_once(status: int) -> None:
    recrawl = Recrawl(len(KNOWN), tries=2)
    recrawl.schedule("crawl", *recrawl.known)
    (grant,) = recrawl.grants("crawl", most=1)
    recrawl.finish(Report(grant.token, fetch_status=status))
    assert set(recrawl.schedule("crawl", *recrawl.known)) == {Verdict.ALREADY_QUEUED}
    counters = recrawl.core.shard.registry.named("crawl").counters
    assert (counters.to_revisit, counters.kept_room) == (len(KNOWN), len(KNOWN))
    assert grant.uri not in recrawl.fetched(), "and rests as long as it was to"


def test_new_pages_wait_on_disk_while_known_ones_rest() -> None:
    recrawl = Recrawl(len(KNOWN))
    recrawl.schedule("crawl", *MANY, *recrawl.known)
    recrawl.fetched(2)
    answer = recrawl.next("crawl")
    assert [grant.uri for grant in answer.grants] == [SLOW[2]] and not answer.again
    crawl = recrawl.core.shard.registry.named("crawl")
    assert len(crawl.queues.active) <= 3 and crawl.inactive_queues == len(MANY)


def test_known_page_that_comes_into_a_queue_of_new_ones_lets_it_step_forward() -> None:
    recrawl = Recrawl(len(KNOWN))
    recrawl.schedule("crawl", NEW[0], *recrawl.known)
    assert NEW[0] not in recrawl.fetched(1)
    recrawl.schedule("crawl", recrawl.again("http://u.example/known"))
    assert recrawl.fetched(1) == [SLOW[1], "http://u.example/known"]


@pytest.mark.parametrize("change", [QueueChange(retired=True), QueueChange(paused=True)])
def test_known_pages_that_do_not_come_hold_no_new_ones_up(change: QueueChange) -> None:
    recrawl = Recrawl(len(KNOWN))
    recrawl.schedule("crawl", *recrawl.known, *NEW)
    recrawl.do(lambda core, now: core.administration.change_queue("crawl", "example,a,", change, now))
    fetched = recrawl.fetched()
    assert set(fetched[:2]) == set(KNOWN[3:]) and len(fetched) == len(KNOWN)


def test_urgent_new_page_is_fetched_though_known_ones_wait() -> None:
    recrawl = Recrawl(len(KNOWN))
    recrawl.schedule("crawl", *recrawl.known, candidate(NEW[0], directive=Directive.HIGH))
    assert NEW[0] in recrawl.fetched(1)


def test_new_pages_wait_for_nothing_without_a_limit() -> None:
    recrawl = Recrawl(0)
    recrawl.schedule("crawl", *recrawl.known, *NEW)
    assert set(NEW) <= set(recrawl.fetched(1))


def test_explain_says_that_known_pages_go_first() -> None:
    recrawl = Recrawl(len(KNOWN))
    recrawl.schedule("crawl", *recrawl.known, *NEW[:2])
    recrawl.fetched(1)
    recrawl.next("crawl")
    room = (
        "known pages go first: limits.max_documents leaves room for 2 documents, and 2 known pages of the "
        "recrawl are not fetched again yet"
    )
    assert (Why.KNOWN_PAGES_FIRST, f"2 queues of new pages, and {room}") in recrawl.reasons()
    assert recrawl.reasons("example,u,")[0] == (Why.KNOWN_PAGES_FIRST, f"a new page, and {room}")
