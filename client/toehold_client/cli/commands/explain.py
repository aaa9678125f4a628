"""`toehold explain`: why a crawl, a queue or a URI is not being fetched now."""

from __future__ import annotations

import click

from toehold.frontier.v1.admin_pb2 import Reason, Why
from toehold_client.cli import output
from toehold_client.controller import CrawlController
from toehold_client.spec.plain import enum_word

from .options import json_option, tell, with_crawl

_COLUMNS = ("why", "message", "until")


@click.command()
@click.option("--queue", "key", metavar="KEY", help="Explain the queue with this key.")
@click.option("--uri", metavar="URI", help="Explain this URI.")
@json_option
@with_crawl
def explain(crawl: CrawlController, key: str | None, uri: str | None, as_json: bool) -> None:
    """Explain why a crawl, a queue or a URI is not being fetched now, and when it will be."""
    if key is not None and uri is not None:
        raise click.UsageError("Give --queue or --uri, not both.")
    reasons = crawl.frontier.explain(crawl.crawl, queue_key=key, uri=uri)
    tell(reasons, _COLUMNS, _row, limit=None, as_json=as_json)


def _row(reason: Reason) -> tuple[str, ...]:
    return (
        enum_word(Why.DESCRIPTOR, reason.why),
        reason.message,
        output.moment(reason.until_time) or "-",
    )
