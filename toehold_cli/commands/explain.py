"""`toehold explain`: why a crawl, a queue or a URI is not being fetched now."""

from collections.abc import Sequence

import click

from toehold.frontier.v1.admin_pb2 import Reason, Why
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.errors import UnknownQueue
from toehold_client.spec.listed import normalise_seed
from toehold_client.spec.plain import enum_word, to_plain
from toehold_client.text import fetch_status_text
from toehold_client.watching.which_queues import find_queues, is_url, keys_of

from .options import json_option, with_crawl
from .suggestions import queue_keys, queue_names

_COLUMNS = ("why", "message", "until")


@click.command()
@click.argument("subject", required=False, shell_complete=queue_names)
@click.option(
    "--queue", "key", metavar="KEY", shell_complete=queue_keys, help="Explain the queue with this key."
)
@click.option("--uri", metavar="URI", help="Explain this URI.")
@json_option
@with_crawl
def explain(
    crawl: CrawlController, subject: str | None, key: str | None, uri: str | None, as_json: bool
) -> None:
    """Explain why a crawl, a queue or a URI is not fetched now.

    SUBJECT is a URL, a host (example.com) or the key of a queue (com,example,#443). Without it, the command
    explains the crawl. A host stands for its queues. The command also says until when each reason holds.
    """
    if sum(given is not None for given in (subject, key, uri)) > 1:
        raise click.UsageError("Give only one of SUBJECT, --queue and --uri.")
    keys = [] if key is None else [key]
    if subject is not None:
        keys, uri = _meant(crawl, subject)
    if uri is not None:
        _explain_uri(crawl, uri, as_json)
        return
    for place, each in enumerate(keys or [None]):
        if place and not as_json:
            output.line("")
        if subject not in (None, each) and not as_json:
            output.line(f"Queue {each}:")
        reasons = crawl.frontier.explain(crawl.crawl, queue_key=each)
        _tell(reasons, as_json, queue_key=each)


def _meant(crawl: CrawlController, subject: str) -> tuple[list[str], str | None]:
    """The keys of the queues that a subject names, or a URI."""
    if is_url(subject):
        return [], subject
    try:
        return keys_of(find_queues(crawl, subject)), None
    except UnknownQueue:
        if "/" not in subject:
            raise
        return [], normalise_seed(subject)


def _explain_uri(crawl: CrawlController, uri: str, as_json: bool) -> None:
    reasons = crawl.frontier.explain(crawl.crawl, uri=uri)
    _tell(reasons, as_json)
    if as_json:
        return
    story = crawl.frontier.get_uri(crawl.crawl, uri)
    if story.reason and not any(story.reason in reason.message for reason in reasons):
        output.line(f"Its last fetch ended with {fetch_status_text(story.fetch_status)}: {story.reason}")


def _tell(reasons: Sequence[Reason], as_json: bool, *, queue_key: str | None = None) -> None:
    if as_json:
        for reason in reasons:
            output.record(
                to_plain(reason) if queue_key is None else {"queue_key": queue_key, **to_plain(reason)}
            )
    else:
        output.table(_COLUMNS, map(_row, reasons))


def _row(reason: Reason) -> tuple[str, ...]:
    return (
        enum_word(Why.DESCRIPTOR, reason.why),
        reason.message,
        output.moment(reason.until_time) or "-",
    )
