"""`toehold outcomes`: the final dispositions of a crawl's URIs, past and future."""

import click

from toehold.frontier.v1.admin_pb2 import UriOutcome
from toehold.frontier.v1.crawl_pb2 import Disposition
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.spec.plain import enum_word, to_plain
from toehold_client.text import bytes_text

from .options import json_option, stream_options, with_crawl


@click.command()
@stream_options("outcome")
@json_option
@with_crawl
def outcomes(crawl: CrawlController, follow: bool, cursor: str, as_json: bool) -> None:
    """Print the outcomes of a crawl's URIs, like crawl.log.

    Fetches of robots.txt are included. A failed fetch has its reason at the end. If the frontier restarts,
    the command waits for it. It misses and repeats no outcome.
    """
    for outcome in crawl.outcomes(cursor, follow=follow):
        if as_json:
            output.record(to_plain(outcome))
        else:
            output.line(_text(outcome))


def _text(outcome: UriOutcome) -> str:
    return "  ".join(
        (
            output.moment(outcome.outcome_time),
            outcome.cursor,
            enum_word(Disposition.DESCRIPTOR, outcome.disposition),
            f"{outcome.fetch_status:>5}",
            bytes_text(outcome.body_bytes),
            outcome.uri,
            outcome.path or "-",
            outcome.via or "-",
            outcome.media_type or "-",
            ",".join(outcome.annotations) or "-",
            *filter(None, [outcome.reason]),
        )
    )
