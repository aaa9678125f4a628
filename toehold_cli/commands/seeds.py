"""`toehold seeds`: further seeds; also how all commands report refused seeds."""

from collections.abc import Iterator
from pathlib import Path

import click

from toehold.frontier.v1.admin_pb2 import AddSeedsResponse
from toehold_cli import output
from toehold_cli.help import Group
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidArgument
from toehold_client.seeds import refusal_text
from toehold_client.spec.listed import normalise_seed, read_seeds
from toehold_client.spec.plain import to_plain
from toehold_client.text import counted

from .options import json_option, with_crawl

skip_option = click.option(
    "--skip-bad-seeds", "skip", is_flag=True, help="Go on without the seeds that the frontier refuses."
)


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
@skip_option
@json_option
@with_crawl
def add(crawl: CrawlController, uris: tuple[str, ...], file: Path | None, skip: bool, as_json: bool) -> None:
    """Add seeds to a crawl, before its launch or while it runs.

    Their hosts become part of the crawl. A seed without a scheme gets https://. Existing seeds are ignored.
    If the frontier refuses some seeds, the command adds the others, lists the refused ones and ends with
    exit code 2.
    """
    if not uris and file is None:
        raise click.UsageError("Give at least one URI, or a --file of URIs.")
    answer = crawl.add_seeds(_all(uris, file), on_refused="report")
    tell_refused(answer)
    if answer.rejected_count and not answer.added_count:
        raise InvalidArgument("no seed was added, because all were refused")
    output.result(
        {"crawl": crawl.crawl, **to_plain(answer)},
        f"{crawl.crawl}: {counted(answer.added_count, 'seed')} added",
        as_json=as_json,
    )
    check_refused(answer, skip)


def _all(uris: tuple[str, ...], file: Path | None) -> Iterator[str]:
    yield from map(normalise_seed, uris)
    if file is not None:
        yield from read_seeds(file)


def tell_refused(seeds: AddSeedsResponse) -> None:
    """Lists the refused seeds on standard error."""
    for seed in seeds.rejected:
        output.note(f"Refused: {refusal_text(seed)}")
    untold = seeds.rejected_count - len(seeds.rejected)
    if untold > 0:
        output.note(f"Refused: {counted(untold, 'more seed')}")


def check_refused(seeds: AddSeedsResponse, skip: bool) -> None:
    """Ends the command if seeds were refused, unless they are to be skipped."""
    if seeds.rejected_count and not skip:
        were, them = ("was", "it") if seeds.rejected_count == 1 else ("were", "them")
        refused = f"{counted(seeds.rejected_count, 'seed')} {were} refused"
        raise InvalidArgument(f"{refused}; correct {them}, or add --skip-bad-seeds")
