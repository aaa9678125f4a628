"""`toehold copy`: a new crawl with the settings of another."""

import click

from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.spec.plain import to_plain
from toehold_client.text import counted

from .options import json_option, with_crawl


@click.command()
@click.argument("new_name", metavar="NEWNAME")
@click.option("--seeds", is_flag=True, help="Copy the seeds, too.")
@json_option
@with_crawl
def copy(crawl: CrawlController, new_name: str, seeds: bool, as_json: bool) -> None:
    """Create the crawl NEWNAME with the settings of a crawl.

    `toehold launch --crawl NEWNAME` starts it. If copying the seeds was interrupted, the same command
    continues it.
    """
    copied = crawl.copy(new_name, seeds=seeds).describe()
    output.result(
        to_plain(copied),
        f"{new_name}: {output.status_text(copied.status)}, {counted(copied.seed_count, 'seed')}",
        as_json=as_json,
    )
