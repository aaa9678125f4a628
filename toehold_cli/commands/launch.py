"""`toehold launch` and `toehold create`: a crawl from a spec file, with its seeds."""

from itertools import chain

import click

from toehold.frontier.v1.admin_pb2 import AddSeedsResponse
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlStatus
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidSpec
from toehold_client.spec import file as spec_file
from toehold_client.spec.file import SpecFile
from toehold_client.spec.plain import to_plain
from toehold_client.text import counted

from .options import json_option, with_spec
from .seeds import check_refused, skip_option, tell_refused
from .suggestions import checkpoint_names


@click.command()
@click.option("--paused", is_flag=True, help="Pause the crawl once the seeds are in their queues.")
@click.option(
    "--checkpoint",
    metavar="NAME",
    shell_complete=checkpoint_names,
    default="",
    help="Continue from this checkpoint, without the spec's seeds.",
)
@click.option(
    "--checkpoint-crawl",
    metavar="NAME",
    default="",
    help="Take the state of this crawl from the checkpoint.  [default: the crawl's own name]",
)
@skip_option
@json_option
@with_spec(required=False)
def launch(
    crawl: CrawlController,
    asked: SpecFile | None,
    paused: bool,
    checkpoint: str,
    checkpoint_crawl: str,
    skip: bool,
    as_json: bool,
) -> None:
    """Launch the crawl of the file SPEC, or an existing crawl.

    The command creates the crawl on the frontier, adds its seeds and starts it. Crawler nodes do the rest. If
    the frontier refuses a seed, the command does not start the crawl, and ends with exit code 2. If a launch
    failed halfway, the same command completes it.
    """
    if checkpoint_crawl and not checkpoint:
        raise click.UsageError("--checkpoint-crawl needs --checkpoint.")
    seeds = None
    if asked is not None and checkpoint:
        asked.spec.pause_at_start |= paused
        crawl.create(asked.spec)
    elif asked is not None:
        asked.spec.pause_at_start |= paused
        seeds = create_crawl(crawl, asked, skip)
    elif paused:
        crawl.frontier.update_crawl(crawl.crawl, CrawlSpec(pause_at_start=True))
    _tell(crawl, crawl.launch(checkpoint, checkpoint_crawl), seeds, as_json)


@click.command()
@skip_option
@json_option
@with_spec(required=True)
def create(crawl: CrawlController, asked: SpecFile, skip: bool, as_json: bool) -> None:
    """Create the crawl of the file SPEC, without starting it.

    You can import URIs and put overrides before `toehold launch SPEC` starts it.
    """
    seeds = create_crawl(crawl, asked, skip)
    _tell(crawl, crawl.status(), seeds, as_json)


def create_crawl(crawl: CrawlController, file: SpecFile, skip: bool) -> AddSeedsResponse:
    """Creates the crawl, or completes one with the same spec; the answer to its seeds. InvalidArgument if the
    frontier refuses a seed, unless `skip`.
    """
    listed = iter(file.seeds())
    first = next(listed, None)
    if first is None:  # found before anything is created
        raise InvalidSpec("the spec has no seeds; list some in `seeds` or in a `seeds_file`")
    try:
        seeds = crawl.create(file.spec, chain((first,), listed), on_refused="report")
    except InvalidSpec as refusal:
        raise spec_file.located(refusal, file.places) from None
    tell_refused(seeds)
    check_refused(seeds, skip)
    return seeds


def _tell(crawl: CrawlController, status: CrawlStatus, seeds: AddSeedsResponse | None, as_json: bool) -> None:
    if as_json:
        added = None if seeds is None else to_plain(seeds)
        output.record({"crawl": crawl.crawl, "status": to_plain(status), "seeds": added})
    else:
        more = "" if seeds is None else f", {counted(seeds.added_count, 'seed')}"
        output.line(f"{crawl.crawl}: {output.status_text(status)}{more}")
