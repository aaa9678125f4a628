"""Runs a crawl with its own frontier server and crawler node: starts them, starts or resumes the crawl,
watches it, and stops them in the right order.

The frontier decides about the crawl and holds all its state.
"""

import re
import sys
from contextlib import suppress
from typing import Self

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlState
from toehold_cli.exits import BadPlan, ChildFailed, Interrupted
from toehold_cli.live.displays import Display
from toehold_client import errors
from toehold_client.client import FrontierClient
from toehold_client.controller import CrawlController
from toehold_client.spec.file import located
from toehold_client.text import counted
from toehold_client.watching.interruptions import Interruptions

from .children import Child, Program
from .crawl_file import write_json
from .directory import CrawlDirectory
from .frontier_program import frontier_program
from .plan import Plan
from .report import Outcome, Report
from .report import build as build_report
from .resumption import GoingOn
from .watch import Ending, Watch

NODE_NAME = "embedded"
"""The same in every run, so that the frontier knows which leases an earlier run's node held."""

MOST_NODE_RESTARTS = 3
"""How often a node that fails is started again."""

_DRAIN_S = 45.0  # longest wait for a program with little left to do
_HURRY_S = 20.0  # the same, when it is to stop at once
_LAST_WORDS_S = 5.0  # how long to wait for the exit code of a frontier that does not answer any more
_CALL_S = 10.0

_WRONG_ARGUMENTS, _SUPERSEDED, _UNUSABLE, _WORN_OUT = 2, 3, 4, 5

_NODE_EXIT_CODES = {
    _WRONG_ARGUMENTS: "its arguments are wrong",
    _SUPERSEDED: "another process has taken its name",
    _UNUSABLE: "a directory that it writes to cannot be used",
    _WORN_OUT: "too many of its toe threads did not end",
}

_FOR_GOOD = (_WRONG_ARGUMENTS, _SUPERSEDED, _UNUSABLE)
"""Restarting the node would not help."""


class EmbeddedCrawl:
    """One run of a crawl. A context: at its end no program is left."""

    def __init__(
        self, plan: Plan, directory: CrawlDirectory, display: Display, interruptions: Interruptions
    ) -> None:
        self._plan = plan
        self._directory = directory
        self._display = display
        self._interruptions = interruptions
        self._frontier: Child | None = None
        self._node: Child | None = None
        self._node_restarts = 0
        self._client: FrontierClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # After an orderly end both have stopped already.
        self._stop(self._node, _HURRY_S, hurry=True)
        if self._client is not None:
            self._client.close()
        self._stop(self._frontier, _DRAIN_S)
        for child in (self._node, self._frontier):
            if child is not None:
                child.close()
        self._directory.withdraw_frontier()

    def run(self) -> tuple[Ending, Report]:
        """Runs the crawl to its end, or until signals stop it. To be called once.

        The report is in the directory too. Raises CommandFailed if it cannot start or go on, and Interrupted
        if a signal came before it was under way.
        """
        program = frontier_program(
            self._directory.frontier,
            port=self._plan.frontier_port,
            shards=self._plan.shards,
            log=self._directory.frontier_log,
        )
        self._frontier = Child(program, (self._directory.locks.programs,))
        address = self._frontier.wait_ready(self._interruptions)
        self._directory.announce_frontier(address, self._frontier.pid, self._plan.crawl)
        self._client = FrontierClient(address, timeout_s=_CALL_S)
        try:
            ending = self._crawl(self._client, address)
            self._stop(self._node, _DRAIN_S, hurry=ending is Ending.STOPPED)
            report = self._write_report(self._client)
        except (errors.FrontierUnavailable, errors.DeadlineExceeded) as problem:
            raise self._explained(problem) from problem
        self._stop(self._frontier, _DRAIN_S)
        return ending, report

    def _crawl(self, client: FrontierClient, address: str) -> Ending:
        crawl = self._take_up(client)
        if crawl.status.state == CrawlState.CRAWL_STATE_FINISHED:
            return Ending.FINISHED  # in a run that was killed before its report
        self._start_node(address)
        watch = Watch(
            client, crawl, self._directory, self._display, self._interruptions, lambda: self._check(address)
        )
        return watch.until_end()

    def _take_up(self, client: FrontierClient) -> Crawl:
        """Creates the crawl or takes it up, as the plan asks for it, and lets it run; its description."""
        controller = CrawlController(client, self._plan.crawl)
        try:
            state = controller.describe().status.state
        except errors.UnknownCrawl:
            state = self._create(client).status.state
        going_on = GoingOn(controller, self._plan, self._directory, self._display.say, self._interruptions)
        crawl = going_on.take_up()
        if crawl.status.state != CrawlState.CRAWL_STATE_FINISHED and state != CrawlState.CRAWL_STATE_NASCENT:
            pages = controller.statistics().statistics.succeeded_count
            so_far = counted(pages, "page")
            self._display.say(f"Continuing the crawl in {self._directory.path}: {so_far} so far.")
            self._tell_gaps(pages)
        return crawl

    def _tell_gaps(self, pages: int) -> None:
        """Options for output may differ between runs: says which pages a folder will lack."""
        node = self._plan.node
        for folder, is_written in (
            (self._directory.warcs, node.warc),
            (self._directory.pages, node.pages),
            (self._directory.mirror, node.mirror),
        ):
            was_written = folder.is_dir() and any(folder.iterdir())
            if was_written and not is_written:
                self._display.say(f"Earlier runs wrote to {folder}; this one does not.")
            elif is_written and not was_written and pages:
                self._display.say(f"{folder} begins with this run; it lacks the pages so far.")

    def _create(self, client: FrontierClient) -> Crawl:
        try:
            return client.create_crawl(self._plan.crawl, self._plan.spec)
        except errors.InvalidSpec as problem:
            problems = located(problem, self._plan.places).problems
            listed = "".join(f"\n  {place}: {what}" for place, what in problems.items())
            raise BadPlan(f"the spec is refused:{listed or f' {problem}'}") from problem
        except errors.InvalidArgument as problem:
            raise BadPlan(str(problem)) from problem

    def _start_node(self, address: str) -> None:
        self._node = Child(
            _node_program(self._plan, self._directory, address), (self._directory.locks.programs,)
        )
        try:
            # A signal now pauses or stops the crawl, as a later one does: some of the node's processes may be
            # fetching while others start.
            with suppress(Interrupted):
                self._node.wait_ready(self._interruptions, most_signals=1)
        except ChildFailed as problem:
            if self._node.exit_code == _WRONG_ARGUMENTS:  # they come from the command line
                raise BadPlan(str(problem)) from problem
            raise

    def _check(self, address: str) -> None:
        """Raises ChildFailed if a program has ended and cannot be started again."""
        assert self._frontier is not None and self._node is not None
        if self._frontier.exit_code is not None:
            raise ChildFailed(self._frontier.obituary())
        code = self._node.exit_code
        if code is None:
            return
        obituary = self._node.obituary()
        if code == _WORN_OUT:  # because of pages, each of which has been reported
            self._display.say(f"Starting the node again: {obituary}")
        elif code in _FOR_GOOD or self._node_restarts == MOST_NODE_RESTARTS:
            raise ChildFailed(obituary)
        else:
            self._node_restarts += 1
            restart = f"{self._node_restarts} of {MOST_NODE_RESTARTS}"
            self._display.say(f"Starting the node again ({restart}): {obituary}")
        self._node.close()
        self._start_node(address)

    def _write_report(self, client: FrontierClient) -> Report:
        name = self._plan.crawl
        answer = client.get_statistics(name)
        report = build_report(
            Outcome(
                crawl=client.get_crawl(name),
                status=answer.status,
                statistics=answer.statistics,
                seeds=list(client.list_seeds(name)),
                refusals=client.list_refusals(name),
            ),
            self._directory.path,
        )
        write_json(self._directory.report, report)
        return report

    def _stop(self, child: Child | None, patience_s: float, *, hurry: bool = False) -> None:
        if child is not None and not child.stop(self._interruptions, patience_s, hurry=hurry):
            self._display.say(
                f"The {child.program.name} did not end within {patience_s:.0f} s and was killed. "
                "The next run repeats its unfinished work."
            )

    def _explained(self, problem: errors.ToeholdError) -> errors.ToeholdError:
        """How the frontier ended, if it did; else the problem itself."""
        assert self._frontier is not None
        if not self._frontier.ends_within(_LAST_WORDS_S):
            return problem
        return ChildFailed(self._frontier.obituary())


def _node_program(plan: Plan, directory: CrawlDirectory, address: str) -> Program:
    return Program(
        name="crawler node",
        command=(
            *(sys.executable, "-P", "-m", "crawler_node"),
            *("--frontier", address, "--name", NODE_NAME, "--until-stdin-ends"),
            *(("--fetcher-kind", plan.spec.fetcher) if plan.spec.fetcher else ()),
            *plan.node.arguments(directory.warcs, directory.pages, directory.mirror, directory.logs),
        ),
        log=directory.node_log,
        ready=re.compile(r"toehold-node (.+)"),
        exit_codes=_NODE_EXIT_CODES,
    )
