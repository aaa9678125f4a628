"""Settings on the command line: `NAME=VALUE`, named as in a spec file."""

import difflib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import tomli
from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_client.errors import InvalidArgument, InvalidSpec
from toehold_client.spec import file as spec_file
from toehold_client.spec.plain import key_of


def read_settings(texts: Sequence[str]) -> tuple[CrawlSpec, list[str]]:
    """The settings in `NAME=VALUE` texts, and the contract's paths of their names."""
    lines: list[str] = []
    paths: list[str] = []
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise InvalidArgument(f"a setting must be NAME=VALUE, got {text!r:.200}")
        path = _path_of(name)
        if path in paths:
            raise InvalidArgument(f"{name} is given twice")
        paths.append(path)
        if value:
            lines.append(f"{NAMES[path]} = {_toml(value)}")
    return spec_file.parse("\n".join(lines), Path("the command line")).spec, paths


def _path_of(name: str) -> str:
    """The contract's path of a setting, named as in a spec file, or as the frontier names it."""
    if name in PATHS:
        return PATHS[name]
    near = difflib.get_close_matches(name[:200], PATHS, n=1)
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


NAMES = {path: name for name, path in _settings(CrawlSpec.DESCRIPTOR)}
PATHS = {**{path: path for path in NAMES}, **{name: path for path, name in NAMES.items()}}
