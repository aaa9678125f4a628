"""`toehold uris`: the URIs of a crawl."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import click

from toehold.frontier.v1.admin_pb2 import DeleteUrisJob, UriState, UriStory, WaitingUri
from toehold.frontier.v1.crawl_pb2 import Disposition
from toehold_cli import output
from toehold_cli.import_file import Format, ImportFile, Tally
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidArgument
from toehold_client.spec.plain import enum_word, to_plain
from toehold_client.text import count_text, counted, fetch_status_text

from .jobs import tell_job
from .options import Listing, json_option, limit_option, tell, wait_option, with_crawl
from .suggestions import queue_keys

_COLUMNS = ("uri", "queue", "path", "tries", "cost", "due")


@click.group(cls=Listing)
def uris() -> None:
    """List, show, delete, export or import URIs.

    `toehold uris` means `toehold uris list`.
    """


@uris.command("list")
@click.option(
    "--queue",
    "key",
    metavar="KEY",
    shell_complete=queue_keys,
    help="List only URIs of the queue with this key.",
)
@limit_option
@json_option
@with_crawl
def list_uris(crawl: CrawlController, key: str | None, limit: int | None, as_json: bool) -> None:
    """List the URIs that wait.

    The command lists those in queues, in order, and then those that are due later.
    """
    found = crawl.frontier.list_uris(crawl.crawl, key or "")
    tell(found, _COLUMNS, _row, limit=limit, as_json=as_json, spare=("path", "cost"))


@uris.command("show")
@click.argument("uri")
@json_option
@with_crawl
def show_uri(crawl: CrawlController, uri: str, as_json: bool) -> None:
    """Show everything that a crawl knows about a URI.

    `toehold explain URI` explains why it is not fetched now.
    """
    story = crawl.frontier.get_uri(crawl.crawl, uri)
    if as_json:
        output.record(to_plain(story))
    else:
        output.facts(_facts(story))


@uris.command()
@click.option("--queue", "queues", metavar="RE2", required=True, help="Delete from queues whose key matches.")
@click.option("--uri", "pattern", metavar="RE2", required=True, help="Delete URIs that match as a whole.")
@click.option("--dry-run", is_flag=True, help="Only count the URIs, and show the first 100.")
@wait_option
@json_option
@with_crawl
def delete(
    crawl: CrawlController, queues: str, pattern: str, dry_run: bool, wait_s: float | None, as_json: bool
) -> None:
    """Delete URIs that wait, with a job.

    They stay seen, with fetch status -6000. URIs that nodes are working on are not deleted.
    """
    asked = DeleteUrisJob(queue_pattern=queues, uri_pattern=pattern, dry_run=dry_run)
    tell_job(crawl, crawl.frontier.start_job(crawl.crawl, asked), wait_s, as_json)


@uris.command()
@click.option(
    "--output",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to FILE, which must not exist. It appears when the export is complete.",
)
@json_option
@with_crawl
def export(crawl: CrawlController, path: Path | None, as_json: bool) -> None:
    """Write all URIs that wait, one JSON object per line.

    `toehold uris import --format export` reads them. Pause the crawl first for an exact copy.
    """
    if path is None:
        output.note(counted(_write(crawl, sys.stdout), "URI"))
        return
    if path.exists():
        raise InvalidArgument(f"{path} already exists; name another file")
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            written = _write(crawl, file)
        part.rename(path)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be written: {error.strerror}") from None
    output.result(
        {"crawl": crawl.crawl, "output": str(path), "uris": written},
        f"{crawl.crawl}: {counted(written, 'URI')} in {path}",
        as_json=as_json,
    )


def _write(crawl: CrawlController, file: TextIO) -> int:
    written = 0
    for waiting in crawl.waiting():
        print(json.dumps(to_plain(waiting), ensure_ascii=False), file=file)
        written += 1
    return written


@uris.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--format",
    "kind",
    type=click.Choice([each.value for each in Format]),
    metavar="FORMAT",
    required=True,
    help="The format of FILE, which may be compressed with gzip.",
)
@click.option("--force", is_flag=True, help="Schedule URIs even if they have been seen.")
@click.option("--no-successes", is_flag=True, help="Leave out URIs that succeeded.")
@click.option("--no-failures", is_flag=True, help="Leave out URIs that failed.")
@click.option(
    "--recrawl", is_flag=True, help="Schedule the URIs of a crawl-log again, instead of noting them as seen."
)
@wait_option
@json_option
@with_crawl
def import_uris(
    crawl: CrawlController,
    file: Path,
    kind: str,
    force: bool,
    no_successes: bool,
    no_failures: bool,
    recrawl: bool,
    wait_s: float | None,
    as_json: bool,
) -> None:
    """Import the URIs of FILE, with a job. - is standard input.

    FORMAT is one of these:

    \b
    list              one URI per line: schedules all
    export            output of `toehold uris export`: schedules all
    crawl-log         Heritrix's or Toehold's log: notes finished URIs as seen,
                      or with --recrawl schedules them again
    recovery-journal  Heritrix's: notes Fs, Ff, Fd and Fi as seen, schedules F+

    The job notes all seen URIs before it schedules others, so it schedules none that was finished.
    """
    form = Format(kind)
    tells_seen = form in (Format.CRAWL_LOG, Format.RECOVERY_JOURNAL)
    if (no_successes or no_failures) and not tells_seen:
        raise click.UsageError(
            f"--no-successes and --no-failures need --format crawl-log or recovery-journal, got {kind}."
        )
    if force and form is Format.CRAWL_LOG:
        raise click.UsageError(
            "--force needs URIs to schedule. To schedule those of a crawl-log, use --recrawl."
        )
    if recrawl and form is not Format.CRAWL_LOG:
        raise click.UsageError(f"--recrawl needs --format crawl-log, got {kind}.")
    source = ImportFile(
        file,
        form,
        successes=not no_successes,
        failures=not no_failures,
        refetch_before=crawl.statistics().statistics.snapshot_time if recrawl else None,
    )
    job = crawl.frontier.import_uris(crawl.crawl, source.entries(), force=force)
    _tell_malformed(source.tally)
    if as_json:
        told = _tally(source.tally)
        job = job if wait_s is None else crawl.wait_for_job(job.job, wait_s)
        output.record({**told, "job": to_plain(job)})
        return
    tally = source.tally
    output.line(
        f"{crawl.crawl}: to schedule: {count_text(tally.scheduled)}, seen: {count_text(tally.seen)}, "
        f"lines skipped: {count_text(tally.left_out)}, malformed: {count_text(tally.malformed)}"
    )
    tell_job(crawl, job, wait_s, as_json)


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        "scheduled_count": tally.scheduled,
        "seen_count": tally.seen,
        "left_out_count": tally.left_out,
        "malformed_count": tally.malformed,
        "cut": tally.cut,
    }


def _tell_malformed(tally: Tally) -> None:
    for told in tally.first_malformed:
        output.note(f"Malformed, {told}")
    untold = tally.malformed - len(tally.first_malformed)
    if untold > 0:
        output.note(f"Malformed: {counted(untold, 'further line')}")
    if tally.cut:
        output.note("The gzip stream ends too early. The URIs before its end were imported.")


def _row(waiting: WaitingUri) -> Sequence[str]:
    return (
        waiting.candidate.uri,
        waiting.queue_key or "-",
        waiting.candidate.path or "-",
        str(waiting.attempt_count),
        str(waiting.cost),
        output.moment(waiting.due_time) or "-",
    )


def _facts(story: UriStory) -> list[tuple[str, str]]:
    ended = story.HasField("finish_time")
    result = enum_word(Disposition.DESCRIPTOR, story.disposition) if story.disposition else "noted as seen"
    waiting, lease = story.waiting, story.lease
    return [
        ("uri", story.uri),
        ("same as", story.identity if story.identity != story.uri else ""),
        ("state", enum_word(UriState.DESCRIPTOR, story.state)),
        ("queue", story.queue_key),
        ("refused by", f"scope.{story.refused_by}" if story.refused_by else ""),
        ("result", result if ended else ""),
        ("fetch status", fetch_status_text(story.fetch_status) if story.fetch_status else ""),
        ("reason", story.reason),
        ("ended", output.moment(story.finish_time)),
        ("visits", count_text(story.visit_count) if story.visit_count else ""),
        ("etag", story.etag),
        ("last modified", story.last_modified),
        ("digest", story.digest),
        ("due", output.moment(story.due_time)),
        ("via", waiting.candidate.via),
        ("path", waiting.candidate.path),
        ("tries", str(waiting.attempt_count) if story.HasField("waiting") else ""),
        ("leased by", f"{lease.node}, since {output.moment(lease.lease_time)}" if lease.node else ""),
        ("until", output.moment(lease.expire_time)),
    ]
