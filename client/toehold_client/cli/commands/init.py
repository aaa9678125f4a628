"""`toehold init`: writes a commented spec file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from toehold_client.cli import output
from toehold_client.errors import InvalidArgument
from toehold_client.spec import file as spec_file

from .options import json_option


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default="crawl.toml")
@json_option
def init(file: Path, as_json: bool) -> None:
    """Write a crawl spec to FILE (default: crawl.toml).

    It lists every setting with its meaning and its default. An existing file is not overwritten.
    """
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(spec_file.template())
    except FileExistsError:
        raise InvalidArgument(f"{file} exists already; name another file") from None
    except OSError as error:
        raise InvalidArgument(f"{file} cannot be written: {error.strerror}") from None
    output.result(
        {"file": str(file)},
        f"Wrote {file}. Add seeds and a contact to it, then run: toehold launch {file}",
        as_json=as_json,
    )
