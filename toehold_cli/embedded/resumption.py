"""Takes up a crawl of an earlier run: applies new settings and seeds, and reopens it if it has finished.

Each step may be repeated: a run that is killed in between is completed by the next one.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from toehold.frontier.v1.admin_pb2 import AddSeedsResponse, Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlState
from toehold_cli.exits import BadPlan, DirectoryRefused, Interrupted
from toehold_cli.import_file import Format, ImportFile
from toehold_cli.output import status_names
from toehold_cli.setting_changes import change_text, changed_paths
from toehold_client.controller import CrawlController
from toehold_client.errors import IllegalState, InvalidSpec
from toehold_client.seeds import refusal_text
from toehold_client.spec import file as spec_file
from toehold_client.text import count_text, counted
from toehold_client.waits import AwaitedJob
from toehold_client.watching.interruptions import Interruptions

from .crawl_file import CrawlFile
from .directory import CrawlDirectory
from .endings import how_to_extend
from .plan import Plan

_MOST_SEEDS_TOLD = 10
_MOST_LOG_S = 10.0  # longest wait for the last lines of a log

NASCENT, PAUSING = CrawlState.CRAWL_STATE_NASCENT, CrawlState.CRAWL_STATE_PAUSING
PAUSED, FINISHED = CrawlState.CRAWL_STATE_PAUSED, CrawlState.CRAWL_STATE_FINISHED


class GoingOn:
    """One run's taking up of a crawl that exists at its frontier."""

    def __init__(
        self,
        crawl: CrawlController,
        plan: Plan,
        directory: CrawlDirectory,
        say: Callable[[str], None],
        interruptions: Interruptions,
    ) -> None:
        self._crawl = crawl
        self._plan = plan
        self._directory = directory
        self._say = say
        self._interruptions = interruptions
        self._asked = directory.asked or plan.asked
        self._changed = changed_paths(self._asked.spec, plan.spec)
        self._new_seeds = tuple(seed for seed in plan.seeds if seed not in set(self._asked.seeds))

    def take_up(self) -> Crawl:
        """Makes the crawl what the plan asks for, and lets it run; its description.

        A crawl that has finished stays so if nothing new is asked of it. Raises BadPlan, DirectoryRefused and
        Interrupted.
        """
        found = self._crawl.describe()
        if found.status.state == FINISHED:
            if not self._is_more_asked():
                return found  # of a run that was killed before its report
            self._reopen(found)
        elif self._changed:
            update = partial(self._crawl.update, self._plan.spec, self._changed)
            self._tell_changes(found, self._accepted(update))
        now = self._plan.asked
        self._remember(replace(self._asked, spec=now.spec, command=now.command, folder=now.folder))
        self._add_seeds(found.status.state == NASCENT)
        self._fetch_again()
        return self._run(found)

    def _is_more_asked(self) -> bool:
        more = self._changed or self._new_seeds or self._plan.recrawl
        return bool(more) or self._asked.recrawl_before is not None

    def _reopen(self, found: Crawl) -> None:
        counts = self._crawl.statistics().statistics
        if self._plan.recrawl and self._asked.recrawl_before is None:
            self._remember(replace(self._asked, recrawl_before=counts.snapshot_time))
        waiting = counts.queued_count + counts.future_count
        held_back = counts.retired_uri_count + counts.ineligible_uri_count
        if not (waiting or held_back or self._new_seeds or self._asked.recrawl_before):
            raise DirectoryRefused(
                f"the crawl in {self._directory.path} has nothing left to fetch, so other settings would "
                "change nothing\n--recrawl fetches its pages again, with the new settings. --fresh moves it "
                "aside and starts a new one."
            )
        reopen = partial(
            self._crawl.reopen,
            self._plan.spec,
            self._changed,
            pause=True,
            recrawl_before=self._asked.recrawl_before,
        )
        with self._directory.reopening():
            try:
                reopened = self._accepted(reopen)
            except IllegalState as problem:  # a limit is still reached
                self._remember(replace(self._asked, recrawl_before=None))
                advice = how_to_extend(status_names(found.status)[1])
                message = f"the crawl in {self._directory.path} cannot go on: {problem}\n{advice}"
                raise DirectoryRefused(message.rstrip()) from problem
        self._tell_changes(found, reopened)

    def _accepted(self, change: Callable[[], Crawl]) -> Crawl:
        """The answer to a change of settings. BadPlan if the frontier refuses them."""
        try:
            return change()
        except InvalidSpec as refusal:
            problems = spec_file.located(refusal, self._plan.places).problems
            listed = "".join(f"\n  {place}: {problem}" for place, problem in problems.items())
            raise BadPlan(
                f"the frontier refuses the change of settings:{listed or f' {refusal}'}\n"
                "Leave them as they were, or add --fresh to start a new crawl with the new ones."
            ) from refusal

    def _tell_changes(self, before: Crawl, after: Crawl) -> None:
        for name, was, now in spec_file.changes(before.spec, after.spec):
            self._say(f"Changed: {change_text(name, was, now)}.")

    def _add_seeds(self, nascent: bool) -> None:
        wanted = self._plan.seeds if nascent else self._new_seeds
        if not wanted:
            return
        self._raise_if_interrupted()
        tell_refused(self._crawl.add_seeds(wanted, on_refused="report"), self._plan, self._say)
        if not nascent:
            self._say(f"Added: {counted(len(wanted), 'seed')}.")
        elif self._crawl.describe().seed_count == 0:
            raise BadPlan("no seed is left, so there is nothing to crawl")
        self._remember(replace(self._asked, seeds=self._plan.seeds))

    def _fetch_again(self) -> None:
        """Schedules the URIs of the crawl's log again, if a recrawl is being prepared."""
        before = self._asked.recrawl_before
        if before is None:
            return
        self._raise_if_interrupted()
        logs = self._directory.crawl_logs(self._plan.crawl)
        self._await_lines(logs)
        for log in [log for log in logs if log.exists()] or logs:  # a shard may have had no URI
            self._import(ImportFile(log, Format.CRAWL_LOG, refetch_before=before))
        self._remember(replace(self._asked, recrawl_before=None))
        self._say(self._told_again())

    def _import(self, source: ImportFile) -> None:
        job = self._crawl.frontier.import_uris(self._crawl.crawl, source.entries())
        awaited = AwaitedJob(self._crawl.crawl, None)
        while (rest_s := awaited.rest_s(job)) is not None:
            self._interruptions.wait(rest_s)
            self._raise_if_interrupted()
            job = self._crawl.frontier.get_job(self._crawl.crawl, job.job)

    def _told_again(self) -> str:
        """What a recrawl will fetch."""
        pages = self._crawl.statistics().statistics.revisit_count
        again, limit = f"Will fetch {counted(pages, 'page')} again", self._plan.spec.limits.max_documents
        if not limit:
            return f"{again}."
        room = f"{count_text(limit)} fetch{'' if limit == 1 else 'es'}"
        return f"{again}; the limit leaves room for {room}, new pages included."

    def _await_lines(self, logs: Sequence[Path]) -> None:
        """Waits until logs have their last lines, which the frontier may still be writing after a kill."""
        counts = self._crawl.statistics().statistics
        wanted = counts.succeeded_count + counts.failed_count + counts.disregarded_count
        give_up_s = time.monotonic() + _MOST_LOG_S
        while time.monotonic() < give_up_s and sum(map(_page_lines, logs)) < wanted:
            self._interruptions.wait(0.2)
            self._raise_if_interrupted()

    def _run(self, found: Crawl) -> Crawl:
        self._raise_if_interrupted()
        if found.status.state == NASCENT:
            self._crawl.launch()
        else:
            now = self._crawl.status()
            if now.state in (PAUSED, PAUSING):
                if found.status.state != FINISHED and found.status.reason:
                    self._say(f"The crawl was paused: {found.status.reason}.")
                self._crawl.resume()
        return self._crawl.describe()

    def _remember(self, record: CrawlFile) -> None:
        if record != self._asked:
            self._asked = record
            self._directory.remember(record)

    def _raise_if_interrupted(self) -> None:
        if self._interruptions.count:
            raise Interrupted


def _page_lines(log: Path) -> int:
    """How many lines of a log are not about a robots.txt; 0 if there is no log."""
    if not log.exists():
        return 0
    with log.open("rb") as file:
        paths = (line.split(None, 5)[4:5] for line in file)
        return sum(1 for path in paths if path and not path[0].endswith(b"P"))


def tell_refused(answer: AddSeedsResponse, plan: Plan, say: Callable[[str], None]) -> None:
    """Tells which seeds the frontier has refused. BadPlan unless they are to be skipped."""
    if not answer.rejected_count:
        return
    lines = [refusal_text(seed) for seed in answer.rejected[:_MOST_SEEDS_TOLD]]
    more = answer.rejected_count - len(lines)
    if more > 0:
        lines.append(f"and {count_text(more)} more")
    listed = "".join(f"\n  {line}" for line in lines)
    refused = f"the frontier refuses {counted(answer.rejected_count, 'seed')}:{listed}"
    if not plan.skip_bad_seeds:
        raise BadPlan(f"{refused}\nTo crawl from the other seeds, add --skip-bad-seeds.")
    say(f"Skipped: {refused}")
