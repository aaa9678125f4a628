"""A job with a part in each shard: the coordinator's row sums up what parts say, and outlives a restart."""

import pytest
from core_doubles.parted import CRAWL, Head

from frontier_server.coordinator.jobs import Errand, JobPart, PartedJobs
from frontier_server.coordinator.whole import WholeCrawl
from frontier_server.core.rows.errors import IllegalState
from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import JobView, Verdict

PATTERNS = {"queue_pattern": ".*", "uri_pattern": ".*a"}
DONE, CANCELLED = "DONE", "CANCELLED"


class Foreman:
    """A coordinator of three parts with a crawl, and its jobs."""

    def __init__(self) -> None:
        self.head = Head(3)
        self.head.create(CRAWL, CrawlSettings(contact="https://example.org/"))
        self.jobs = PartedJobs(self.head.core.shard, 3)

    def restart(self) -> None:
        self.head.restart()
        self.jobs = PartedJobs(self.head.core.shard, 3)

    def start(self, kind: JobKind = JobKind.DELETE_URIS) -> int:
        """Start a job; its number."""
        parameters = PATTERNS if kind is JobKind.DELETE_URIS else {}
        view = self.head.do(lambda core, now: core.administration.start_job(CRAWL, kind, parameters, now))
        return view.number

    def errand(self) -> Errand:
        (errand,) = self.jobs.errands()
        return errand

    def hear(self, *parts: JobPart, away: tuple[int, ...] = ()) -> None:
        errand = self.errand()
        self.head.do(lambda core, now: self.jobs.record(errand, parts, away, now))

    def job(self, number: int) -> JobView:
        return self.head.core.administration.job(CRAWL, number)

    def ended(self) -> list[dict[str, str | int]]:
        """The ends of jobs that the crawl's readers are told of."""
        return [event.fields for event in self.head.events(CRAWL) if event.kind == "job_ended"]


@pytest.fixture
def foreman() -> Foreman:
    return Foreman()


def test_a_job_sums_up_its_parts_and_ends_once_all_have(foreman: Foreman) -> None:
    number = foreman.start()
    assert foreman.errand() == Errand(
        CRAWL, 1, number, JobKind.DELETE_URIS, PATTERNS, cancels=False, parts=[JobPart()] * 3
    )
    one = JobPart(7, ended=DONE, done=10, changed=4, counts={"leased": 1}, findings=("a",))
    other = JobPart(2, done=5, changed=1, counts={"leased": 2, "kept": 1}, findings=("b",))
    foreman.hear(one, other, JobPart(after=3), away=(2,))
    job = foreman.job(number)
    assert (job.state, job.done, job.changed, job.counts) == ("RUNNING", 15, 5, {"leased": 3, "kept": 1})
    assert job.findings == ("shard 2 is away; its part goes on when it is back", "a", "b")
    assert (job.parameters, foreman.ended()) == (PATTERNS, [])
    foreman.hear(one, JobPart(2, ended=DONE, done=6), JobPart(4, ended=DONE, done=1))
    job = foreman.job(number)
    assert (job.state, job.done, job.findings, foreman.jobs.errands()) == (DONE, 17, ("a",), [])
    assert foreman.ended() == [{"job": number, "kind": "delete-uris", "outcome": DONE}]


def test_what_is_told_of_a_deleted_crawl_changes_no_job_of_a_new_one_with_its_name(foreman: Foreman) -> None:
    foreman.start()
    late = foreman.errand()
    foreman.head.do(lambda core, now: core.control.delete_crawl(CRAWL, now))
    foreman.head.create(CRAWL, CrawlSettings(contact="https://example.org/"))
    number = foreman.start()
    assert late.job == number
    foreman.head.do(lambda core, now: foreman.jobs.note(late, 0, JobPart(7), now))
    foreman.head.do(lambda core, now: foreman.jobs.record(late, [JobPart(ended=CANCELLED)] * 3, (), now))
    assert (foreman.job(number).state, foreman.errand().parts) == ("RUNNING", [JobPart()] * 3)


def test_a_restart_goes_on_with_what_is_known_of_each_part(foreman: Foreman) -> None:
    foreman.start()
    parts = [JobPart(7, ended=DONE, findings=("a",)), JobPart(2, done=5), JobPart(after=3)]
    foreman.hear(*parts)
    foreman.restart()
    assert foreman.errand().parts == parts


def test_two_parts_that_are_about_to_begin_are_both_noted(foreman: Foreman) -> None:
    foreman.start()
    errand, jobs = foreman.errand(), foreman.jobs
    foreman.head.do(lambda core, now: jobs.note(errand, 0, JobPart(after=0), now))
    foreman.head.do(lambda core, now: jobs.note(errand, 1, JobPart(after=1), now))
    foreman.restart()
    assert foreman.errand().parts == [JobPart(after=0), JobPart(after=1), JobPart()]


def test_the_jobs_of_a_part_that_others_have_are_known(foreman: Foreman) -> None:
    foreman.start()
    foreman.hear(JobPart(7, ended=DONE), JobPart(2, ended=DONE), JobPart(4, ended=DONE))
    foreman.start()
    foreman.hear(JobPart(8), JobPart(), JobPart())
    assert foreman.jobs.claimed(CRAWL, 0) - {0} == {7, 8}


def test_a_job_is_cancelled_if_one_of_its_parts_was(foreman: Foreman) -> None:
    number = foreman.start()
    foreman.hear(JobPart(1, ended=DONE), JobPart(1, ended=CANCELLED), JobPart(1, ended=DONE))
    assert foreman.job(number).state == CANCELLED


def test_a_job_that_somebody_cancels_is_cancelled_although_its_parts_were_done(foreman: Foreman) -> None:
    number = foreman.start()
    foreman.hear(JobPart(1), JobPart(1), JobPart(1))
    foreman.head.do(lambda core, now: core.administration.cancel_job(CRAWL, number, now))
    assert foreman.errand().cancels
    foreman.hear(*[JobPart(1, ended=DONE)] * 3)
    assert foreman.job(number).state == CANCELLED


def test_no_more_findings_are_kept_than_a_job_shows(foreman: Foreman) -> None:
    number = foreman.start()
    foreman.hear(
        *[JobPart(1, findings=tuple(f"{part} {finding}" for finding in range(70))) for part in range(3)]
    )
    assert len(foreman.job(number).findings) == 100
    assert [len(part.findings) for part in foreman.errand().parts] == [70, 30, 0]


def test_jobs_wait_for_the_seeds_that_were_added_before_them(foreman: Foreman) -> None:
    head = foreman.head
    head.do(lambda core, now: core.control.add_seeds(CRAWL, ["http://a.example/"], now))
    head.do(lambda core, now: core.control.launch(CRAWL, now))
    foreman.start()
    assert (head.coordinator.announcing(), foreman.jobs.errands()) == ([CRAWL], [])
    announcement = head.do(lambda core, now: head.coordinator.next_seeds(CRAWL, now))
    assert announcement is not None
    verdicts = [Verdict.QUEUED]
    head.do(lambda core, now: head.coordinator.announced(announcement, verdicts, now))
    head.do(lambda core, now: head.coordinator.next_seeds(CRAWL, now))
    assert head.coordinator.announcing() == []
    assert foreman.errand().kind is JobKind.DELETE_URIS


def test_queues_are_appraised_by_the_parts_as_settings_reach_them(foreman: Foreman) -> None:
    number = foreman.start(JobKind.APPRAISE_QUEUES)
    foreman.hear(*foreman.errand().parts)
    assert foreman.job(number).state == DONE


# Imports.


def begun_import(foreman: Foreman) -> int:
    return foreman.head.do(lambda core, now: core.administration.begin_import(CRAWL, False, now))


def test_an_import_begins_with_the_parts_that_have_rows(foreman: Foreman) -> None:
    number = begun_import(foreman)
    foreman.head.do(lambda core, now: foreman.jobs.count_received(CRAWL, number, 30, now))
    assert (foreman.job(number).state, foreman.job(number).total) == ("RECEIVING", 30)
    assert foreman.jobs.errands() == []
    foreman.head.do(lambda core, now: foreman.jobs.begin_import(CRAWL, number, {1: (5, 30)}, now))
    assert foreman.job(number).state == "RUNNING"
    done = JobPart(ended=DONE)
    assert foreman.errand().parts == [done, JobPart(5, total=30), done]
    foreman.hear(done, JobPart(5, ended=DONE, done=30, total=30), done)
    assert (foreman.job(number).state, foreman.job(number).done) == (DONE, 30)


def test_an_import_whose_rows_have_not_all_come_ends_with_a_restart(foreman: Foreman) -> None:
    number = begun_import(foreman)
    foreman.restart()
    errand = foreman.errand()
    assert errand.cancels and all(part.ended == CANCELLED for part in errand.parts)
    foreman.hear(*errand.parts)
    assert foreman.job(number).state == CANCELLED
    with pytest.raises(IllegalState, match="RECEIVING"):
        foreman.head.do(lambda core, now: foreman.jobs.count_received(CRAWL, number, 1, now))


def test_the_jobs_of_a_crawl_that_is_torn_down_are_cancelled(foreman: Foreman) -> None:
    foreman.start()
    assert not foreman.errand().cancels
    foreman.head.do(lambda core, now: core.control.tear_down(CRAWL, now))
    assert foreman.errand().cancels


def test_the_jobs_of_a_held_crawl_stand_still(foreman: Foreman, monkeypatch: pytest.MonkeyPatch) -> None:
    foreman.start()
    monkeypatch.setattr(WholeCrawl, "held", True)
    assert foreman.jobs.errands() == []
