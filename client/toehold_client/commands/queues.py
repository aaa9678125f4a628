"""`toehold queues`: a crawl's work queues."""

from __future__ import annotations

import itertools

import click

from toehold.frontier.v1.admin_pb2 import WorkQueue
from toehold.frontier.v1.crawl_pb2 import QueueState
from toehold_client import show
from toehold_client.controller import CrawlController
from toehold_client.plain import enum_word, to_plain

from .options import json_option, with_crawl

_STATES = {enum_word(QueueState.DESCRIPTOR, state).lower(): state for state in QueueState.values() if state}
_COLUMNS = ("queue", "state", "queued", "out", "failed", "wakes", "reason")
_TABLE_ROWS = 100


@click.command()
@click.option(
    "--state", type=click.Choice(list(_STATES), case_sensitive=False), help="Only queues in this state."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"Show this many at most. Default: {_TABLE_ROWS} in a table, all as JSON.",
)
@json_option
@with_crawl
def queues(crawl: CrawlController, state: str | None, limit: int | None, as_json: bool) -> None:
    """List a crawl's work queues."""
    wanted = QueueState.QUEUE_STATE_UNSPECIFIED if state is None else _STATES[state]
    found = crawl.frontier.list_queues(crawl.crawl, wanted)
    if as_json:
        for queue in itertools.islice(found, limit):
            show.record(to_plain(queue))
        return
    shown = limit or _TABLE_ROWS
    listed = list(itertools.islice(found, shown + 1))
    show.table(_COLUMNS, map(_row, listed[:shown]))
    if len(listed) > shown:
        show.note(f"There are more than {shown}: --limit shows more.")


def _row(queue: WorkQueue) -> tuple[str, ...]:
    return (
        queue.queue_key,
        enum_word(QueueState.DESCRIPTOR, queue.state),
        str(queue.queued_count),
        str(queue.leased_count),
        str(queue.failed_count),
        show.moment(queue.wake_time) or "-",
        queue.reason or "-",
    )
