"""`toehold events`: the events of a crawl, past and future."""

import click

from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.spec.plain import to_plain

from .options import json_option, stream_options, with_crawl


@click.command()
@stream_options("event")
@click.option("--acts", is_flag=True, help="Print only who asked for what.")
@json_option
@with_crawl
def events(crawl: CrawlController, follow: bool, cursor: str, acts: bool, as_json: bool) -> None:
    """Print a crawl's events.

    If the frontier restarts while you --follow, the command waits for it. It misses and repeats no event.
    """
    for event in crawl.follow(cursor) if follow else crawl.events(cursor):
        if acts and not event.message.HasField("operator_acted"):
            continue
        if as_json:
            output.record(to_plain(event.message))
        else:
            output.line(f"{output.moment(event.event_time)}  {event.cursor}  {event}")
