"""`toehold set` and `toehold update`: change the settings of a crawl."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import tomli
from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_client.cli import output
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidArgument, InvalidSpec
from toehold_client.spec import file as spec_file
from toehold_client.spec.file import SpecFile
from toehold_client.spec.plain import key_of

from .options import json_option, with_crawl, with_spec


@click.command("set")
@click.argument("texts", metavar="NAME=VALUE...", nargs=-1, required=True)
@json_option
@with_crawl
def set_settings(crawl: CrawlController, texts: tuple[str, ...], as_json: bool) -> None:
    """Change settings of a crawl, in any state but FINISHED.

    NAME and VALUE are those of a spec file: limits.max_documents=1000, politeness.min_delay_seconds=5,
    'scope.reject_patterns=[".*[?]sort=.*"]'. A text needs no quotes. NAME= restores the default. The command
    changes all settings or none; they count from the next decision on.
    """
    wanted, paths = _read(texts)
    _update(crawl, crawl.describe().spec, wanted, paths, as_json)


@click.command()
@json_option
@with_spec(required=True)
def update(crawl: CrawlController, asked: SpecFile, as_json: bool) -> None:
    """Change a crawl's settings to those of the file SPEC, in any state but FINISHED.

    The command changes all settings that differ, or none, and lists them. It does not change seeds; see
    `toehold seeds add`.
    """
    stored = crawl.describe().spec
    paths = [_PATHS[name] for name, _, _ in spec_file.changes(stored, asked.spec)]
    try:
        _update(crawl, stored, asked.spec, paths, as_json)
    except InvalidSpec as refusal:
        raise spec_file.located(refusal, asked.places) from None


def _update(
    crawl: CrawlController, stored: CrawlSpec, wanted: CrawlSpec, paths: Sequence[str], as_json: bool
) -> None:
    changes = spec_file.changes(stored, crawl.update(wanted, paths).spec) if paths else []
    if as_json:
        told = [{"name": name, "was": was, "is": now} for name, was, now in changes]
        output.record({"crawl": crawl.crawl, "changes": told})
        return
    for name, was, now in changes:
        output.line(f"{crawl.crawl}: {name} was {json.dumps(was)}, is {json.dumps(now)}")
    if not changes:
        output.line(f"{crawl.crawl}: nothing to change")


def _read(texts: Sequence[str]) -> tuple[CrawlSpec, list[str]]:
    """The settings in `NAME=VALUE` texts, and the contract's paths of their names."""
    lines: list[str] = []
    paths: list[str] = []
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise InvalidArgument(f"{text!r:.200} is not NAME=VALUE")
        path = _path_of(name)
        if path in paths:
            raise InvalidArgument(f"{name} is given twice")
        paths.append(path)
        if value:
            lines.append(f"{_NAMES[path]} = {_toml(value)}")
    return spec_file.parse("\n".join(lines), Path("the command line")).spec, paths


def _path_of(name: str) -> str:
    """The contract's path of a setting, named as in a spec file, or as the frontier names it."""
    if name in _PATHS:
        return _PATHS[name]
    near = difflib.get_close_matches(name[:200], _PATHS, n=1)
    did_you_mean = f"; did you mean {near[0]}?" if near else "; `toehold init` writes all of them into a file"
    raise InvalidSpec(f"{name:.200}: no such setting{did_you_mean}")


def _toml(value: str) -> str:
    """The value as TOML: as it stands, or as a text if it is none."""
    try:
        if tomli.loads(f"value = {value}").keys() == {"value"}:
            return value
    except (ValueError, RecursionError):  # no TOML, or a number of thousands of digits
        pass
    return json.dumps(value, ensure_ascii=False)


def _settings(message: Descriptor, name: str = "", path: str = "") -> Iterator[tuple[str, str]]:
    """Each setting's name in a spec file and its path in the contract; tables too."""
    for field in message.fields:
        yield f"{name}{key_of(field)}", f"{path}{field.name}"
        inner = field.message_type
        if inner is not None and not field.is_repeated and inner.full_name != Duration.DESCRIPTOR.full_name:
            yield from _settings(inner, f"{name}{key_of(field)}.", f"{path}{field.name}.")


_NAMES = {path: name for name, path in _settings(CrawlSpec.DESCRIPTOR)}
_PATHS = {**{path: path for path in _NAMES}, **{name: path for path, name in _NAMES.items()}}
