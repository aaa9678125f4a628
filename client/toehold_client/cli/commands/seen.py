"""`toehold seen`: changes the seen-set by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from toehold_client.cli import output
from toehold_client.cli.text import count_text
from toehold_client.controller import CrawlController
from toehold_client.spec.file import read_uris

from .options import json_option, with_crawl

_file_option = click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also take the URIs in FILE, one per line.",
)


@click.group()
def seen() -> None:
    """Note URIs as seen, or forget them."""


@seen.command()
@click.argument("uris", metavar="[URI]...", nargs=-1)
@_file_option
@json_option
@with_crawl
def note(crawl: CrawlController, uris: tuple[str, ...], file: Path | None, as_json: bool) -> None:
    """Note URIs as seen, so that the crawl does not fetch them."""
    noted = crawl.frontier.note_uris(crawl.crawl, _all(uris, file))
    _tell(crawl, "noted", noted, as_json)


@seen.command()
@click.argument("uris", metavar="[URI]...", nargs=-1)
@_file_option
@json_option
@with_crawl
def forget(crawl: CrawlController, uris: tuple[str, ...], file: Path | None, as_json: bool) -> None:
    """Forget that URIs were seen, so that they count as new when they are found again.

    URIs that wait in queues are not changed.
    """
    forgotten = crawl.frontier.forget_uris(crawl.crawl, _all(uris, file))
    _tell(crawl, "forgotten", forgotten, as_json)


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
