"""`toehold seen`: shows the seen-set, and changes it by hand."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import click

from toehold.frontier.v1.admin_pb2 import ForgetUrisJob, SeenFilter, UriState, UriStory
from toehold.frontier.v1.crawl_pb2 import Disposition
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.spec.listed import read_uris
from toehold_client.spec.plain import enum_word
from toehold_client.text import count_text

from .jobs import tell_job
from .options import Listing, json_option, limit_option, tell, wait_option, with_crawl
from .suggestions import queue_keys

_COLUMNS = ("uri", "state", "queue", "result", "taken in", "due")

_file_option = click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also take the URIs in FILE, one per line.",
)


def _filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that select seen URIs."""
    for option in (
        click.option(
            "--before", type=click.DateTime(), metavar="TIME", help="URIs taken in before TIME (UTC)."
        ),
        click.option("--uri", "pattern", metavar="RE2", help="URIs that match as a whole."),
        click.option(
            "--queue", metavar="KEY", shell_complete=queue_keys, help="URIs of the queue with this key."
        ),
        click.option("--host", metavar="HOST", help="URIs of this host, whatever the port."),
    ):
        command = option(command)
    return command


def _filter(host: str | None, queue: str | None, pattern: str | None, before: datetime | None) -> SeenFilter:
    chosen = SeenFilter(host=host or "", queue_key=queue or "", uri_pattern=pattern or "")
    if before is not None:
        chosen.discovered_before_time.FromDatetime(before)
    return chosen


@click.group(cls=Listing)
def seen() -> None:
    """List or count seen URIs, note URIs as seen, or forget them.

    `toehold seen` means `toehold seen list`.
    """


@seen.command("list")
@_filter_options
@limit_option
@json_option
@with_crawl
def list_seen(
    crawl: CrawlController,
    host: str | None,
    queue: str | None,
    pattern: str | None,
    before: datetime | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List seen URIs, waiting ones included.

    Only for crawls that keep their URIs (identity.keep_uris).
    """
    found = crawl.frontier.list_seen_uris(crawl.crawl, _filter(host, queue, pattern, before))
    tell(found, _COLUMNS, _row, limit=limit, as_json=as_json, spare=("queue", "taken in"))


@seen.command()
@_filter_options
@json_option
@with_crawl
def count(
    crawl: CrawlController,
    host: str | None,
    queue: str | None,
    pattern: str | None,
    before: datetime | None,
    as_json: bool,
) -> None:
    """Count seen URIs by their state.

    Only for crawls that keep their URIs (identity.keep_uris).
    """
    counts = crawl.frontier.count_seen_uris(crawl.crawl, _filter(host, queue, pattern, before))
    numbers = {
        "queued": counts.queued_count,
        "leased": counts.leased_count,
        "future": counts.future_count,
        "done": counts.done_count,
    }
    output.result(
        {"crawl": crawl.crawl, **{f"{name}_count": number for name, number in numbers.items()}},
        f"{crawl.crawl}: " + ", ".join(f"{count_text(number)} {name}" for name, number in numbers.items()),
        as_json=as_json,
    )


@seen.command()
@_filter_options
@click.option("--waiting", is_flag=True, help="Forget URIs that wait, in queues or for their time, too.")
@click.option("--dry-run", is_flag=True, help="Only count the URIs, and show the first 100.")
@wait_option
@json_option
@with_crawl
def purge(
    crawl: CrawlController,
    host: str | None,
    queue: str | None,
    pattern: str | None,
    before: datetime | None,
    waiting: bool,
    dry_run: bool,
    wait_s: float | None,
    as_json: bool,
) -> None:
    """Forget the seen URIs that the options select, with a job.

    They count as new when they are found again. URIs that nodes are working on stay, and so do URIs that
    wait, unless you give --waiting. Only for crawls that keep their URIs (identity.keep_uris).
    """
    chosen = _filter(host, queue, pattern, before)
    if chosen == SeenFilter():
        raise click.UsageError("Give at least one of --host, --queue, --uri and --before.")
    asked = ForgetUrisJob(filter=chosen, waiting=waiting, dry_run=dry_run)
    tell_job(crawl, crawl.frontier.start_job(crawl.crawl, asked), wait_s, as_json)


@seen.command()
@click.argument("uris", metavar="[URI]...", nargs=-1)
@_file_option
@click.option("--replace", is_flag=True, help="Also note URIs that wait or are being fetched.")
@json_option
@with_crawl
def note(
    crawl: CrawlController, uris: tuple[str, ...], file: Path | None, replace: bool, as_json: bool
) -> None:
    """Note URIs as seen, so that the crawl does not fetch them."""
    noted = crawl.frontier.note_uris(crawl.crawl, _all(uris, file), replace=replace)
    _tell(crawl, "noted", noted, as_json)


@seen.command()
@click.argument("uris", metavar="[URI]...", nargs=-1)
@_file_option
@json_option
@with_crawl
def forget(crawl: CrawlController, uris: tuple[str, ...], file: Path | None, as_json: bool) -> None:
    """Forget that URIs were seen, so that they can be found anew.

    URIs that wait in queues stay there.
    """
    forgotten = crawl.frontier.forget_uris(crawl.crawl, _all(uris, file))
    _tell(crawl, "forgotten", forgotten, as_json)


def _row(story: UriStory) -> tuple[str, ...]:
    ended = story.HasField("finish_time")
    result = enum_word(Disposition.DESCRIPTOR, story.disposition) if story.disposition else "noted"
    return (
        story.uri,
        enum_word(UriState.DESCRIPTOR, story.state),
        story.queue_key,
        result if ended else "-",
        output.moment(story.discover_time) or "-",
        output.moment(story.due_time) or "-",
    )


def _all(uris: tuple[str, ...], file: Path | None) -> Iterator[str]:
    if not uris and file is None:
        raise click.UsageError("Give at least one URI, or a --file of URIs.")
    yield from uris
    if file is not None:
        yield from read_uris(file)


def _tell(crawl: CrawlController, word: str, count: int, as_json: bool) -> None:
    output.result(
        {"crawl": crawl.crawl, f"{word}_count": count},
        f"{crawl.crawl}: {count_text(count)} {word}",
        as_json=as_json,
    )
