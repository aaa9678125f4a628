"""`toehold overrides`: settings for a part of a crawl's URIs, put and removed while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from toehold.frontier.v1.crawl_pb2 import Override
from toehold_client.cli import output
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidSpec
from toehold_client.spec import file as spec_file

from .options import Listing, json_option, with_crawl


@click.group(cls=Listing)
def overrides() -> None:
    """Settings for a part of a crawl's URIs: list them (also without `list`), put, delete."""


@overrides.command("list")
@json_option
@with_crawl
def list_overrides(crawl: CrawlController, as_json: bool) -> None:
    """List a crawl's overrides."""
    found = crawl.frontier.list_overrides(crawl.crawl)
    if as_json:
        for override in found:
            output.record(_plain(override))
    else:
        output.table(("surt prefix", "settings"), ((each.surt_prefix, _words(each)) for each in found))


@overrides.command()
@click.argument("prefix")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@with_crawl
def put(crawl: CrawlController, prefix: str, file: Path, as_json: bool) -> None:
    """Let the settings in FILE hold for all URIs below PREFIX, from the next decision on.

    PREFIX is a SURT prefix, a host with all below it, or a URL. FILE is TOML with the tables of a spec file
    that may differ: politeness, retry, fetch, extract, queues, host_quota, revisit. What stands there holds,
    be it false, 0 or an empty list. An override that PREFIX has is replaced.
    """
    settings = spec_file.load_override(file)
    try:
        kept = crawl.frontier.put_override(crawl.crawl, prefix, settings)
    except InvalidSpec as refusal:
        told = "; ".join(f"{path}: {problem}" for path, problem in refusal.problems.items())
        raise InvalidSpec(f"{file} is refused: {told}", reason=refusal.reason) from None
    output.result(_plain(kept), f"{kept.surt_prefix}: {_words(kept)}", as_json=as_json)


@overrides.command()
@click.argument("prefix")
@json_option
@with_crawl
def delete(crawl: CrawlController, prefix: str, as_json: bool) -> None:
    """Remove the override of PREFIX."""
    crawl.frontier.delete_override(crawl.crawl, prefix)
    output.result({"surt_prefix": prefix, "deleted": True}, f"{prefix}: deleted", as_json=as_json)


def _plain(override: Override) -> dict[str, Any]:
    return {"surt_prefix": override.surt_prefix, "settings": spec_file.override_plain(override.settings)}


def _words(override: Override) -> str:
    return ", ".join(_paths(spec_file.override_plain(override.settings)))


def _paths(table: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """`politeness.min_delay_seconds = 10.0`, each that is set."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{path}{key}.")
        else:
            yield f"{path}{key} = {json.dumps(value)}"
