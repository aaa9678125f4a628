"""`toehold crawls` and `toehold delete`: the crawls of a frontier, and the end of one."""

import sys

import click

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold_cli import output
from toehold_client.client import FrontierClient
from toehold_client.controller import CrawlController
from toehold_client.errors import ToeholdError
from toehold_client.spec.plain import to_plain

from .options import json_option, with_crawl, with_frontier

_COLUMNS = ("crawl", "state", "exit status", "seeds", "created", "launched", "finished", "remarks")


@click.command()
@json_option
@with_frontier
def crawls(client: FrontierClient, as_json: bool) -> None:
    """List the frontier's crawls."""
    if as_json:
        for crawl in client.list_crawls():
            output.record(to_plain(crawl))
    else:
        output.table(_COLUMNS, map(_row, client.list_crawls()), spare=("created", "finished", "seeds"))


def _row(crawl: Crawl) -> tuple[str, ...]:
    times = (crawl.create_time, crawl.launch_time, crawl.finish_time)
    remarks = [*output.standing(crawl.status), *filter(None, [crawl.status.reason])]
    return (
        crawl.crawl,
        *output.status_names(crawl.status),
        str(crawl.seed_count),
        *(output.moment(time) or "-" for time in times),
        ", ".join(remarks) or "-",
    )


@click.command()
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.option("--force", is_flag=True, help="Delete the crawl even if it runs. Unfinished fetches are lost.")
@json_option
@with_crawl
def delete(crawl: CrawlController, yes: bool, force: bool, as_json: bool) -> None:
    """Delete a crawl and all its data on the frontier.

    Without --force the crawl must have finished, or never have been launched; `toehold stop` ends it. The
    files that nodes wrote stay.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(
                "This deletes data; add --yes to confirm (standard input is not a terminal)"
            )
        if not click.confirm(f"Delete crawl {crawl.crawl} and everything stored about it?", err=True):
            raise ToeholdError("nothing was deleted, because you did not confirm")
    crawl.delete(force=force)
    output.result({"crawl": crawl.crawl, "deleted": True}, f"{crawl.crawl}: deleted", as_json=as_json)
