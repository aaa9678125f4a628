"""`toehold launch` and `toehold create`: a crawl from a spec file, with its seeds, started or not."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import click

from toehold.frontier.v1.admin_pb2 import AddSeedsResponse
from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Verdict
from toehold_client import show, spec_file
from toehold_client.client import FrontierClient
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidSpec
from toehold_client.plain import enum_word, to_plain

from .options import json_option, with_frontier

_spec_argument = click.argument("spec", type=click.Path(path_type=Path))
_name_option = click.option(
    "--crawl", "name", metavar="NAME", help="The crawl's name, instead of the spec's."
)


@click.command()
@_spec_argument
@_name_option
@json_option
@with_frontier
def launch(client: FrontierClient, spec: Path, name: str | None, as_json: bool) -> None:
    """Launch the crawl that the file SPEC describes.

    The frontier gets the crawl, its seeds and the order to start. Crawler nodes do the rest. If a launch
    failed halfway, the same command goes on with it.
    """
    crawl, seeds = _created(client, spec, name)
    _tell(crawl, crawl.launch(), seeds, as_json)


@click.command()
@_spec_argument
@_name_option
@json_option
@with_frontier
def create(client: FrontierClient, spec: Path, name: str | None, as_json: bool) -> None:
    """Create the crawl that the file SPEC describes, without starting it.

    URIs may be imported, and overrides put, before `toehold launch SPEC` starts it.
    """
    crawl, seeds = _created(client, spec, name)
    _tell(crawl, crawl.status(), seeds, as_json)


def _created(
    client: FrontierClient, spec: Path, name: str | None
) -> tuple[CrawlController, AddSeedsResponse]:
    """The crawl, with its seeds, and what became of those."""
    asked = spec_file.load(spec)
    name = name or asked.name
    if not name:
        raise InvalidSpec(f"{spec} gives the crawl no name; give it one there, or with --crawl")
    listed = iter(asked.seeds())
    first = next(listed, None)
    if first is None:  # found before anything is created
        raise InvalidSpec(f"{spec} names no seeds; list some in `seeds`, or in a `seeds_file`")
    crawl = CrawlController(client, name)
    try:
        seeds = crawl.create(asked.spec, chain((first,), listed))
    except InvalidSpec as refusal:
        raise spec_file.located(refusal, asked.places) from None
    _tell_rejected(seeds)
    return crawl, seeds


def _tell(crawl: CrawlController, status: CrawlStatus, seeds: AddSeedsResponse, as_json: bool) -> None:
    if as_json:
        show.record({"crawl": crawl.crawl, "status": to_plain(status), "seeds": to_plain(seeds)})
    else:
        show.line(f"{crawl.crawl}: {show.status_words(status)}, {seeds.added_count} seeds")


def _tell_rejected(seeds: AddSeedsResponse) -> None:
    for seed in seeds.rejected:
        show.note(f"Left out, {enum_word(Verdict.DESCRIPTOR, seed.verdict)}: seed {seed.number}, {seed.uri}")
    untold = seeds.rejected_count - len(seeds.rejected)
    if untold > 0:
        show.note(f"Left out for the like: {untold} further seeds")
