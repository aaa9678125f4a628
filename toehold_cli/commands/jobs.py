"""`toehold jobs`: work on many URIs or queues; also how all commands that start a job report it."""

from collections.abc import Sequence

import click

from toehold.frontier.v1.admin_pb2 import Job, JobState
from toehold_cli import output
from toehold_cli.numbers import Whole
from toehold_client.controller import CrawlController
from toehold_client.errors import ToeholdError
from toehold_client.spec.plain import enum_word, to_plain
from toehold_client.text import count_text, counted

from .options import Listing, json_option, limit_option, tell, wait_option, with_crawl
from .suggestions import job_numbers

VERIFY = "verify"
_COLUMNS = ("job", "kind", "state", "done", "changed", "of", "started", "ended", "parameters")


@click.group(cls=Listing)
def jobs() -> None:
    """List, show or cancel work on many URIs or queues.

    `toehold jobs` means `toehold jobs list`.
    """


@jobs.command("list")
@limit_option
@json_option
@with_crawl
def list_jobs(crawl: CrawlController, limit: int | None, as_json: bool) -> None:
    """List a crawl's jobs: those under way and the last that ended."""
    tell(
        crawl.frontier.list_jobs(crawl.crawl),
        _COLUMNS,
        _row,
        limit=limit,
        as_json=as_json,
        spare=("of", "ended"),
    )


@jobs.command("show")
@click.argument("number", type=Whole(min=1), shell_complete=job_numbers)
@wait_option
@json_option
@with_crawl
def show_job(crawl: CrawlController, number: int, wait_s: float | None, as_json: bool) -> None:
    """Show the progress of job NUMBER."""
    tell_job(crawl, crawl.frontier.get_job(crawl.crawl, number), wait_s, as_json)


@jobs.command()
@click.argument("number", type=Whole(min=1), shell_complete=job_numbers)
@json_option
@with_crawl
def cancel(crawl: CrawlController, number: int, as_json: bool) -> None:
    """Cancel job NUMBER.

    Its changes so far stay. An import takes in no more URIs.
    """
    tell_job(crawl, crawl.frontier.cancel_job(crawl.crawl, number), None, as_json)


def tell_job(crawl: CrawlController, job: Job, wait_s: float | None, as_json: bool) -> None:
    """Prints a job, with `wait_s` after its end. A job that was cancelled meanwhile is an error."""
    if wait_s is not None:
        job = crawl.wait_for_job(job.job, wait_s)
    if as_json:
        output.record(to_plain(job))
    else:
        output.facts(_facts(job))
        for finding in job.findings:
            output.line(f"  {finding}")
    if wait_s is not None and job.state == JobState.JOB_STATE_CANCELLED:
        raise ToeholdError(f"job {job.job} was cancelled")


def _facts(job: Job) -> list[tuple[str, str]]:
    total = f" of {count_text(job.total_count)}" if job.total_count else ""
    counts = ", ".join(f"{name}: {count_text(job.counts[name])}" for name in sorted(job.counts))
    return [
        ("job", str(job.job)),
        ("kind", job.kind),
        ("state", enum_word(JobState.DESCRIPTOR, job.state)),
        ("parameters", _parameters(job)),
        ("started", output.moment(job.create_time)),
        ("ended", output.moment(job.finish_time)),
        ("looked at", f"{count_text(job.done_count)}{total}"),
        ("changed", count_text(job.changed_count)),
        ("counts", counts),
        ("result", _result(job)),
    ]


def _result(job: Job) -> str:
    """What a verification that has ended has found; empty for other jobs."""
    if job.kind != VERIFY or job.state != JobState.JOB_STATE_DONE:
        return ""
    if not job.changed_count and not job.findings:
        return "no difference found"
    found = counted(max(job.changed_count, len(job.findings)), "difference")
    return f"{found} found" + (", and repaired" if job.parameters.get("repair") == "true" else "")


def _parameters(job: Job) -> str:
    return ", ".join(f"{name}: {job.parameters[name]}" for name in sorted(job.parameters))


def _row(job: Job) -> Sequence[str]:
    return (
        str(job.job),
        job.kind,
        enum_word(JobState.DESCRIPTOR, job.state),
        str(job.done_count),
        str(job.changed_count),
        str(job.total_count or "-"),
        output.moment(job.create_time),
        output.moment(job.finish_time) or "-",
        _parameters(job) or "-",
    )
