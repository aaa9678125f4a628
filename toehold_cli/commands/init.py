"""`toehold init`: writes a commented spec file to start from."""

import os
from pathlib import Path
from typing import Any

import click

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_cli import output
from toehold_cli.embedded.plan import hosts_of
from toehold_cli.embedded.spec_options import SpecOptions, apply
from toehold_client.errors import InvalidArgument
from toehold_client.spec.listed import normalise_seed, read_seeds
from toehold_client.spec.template import filled

from .crawl_options import seeds_file_option, with_spec_options
from .options import json_option
from .sections import SectionedCommand


@click.command(cls=SectionedCommand)
@click.argument("file", type=click.Path(path_type=Path), default="crawl.toml")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@seeds_file_option
@with_spec_options(own_defaults=False)
@json_option
def init(
    file: Path, urls: tuple[str, ...], seeds_file: Path | None, options: SpecOptions, as_json: bool
) -> None:
    """Write a crawl spec to FILE (default: crawl.toml).

    It lists every setting with its meaning and its default, and sets those that the options name. The URLs
    become its seeds. An existing file is not overwritten.
    """
    if str(file).startswith(("http:/", "https:/")):  # a path has no double slashes
        raise click.UsageError("Name the file before the URLs: toehold init crawl.toml URL")
    if str(seeds_file) == "-":
        raise click.UsageError("--seeds-file needs a file that the spec can name; it cannot be -.")
    text = filled(_spec(urls, seeds_file, options), dict(_beside(file, urls, seeds_file)))
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise InvalidArgument(f"{file} exists already; name another file") from None
    except OSError as error:
        raise InvalidArgument(f"{file} cannot be written: {error.strerror}") from None
    missing = " and ".join(
        [
            *([] if urls or seeds_file else ["seeds"]),
            *([] if options.contact else ["a contact"]),
        ]
    )
    add = f"Add {missing} to it, then run" if missing else "To start the crawl, run"
    output.result({"file": str(file)}, f"Wrote {file}. {add}: toehold launch {file}", as_json=as_json)


def _spec(urls: tuple[str, ...], seeds_file: Path | None, options: SpecOptions) -> CrawlSpec:
    spec = CrawlSpec()
    hosts = hosts_of([*map(normalise_seed, urls), *(read_seeds(seeds_file) if seeds_file else ())])
    if options.subdomains and not hosts:
        raise click.UsageError("--subdomains needs URLs, whose hosts it is about.")
    apply(options, spec, hosts)
    return spec


def _beside(file: Path, urls: tuple[str, ...], seeds_file: Path | None) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    if urls:
        found.append(("seeds", [normalise_seed(url) for url in urls]))
    if seeds_file is not None:
        relative = os.path.relpath(seeds_file.absolute(), file.absolute().parent)
        found.append(("seeds_file", relative))
    return found
