"""`toehold seeds`: further seeds; also how all commands report rejected seeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from toehold.frontier.v1.admin_pb2 import AddSeedsResponse
from toehold.frontier.v1.crawl_pb2 import Verdict
from toehold_client.cli import output
from toehold_client.cli.help import Group
from toehold_client.cli.text import counted
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidArgument
from toehold_client.spec.file import normalise_seed, read_seeds
from toehold_client.spec.plain import enum_word, to_plain

from .options import json_option, with_crawl


@click.group(cls=Group)
def seeds() -> None:
    """Add seeds to a crawl. `toehold report seeds` shows their outcomes."""


@seeds.command()
@click.argument("uris", metavar="[URI]...", nargs=-1)
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also add the seeds in FILE, one per line.",
)
@json_option
@with_crawl
def add(crawl: CrawlController, uris: tuple[str, ...], file: Path | None, as_json: bool) -> None:
    """Add seeds to a crawl, before its launch or while it runs.

    Their hosts become part of the crawl. A seed without a scheme gets https://. Existing seeds are ignored.
    """
    if not uris and file is None:
        raise click.UsageError("Give at least one URI, or a --file of URIs.")
    answer = crawl.add_seeds(_all(uris, file))
    tell_rejected(answer)
    if answer.rejected_count and not answer.added_count:
        raise InvalidArgument("no seed was added, because all were rejected")
    output.result(
        {"crawl": crawl.crawl, **to_plain(answer)},
        f"{crawl.crawl}: {counted(answer.added_count, 'seed')} added",
        as_json=as_json,
    )


def _all(uris: tuple[str, ...], file: Path | None) -> Iterator[str]:
    yield from map(normalise_seed, uris)
    if file is not None:
        yield from read_seeds(file)


def tell_rejected(seeds: AddSeedsResponse) -> None:
    """Lists the rejected seeds on standard error."""
    for seed in seeds.rejected:
        verdict = enum_word(Verdict.DESCRIPTOR, seed.verdict).lower().replace("_", " ")
        output.note(f"Seed {seed.number} was rejected ({verdict}): {seed.uri}")
    untold = seeds.rejected_count - len(seeds.rejected)
    if untold > 0:
        verb = "was" if untold == 1 else "were"
        output.note(f"{counted(untold, 'further seed')} {verb} rejected.")
