"""`toehold queues`: the work queues of a crawl."""

import re
import time
from collections.abc import Callable, Sequence

import click

from toehold.frontier.v1.admin_pb2 import (
    DeleteUrisJob,
    QueueChange,
    RetireQueuesJob,
    UnretireQueuesJob,
    WakeQueuesJob,
    WorkQueue,
)
from toehold.frontier.v1.crawl_pb2 import QueueState
from toehold_cli import output
from toehold_cli.numbers import Real, Whole
from toehold_client.controller import CrawlController
from toehold_client.operators import JobAsked
from toehold_client.spec.plain import enum_word, to_plain
from toehold_client.text import count_text
from toehold_client.watching.which_queues import find_queues, keys_of

from .jobs import tell_job
from .options import Listing, json_option, limit_option, tell, wait_option, with_crawl
from .suggestions import queue_names

_STATES = {enum_word(QueueState.DESCRIPTOR, state).lower(): state for state in QueueState.values() if state}


def _queue_argument(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    metavar = "QUEUE" if required else "[QUEUE]"
    return click.argument("subject", metavar=metavar, required=required, shell_complete=queue_names)


_COLUMNS = ("queue", "state", "queued", "leases", "failed", "wakes", "reason")


@click.group(cls=Listing)
def queues() -> None:
    """List, show or change a crawl's work queues.

    QUEUE is a key from the list (com,example,#443), a host (example.com, example.com:8080, 127.0.0.1), or a
    URL. A host means its queues for http, for https and for other ports.

    `toehold queues` means `toehold queues list`.
    """


@queues.command("list")
@click.option(
    "--state", type=click.Choice(list(_STATES), case_sensitive=False), help="List only queues in this state."
)
@limit_option
@json_option
@with_crawl
def list_queues(crawl: CrawlController, state: str | None, limit: int | None, as_json: bool) -> None:
    """List a crawl's work queues."""
    wanted = QueueState.QUEUE_STATE_UNSPECIFIED if state is None else _STATES[state]
    found = crawl.frontier.list_queues(crawl.crawl, wanted)
    tell(found, _COLUMNS, _row, limit=limit, as_json=as_json, spare=("leases", "wakes"))


@queues.command("show")
@_queue_argument(required=True)
@json_option
@with_crawl
def show_queue(crawl: CrawlController, subject: str, as_json: bool) -> None:
    """Show all statistics of a queue.

    `toehold explain QUEUE` explains why the queue is not being fetched now.
    """
    _tell(find_queues(crawl, subject), as_json)


@queues.command("set")
@_queue_argument(required=True)
@click.option("--precedence", type=Whole(-1, 255), help="Lower goes first. -1 restores the policy's value.")
@click.option(
    "--session-budget",
    type=Whole(min=-2),
    help="The cost after which other queues have their turn. 0 is no limit, -2 restores the setting.",
)
@click.option(
    "--total-budget",
    type=Whole(min=-2),
    help="The cost after which the queue is retired. -1 is no limit, -2 restores the setting.",
)
@click.option(
    "--min-gap",
    "min_gap_s",
    type=Real(-1, 86_400),
    metavar="SECONDS",
    help="Least time between two turns of the queue. -1 restores the setting.",
)
@click.option(
    "--rest",
    "rest_s",
    type=Real(0, 365 * 86_400),
    metavar="SECONDS",
    help="Lease no URI of the queue for this long. 0 ends its rest.",
)
@json_option
@with_crawl
def set_queue(
    crawl: CrawlController,
    subject: str,
    precedence: int | None,
    session_budget: int | None,
    total_budget: int | None,
    min_gap_s: float | None,
    rest_s: float | None,
    as_json: bool,
) -> None:
    """Set the precedence, the budgets or the pace of a queue."""
    change = QueueChange(precedence=precedence, session_budget=session_budget, total_budget=total_budget)
    if min_gap_s is not None:
        change.min_gap.FromMilliseconds(round(min_gap_s * 1000))
    if rest_s is not None:
        change.rest_until_time.FromMilliseconds(round((time.time() + rest_s) * 1000))
    if change == QueueChange():
        raise click.UsageError("Give at least one option, such as --precedence or --min-gap.")
    _change(crawl, subject, change, as_json)


@queues.command()
@_queue_argument(required=True)
@json_option
@with_crawl
def pause(crawl: CrawlController, subject: str, as_json: bool) -> None:
    """Pause a queue until `toehold queues resume`.

    Its URIs stay queued, so the crawl does not end.
    """
    _change(crawl, subject, QueueChange(paused=True), as_json)


@queues.command()
@_queue_argument(required=True)
@json_option
@with_crawl
def resume(crawl: CrawlController, subject: str, as_json: bool) -> None:
    """Resume a paused queue."""
    _change(crawl, subject, QueueChange(paused=False), as_json)


def _one_or_many(
    name: str, change: QueueChange, job: Callable[[str], JobAsked], help_text: str
) -> click.Command:
    """A command that changes the queues of a subject, or with a job all queues whose keys match a pattern."""

    @queues.command(name, help=help_text)
    @_queue_argument(required=False)
    @click.option("--pattern", metavar="RE2", help="Change all queues whose whole key matches, with a job.")
    @wait_option
    @json_option
    @with_crawl
    def command(
        crawl: CrawlController, subject: str | None, pattern: str | None, wait_s: float | None, as_json: bool
    ) -> None:
        if (subject is None) is (pattern is None):
            raise click.UsageError("Give either a QUEUE or a --pattern.")
        if pattern is not None:
            tell_job(crawl, crawl.frontier.start_job(crawl.crawl, job(pattern)), wait_s, as_json)
        elif subject is not None:
            _change(crawl, subject, change, as_json)

    return command


_one_or_many(
    "retire",
    QueueChange(retired=True),
    lambda pattern: RetireQueuesJob(queue_pattern=pattern),
    "Retire a queue, or many, so that their URIs are not fetched.\n\nThe URIs stay, but the crawl can end "
    "without them.",
)
_one_or_many(
    "unretire",
    QueueChange(retired=False),
    lambda pattern: UnretireQueuesJob(queue_pattern=pattern),
    "Put a retired queue, or many, back to work.\n\nA queue whose budget is spent retires again at its next "
    "turn. Raise the budget first: `toehold queues set --total-budget`.",
)
_one_or_many(
    "wake",
    QueueChange(wake=True),
    lambda pattern: WakeQueuesJob(queue_pattern=pattern),
    "Wake a queue, or many, that rest before a retry.\n\nThe politeness delays of their hosts still apply.",
)


@queues.command()
@_queue_argument(required=True)
@click.option("--dry-run", is_flag=True, help="Only count the URIs.")
@wait_option
@json_option
@with_crawl
def delete(crawl: CrawlController, subject: str, dry_run: bool, wait_s: float | None, as_json: bool) -> None:
    """Delete all URIs of a queue, with a job.

    They stay seen. URIs that nodes are working on are not deleted.
    """
    keys = keys_of(find_queues(crawl, subject))
    asked = DeleteUrisJob(queue_pattern="|".join(map(re.escape, keys)), uri_pattern=".*", dry_run=dry_run)
    tell_job(crawl, crawl.frontier.start_job(crawl.crawl, asked), wait_s, as_json)


def _change(crawl: CrawlController, subject: str, change: QueueChange, as_json: bool) -> None:
    """Changes the queues of a subject, and shows them."""
    changed: list[WorkQueue] = []
    for key in keys_of(find_queues(crawl, subject)):
        changed += crawl.frontier.update_queue(crawl.crawl, key, change)
    _tell(changed, as_json)


def _row(queue: WorkQueue) -> tuple[str, ...]:
    return (
        queue.queue_key,
        enum_word(QueueState.DESCRIPTOR, queue.state),
        str(queue.queued_count),
        str(queue.leased_count),
        str(queue.failed_count),
        output.moment(queue.wake_time) or "-",
        queue.reason or "-",
    )


def _tell(found: Sequence[WorkQueue], as_json: bool) -> None:
    for number, queue in enumerate(found):
        if as_json:
            output.record(to_plain(queue))
            continue
        if number:
            output.line("")
        output.facts(_facts(queue))


def _facts(queue: WorkQueue) -> list[tuple[str, str]]:
    fixed = " (set by hand)" if queue.precedence_fixed else ""
    session = f" of {count_text(queue.session_budget)}" if queue.session_budget > 0 else ", no limit"
    total = f" of {count_text(queue.total_budget)}" if queue.total_budget >= 0 else ", no limit"
    gap_s = queue.min_gap.ToMilliseconds() / 1000
    return [
        ("queue", queue.queue_key),
        ("host", queue.host),
        ("state", enum_word(QueueState.DESCRIPTOR, queue.state)),
        ("reason", queue.reason),
        ("wakes", output.moment(queue.wake_time)),
        ("queued", f"{count_text(queue.queued_count)}, {count_text(queue.leased_count)} being fetched"),
        ("ever queued", count_text(queue.enqueued_count)),
        ("succeeded", count_text(queue.succeeded_count)),
        ("failed", count_text(queue.failed_count)),
        ("precedence", f"{queue.precedence}{fixed}"),
        ("least gap", f"{gap_s:g} s" if gap_s else ""),
        ("spent in session", f"{count_text(queue.session_expenditure)}{session}"),
        ("spent in all", f"{count_text(queue.expenditure)}{total}"),
        ("cost", f"last {queue.last_cost}, average {queue.average_cost:.2f}"),
        ("last queued", output.moment(queue.queue_time)),
        ("last leased", output.moment(queue.lease_time)),
    ]
