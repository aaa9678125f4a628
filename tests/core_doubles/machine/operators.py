"""What operators do to a crawl that runs: queues, overrides, the seen-set, jobs."""

from core_doubles.machine.base import Base, made, step
from core_doubles.machine.choices import (
    QUEUE_PATTERNS,
    URI_PATTERNS,
    areas,
    controllers,
    overrides,
    picks,
    queue_changes,
    spellings,
)
from core_doubles.model import life, steering
from core_doubles.model.things import Crawl, Job, Offer
from core_doubles.web import Area, Spelled
from hypothesis import strategies as st
from hypothesis.stateful import precondition

from frontier_server.core.core import Core
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.machines.lifecycle import CrawlState
from frontier_server.core.rows import errors
from frontier_server.core.rows.records import ImportRow
from frontier_server.core.rows.store import Changes
from frontier_server.core.state.job import MAX_RUNNING, JobKind
from frontier_server.core.state.model import JobView, QueueView

S = CrawlState
OPEN = frozenset(S) - {S.FINISHED}
KINDS = (
    JobKind.DELETE_URIS,
    JobKind.RETIRE_QUEUES,
    JobKind.UNRETIRE_QUEUES,
    JobKind.UNRETIRE_QUEUES,
    JobKind.WAKE_QUEUES,
    JobKind.VERIFY,
    JobKind.VERIFY,
)


class Operators(Base):
    """Changes on the fly."""

    def has_queue(self) -> bool:
        """Whether a crawl has a queue."""
        return any(crawl.queues for crawl in self.model.crawls.values())

    def has_jobs(self) -> bool:
        """Whether a job has not ended."""
        return any(crawl.jobs or crawl.receiving for crawl in self.model.crawls.values())

    # Queues.

    @precondition(has_queue)
    @step(pick=picks, queue=picks, change=queue_changes, by=controllers)
    def change_queue(self, pick: int, queue: int, change: QueueChange, by: str) -> None:
        """Pause, retire, wake a queue, or change its budgets or precedence; and take it back."""
        with_queues = [crawl for crawl in self.model.crawls.values() if crawl.queues]
        crawl = with_queues[pick % len(with_queues)]
        wanted = sorted(crawl.queues)[queue % len(crawl.queues)]
        self.change(crawl, crawl.queues[wanted].key, change, by)

    def change(self, crawl: Crawl, key: str, change: QueueChange, by: str = "") -> None:
        """Change the queues that have a key."""

        def operation(core: Core, now_ms: int) -> tuple[list[QueueView], Changes]:
            return core.administration.change_queue(crawl.name, key, change, now_ms, by)

        if not self.changes(crawl, operation):
            return
        views = self.run(operation)
        life.acted(crawl, by, "change-queue", key)
        changed = [queue for queue in crawl.queues.values() if queue.key == key]
        assert [view.key for view in views] == [key] * len(changed)
        for queue in changed:
            steering.changed(self.model, crawl, queue, change)
        self.check()

    # Overrides.

    @precondition(Base.has_crawl)
    @step(pick=picks, area=areas, override=overrides, by=controllers)
    def put_override(self, pick: int, area: Area, override: bytes, by: str) -> None:
        """Settings for a part of the web, from the next decision on."""
        crawl = self.some_crawl(pick)

        def put(core: Core, now_ms: int) -> tuple[str, Changes]:
            return core.administration.put_override(crawl.name, area.text, override, now_ms, by)

        if not self.takes_in(crawl, put):
            return
        kept = self.run(put)
        assert kept == area.surt
        life.acted(crawl, by, "put-override", kept)
        steering.override_put(self.model, crawl, kept, override)
        self.check()

    @precondition(Base.has_crawl)
    @step(pick=picks, area=areas, by=controllers)
    def delete_override(self, pick: int, area: Area, by: str) -> None:
        """And without them again."""
        crawl = self.some_crawl(pick)

        def delete(core: Core, now_ms: int) -> tuple[None, Changes]:
            return core.administration.delete_override(crawl.name, area.text, now_ms, by)

        if not self.takes_in(crawl, delete):
            return
        if area.surt not in crawl.overrides:
            self.refused(errors.UnknownOverride, delete)
            return
        self.run(delete)
        life.acted(crawl, by, "delete-override", area.surt)
        steering.override_deleted(self.model, crawl, area.surt)
        self.check()

    # The seen-set.

    @precondition(Base.has_crawl)
    @step(
        pick=picks,
        uris=st.lists(spellings, min_size=1, max_size=3),
        forgets=st.booleans(),
        by=controllers,
    )
    def note_or_forget(self, pick: int, uris: list[Spelled], forgets: bool, by: str) -> None:
        """URIs are noted as seen, or forgotten."""
        crawl = self.some_crawl(pick)
        texts = [uri.text for uri in uris]
        what = f"{len(uris)} URIs" if len(uris) > 1 else texts[0]

        def operation(core: Core, now_ms: int) -> tuple[int, Changes]:
            administration = core.administration
            asked = administration.forget_seen if forgets else administration.record_seen
            return asked(crawl.name, texts, now_ms, by)

        if not self.takes_in(crawl, operation):
            return
        count = self.run(operation)
        if forgets:
            life.acted(crawl, by, "forget-uris", what)
            expected = sum(steering.seen_forgotten(crawl, uri.site, uri.target) for uri in uris)
        else:
            life.acted(crawl, by, "note-uris", what)
            expected = sum(steering.seen_noted(self.model, crawl, uri.site, uri.target) for uri in uris)
        assert count == expected
        self.check()

    # Jobs.

    def start(self, crawl: Crawl, kind: JobKind, parameters: dict[str, str], by: str = "") -> None:
        """Start a job, if there is room for one."""

        def operation(core: Core, now_ms: int) -> tuple[JobView, Changes]:
            return core.administration.start_job(crawl.name, kind, parameters, now_ms, by)

        if not self.changes(crawl, operation):
            return
        if not has_room(crawl):
            self.refused(errors.InvalidRequest, operation)
            return
        view = self.run(operation)
        life.acted(crawl, by, "start-job", kind.value)
        assert view.number == life.start_job(self.model, crawl, kind, parameters).number
        self.check()

    @precondition(Base.has_crawl)
    @step(
        pick=picks,
        kind=st.sampled_from(KINDS),
        queues=st.sampled_from(QUEUE_PATTERNS),
        uris=st.sampled_from(URI_PATTERNS),
        dry_run=st.sampled_from([False, False, True]),
        by=controllers,
    )
    def start_job(self, pick: int, kind: JobKind, queues: str, uris: str, dry_run: bool, by: str) -> None:
        """Deletion, retiring, waking by pattern; verification."""
        parameters = {}
        if kind is not JobKind.VERIFY:
            parameters["queue_pattern"] = queues.replace("+", "\\+")
        if kind is JobKind.DELETE_URIS:
            parameters["uri_pattern"] = uris
            if dry_run:
                parameters["dry_run"] = "true"
        self.start(self.some_crawl(pick), kind, parameters, by)

    @precondition(Base.has_crawl)
    @step(
        pick=picks,
        uris=st.lists(st.tuples(spellings, st.booleans()), max_size=5),
        force=st.booleans(),
        whole=st.sampled_from([True, True, False]),
        by=controllers,
    )
    def import_uris(
        self, pick: int, uris: list[tuple[Spelled, bool]], force: bool, whole: bool, by: str
    ) -> None:
        """URIs are brought, some only to be noted; perhaps whoever brings them is gone before the end."""
        crawl = self.some_crawl(pick)

        def begin(core: Core, now_ms: int) -> tuple[int, Changes]:
            return core.administration.begin_import(crawl.name, force, now_ms, by)

        if not self.takes_in(crawl, begin):
            return
        if not has_room(crawl):
            self.refused(errors.InvalidRequest, begin)
            return
        number = self.run(begin)
        life.acted(crawl, by, "import")
        assert number == crawl.next_job
        parameters = {"force": "true"} if force else {}
        model = self.model
        job = Job(number, JobKind.IMPORT, parameters, "RECEIVING", begun=model.step, create_ms=model.now_ms)
        crawl.next_job += 1
        crawl.receiving[number] = job
        self.check()
        offers = [(Offer(uri), noted) for uri, noted in uris]
        rows = [ImportRow(made(offer).record, noted) for offer, noted in offers]
        if rows and crawl.state in OPEN:
            self.run(lambda core, now: core.administration.add_imports(crawl.name, number, rows, now))
            job.imports = offers
            self.check()
        if whole and crawl.state in OPEN:
            self.run(lambda core, now: core.administration.end_import(crawl.name, number, now))
            crawl.jobs.append(crawl.receiving.pop(number))
            job.state = "RUNNING"
            self.check()

    @precondition(has_jobs)
    @step(pick=picks, place=picks, by=controllers)
    def cancel_job(self, pick: int, place: int, by: str) -> None:
        """A job is to do no more, if it is one of those that may end like that."""
        busy = [crawl for crawl in self.model.crawls.values() if crawl.jobs or crawl.receiving]
        crawl = busy[pick % len(busy)]
        jobs = [*crawl.jobs, *crawl.receiving.values()]
        job = jobs[place % len(jobs)]

        self.cancel(crawl, job, by)

    def cancel(self, crawl: Crawl, job: Job, by: str = "") -> None:
        """Let a job do no more, if it is one of those that may end like that."""

        def cancel(core: Core, now_ms: int) -> tuple[JobView, Changes]:
            return core.administration.cancel_job(crawl.name, job.number, now_ms, by)

        if not self.changes(crawl, cancel):
            return
        if job.kind in (JobKind.SEED, JobKind.RESEED, JobKind.APPRAISE_QUEUES):
            self.refused(errors.InvalidRequest, cancel)
            return
        self.run(cancel)
        life.acted(crawl, by, "cancel-job", f"{job.number} {job.kind.value}")
        job.state = "CANCELLING"
        if job.number in crawl.receiving:
            crawl.jobs.append(crawl.receiving.pop(job.number))
        self.check()

    @precondition(lambda self: self.shell.core.upkeep.has_work)
    @step(slices=st.integers(1, 4))
    def work_on(self, slices: int) -> None:
        """Some slices of jobs."""
        for _ in range(slices):
            if self.shell.core.upkeep.has_work:
                self.work()


def has_room(crawl: Crawl) -> bool:
    """Whether one more job may be started."""
    return len(crawl.jobs) + len(crawl.receiving) < MAX_RUNNING
