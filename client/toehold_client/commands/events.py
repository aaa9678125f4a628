"""`toehold events`: what has happened to a crawl, and what happens."""

from __future__ import annotations

import click

from toehold.frontier.v1.crawl_pb2 import Event
from toehold_client import show
from toehold_client.controller import CrawlController
from toehold_client.plain import to_plain

from .options import json_option, with_crawl

_CURSORS = {"now": ""}


@click.command()
@click.option("--follow", is_flag=True, help="Go on until the crawl has finished.")
@click.option(
    "--from",
    "cursor",
    metavar="CURSOR",
    default="start",
    show_default=True,
    help="Begin after the event with this cursor; `start`: all that are kept, `now`: only what is to come.",
)
@json_option
@with_crawl
def events(crawl: CrawlController, follow: bool, cursor: str, as_json: bool) -> None:
    """Print a crawl's events.

    Restarts of the frontier are waited out while following: no event is missed or told twice.
    """
    cursor = _CURSORS.get(cursor, cursor)
    for event in crawl.follow(cursor) if follow else crawl.events(cursor):
        if as_json:
            show.record(to_plain(event))
        else:
            show.line(f"{show.moment(event.event_time)}  {event.cursor}  {_words(event)}")


def _words(event: Event) -> str:
    match event.WhichOneof("kind"):
        case "status_changed":
            return show.status_words(event.status_changed)
        case "seeds_concluded":
            seeds = event.seeds_concluded
            return f"seeds announced: {seeds.seed_count}, of which queued: {seeds.queued_count}"
        case "limit_reached":
            limit = event.limit_reached
            out = f"{limit.leased_count} URIs out"
            return f"limit reached: {limit.limit} = {limit.value}, with {limit.reached} and {out}"
        case "round_begun":
            return f"round {event.round_begun.round}: the seeds are announced again"
        case "uris_left":
            left = event.uris_left
            return f"URIs left: {left.retired_count} retired, {left.ineligible_count} ineligible"
        case "job_ended":
            job = event.job_ended
            return f"job {job.job} ({job.kind}): {job.outcome}"
        case None:
            return "of a kind that this version does not know"
