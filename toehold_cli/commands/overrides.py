"""`toehold overrides`: settings for some of a crawl's URIs."""

import json
from pathlib import Path
from typing import Any

import click

from toehold.frontier.v1.crawl_pb2 import Override
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidSpec
from toehold_client.spec import file as spec_file
from toehold_client.spec.plain import flat

from .options import Listing, json_option, with_crawl
from .suggestions import override_prefixes


@click.group(cls=Listing)
def overrides() -> None:
    """List, put or delete settings for some URIs.

    `toehold overrides` means `toehold overrides list`.
    """


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
        output.table(("surt prefix", "settings"), ((each.surt_prefix, _text(each)) for each in found))


@overrides.command()
@click.argument("prefix", shell_complete=override_prefixes)
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@with_crawl
def put(crawl: CrawlController, prefix: str, file: Path, as_json: bool) -> None:
    """Apply the settings in FILE to all URIs below PREFIX.

    PREFIX is a SURT prefix, a host or a URL. FILE is TOML with some tables of a spec file: politeness, retry,
    fetch, extract, queues, host_quota, revisit. Every value in it counts, including false, 0 and empty lists.
    The new override replaces an old one of PREFIX, and counts from the next decision on.
    """
    settings = spec_file.load_override(file)
    try:
        kept = crawl.frontier.put_override(crawl.crawl, prefix, settings)
    except InvalidSpec as refusal:
        problems = "; ".join(f"{path} {problem}" for path, problem in refusal.problems.items())
        raise InvalidSpec(f"the frontier refuses {file}: {problems}", reason=refusal.reason) from None
    output.result(_plain(kept), f"{kept.surt_prefix}: {_text(kept)}", as_json=as_json)


@overrides.command()
@click.argument("prefix", shell_complete=override_prefixes)
@json_option
@with_crawl
def delete(crawl: CrawlController, prefix: str, as_json: bool) -> None:
    """Remove the override of PREFIX."""
    crawl.frontier.delete_override(crawl.crawl, prefix)
    output.result({"surt_prefix": prefix, "deleted": True}, f"{prefix}: deleted", as_json=as_json)


def _plain(override: Override) -> dict[str, Any]:
    return {"surt_prefix": override.surt_prefix, "settings": spec_file.override_plain(override.settings)}


def _text(override: Override) -> str:
    """`politeness.min_delay_seconds = 10.0`, each that is set."""
    settings = flat(spec_file.override_plain(override.settings))
    return ", ".join(f"{path} = {json.dumps(value)}" for path, value in settings.items())
