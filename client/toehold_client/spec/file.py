"""Crawl specs as TOML files: read, written as a commented template, compared.

A file says what a crawl's spec says, in the same words (`spec_fields`), and beside it the crawl's name, its
seeds, and files with further seeds and SURT prefixes. What it leaves out takes the frontier's default.
Whether the values make sense together is for the frontier to judge when the crawl is created.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import tomli
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, OverrideSettings
from toehold_client.errors import InvalidSpec

from .fields import GIVING_WAY, LISTS, Override, Spec, Table
from .plain import fields_of, key_of, set_to_plain

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Most bytes of a spec file. Seeds by the million belong into a `seeds_file`, which has no limit."""

MAX_SURT_PREFIXES = 10_000
"""Most lines of a `surt_prefixes_file` that are read: as many prefixes as a frontier takes."""

_MAX_LINE_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class SpecFile:
    """What a spec file says. `name` is the crawl's, empty if the file gives none."""

    name: str
    spec: CrawlSpec
    listed_seeds: tuple[str, ...]
    seeds_file: Path | None
    surt_prefixes_file: Path | None
    places: Mapping[str, str]
    """Where fields of the spec stand that are not in the spec file: path in the spec → file and line."""

    def seeds(self) -> Iterator[str]:
        """All seeds, each with a scheme: those listed, then those of the seeds file, read as they are needed.

        InvalidSpec where the seeds file cannot be read.
        """
        yield from map(normalise_seed, self.listed_seeds)
        if self.seeds_file is not None:
            yield from read_seeds(self.seeds_file)


def load(path: Path) -> SpecFile:
    """Reads a spec file. InvalidSpec names the file, the place in it, and what would be right."""
    found = parse(_text_of(path), path)
    if found.seeds_file is not None:
        _check_readable(found.seeds_file)
    if found.surt_prefixes_file is not None:
        found = _with_surt_prefixes(found, found.surt_prefixes_file)
    return found


def parse(text: str, path: Path) -> SpecFile:
    """Reads a spec file's text.

    `path` is told in errors, and its folder is where a relative `seeds_file` or `surt_prefixes_file` is
    looked for. Neither is read here.
    """
    said = _toml(text, path)
    try:
        beside = msgspec.convert(said, _Beside)
        values = msgspec.convert({key: said[key] for key in said if key not in _BESIDE_KEYS}, Spec)
    except msgspec.ValidationError as error:
        place, problem = _explained(str(error), Spec(), _BESIDE_KEYS)
        raise InvalidSpec(f"{path}: {place}: {problem}", metadata={place: problem}) from None
    spec = CrawlSpec()
    _fill(spec, values, Spec())
    return SpecFile(
        name=beside.name,
        spec=spec,
        listed_seeds=beside.seeds,
        seeds_file=path.parent / beside.seeds_file if beside.seeds_file else None,
        surt_prefixes_file=path.parent / beside.surt_prefixes_file if beside.surt_prefixes_file else None,
        places={},
    )


def load_override(path: Path) -> OverrideSettings:
    """Reads a file with settings for a part of a crawl's URIs: the tables of a spec file that an override may
    have, and only what is to differ. InvalidSpec as in `load`.
    """
    said = _toml(_text_of(path), path)
    try:
        values = msgspec.convert(said, Override)
    except msgspec.ValidationError as error:
        place, problem = _explained(str(error), Override())
        raise InvalidSpec(f"{path}: {place}: {problem}", metadata={place: problem}) from None
    settings = OverrideSettings()
    for name in said:
        part, table = getattr(settings, name), getattr(values, name)
        for field in fields_of(part):
            if key_of(field) not in said[name]:
                continue
            value = getattr(table, key_of(field))
            if field.is_repeated and not value:
                settings.empty_lists.append(f"{name}.{field.name}")
            else:  # also what is a crawl's default: here it may be otherwise
                _put(part, field, value)
    return settings


def override_plain(settings: OverrideSettings) -> dict[str, Any]:
    """The settings of an override in the words of its file: only what it says, lists that it empties too."""
    said = set_to_plain(settings)
    for path in said.pop("empty_lists", ()):
        part, name = path.split(".")
        said.setdefault(part, {})[name] = []
    return said


def template() -> str:
    """The spec file that `toehold init` writes: every field's meaning and, commented out, its default."""
    return (resources.files(__package__) / "template.toml").read_text(encoding="utf-8")


def plain(spec: CrawlSpec) -> dict[str, Any]:
    """The spec in a spec file's words, every default filled in: two specs that mean the same are equal."""
    said = set_to_plain(spec)
    if "unreachable" in said.get("robots", {}):
        said["robots"]["unreachable"] = said["robots"]["unreachable"].lower()
    for table, bound, value, stronger in GIVING_WAY:
        own = said.get(table, {})
        if value in own and bound not in own:
            own[bound] = stronger(getattr(getattr(Spec(), table), bound), own[value])
    try:
        values = msgspec.convert(said, Spec)
    except msgspec.ValidationError as error:
        place, problem = _explained(str(error), Spec())
        raise InvalidSpec(f"{place}: {problem}", metadata={place: problem}) from None
    filled: dict[str, Any] = msgspec.to_builtins(values)
    return filled


def changes(old: CrawlSpec, new: CrawlSpec) -> list[tuple[str, Any, Any]]:
    """What the two specs disagree in: the name of each such field, and what it says in each.

    Fields are compared as they are told, so that a number that is none (`nan`) equals itself.
    """
    before, after = _flat(plain(old)), _flat(plain(new))
    return [
        (path, value, after[path])
        for path, value in before.items()
        if json.dumps(value) != json.dumps(after[path])
    ]


def differences(old: CrawlSpec, new: CrawlSpec) -> list[str]:
    """The same, one readable line for each field; empty if the specs mean the same."""
    return [f"{path}: was {json.dumps(was)}, is {json.dumps(now)}" for path, was, now in changes(old, new)]


def located(refusal: InvalidSpec, places: Mapping[str, str]) -> InvalidSpec:
    """A frontier's refusal of a spec that came from files: a problem with what stands in another file than
    the spec's is told with its place there (SpecFile.places).
    """
    problems = {places.get(path, path): problem for path, problem in refusal.problems.items()}
    told = "; ".join(
        f"{places[path]}: {problem}" if path in places else f"{path} {problem}"
        for path, problem in refusal.problems.items()
    )
    return InvalidSpec(told or str(refusal), reason=refusal.reason, metadata=problems)


def normalise_seed(text: str) -> str:
    """A seed as somebody types it, as a URI: `example.com/a` becomes `https://example.com/a`.

    Whether it is one is not judged.
    """
    seed = text.strip()
    if seed.startswith("//"):
        return f"https:{seed}"
    return seed if _SCHEME.match(seed) else f"https://{seed}"


def read_seeds(path: Path) -> Iterator[str]:
    """The seeds in a file, one a line; blank lines and lines that begin with `#` do not count.

    InvalidSpec if it cannot be read.
    """
    for _, line in _lines(path, "seeds file"):
        yield normalise_seed(line)


def read_uris(path: Path) -> Iterator[str]:
    """The URIs in a file, as they stand there, one a line; what counts is as in `read_seeds`."""
    for _, line in _lines(path, "file"):
        yield line


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InvalidSpec(
            f"{path} has more than {MAX_FILE_BYTES} bytes; long lists of seeds belong into a seeds_file"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidSpec(f"{path} is not UTF-8 text (byte {error.start})") from None


def _toml(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise InvalidSpec(f"{path} is not TOML: {error}") from None
    except ValueError:  # Python's own limit, which keeps reading linear
        raise InvalidSpec(f"{path} is not a spec: a number in it has thousands of digits") from None
    except RecursionError:
        raise InvalidSpec(f"{path} is not a spec: its keys or values are nested too deeply") from None


def _with_surt_prefixes(found: SpecFile, path: Path) -> SpecFile:
    """The spec with the prefixes of the file behind its own."""
    spec, places = CrawlSpec(), {}
    spec.CopyFrom(found.spec)
    prefixes = spec.scope.surt_prefixes
    for number, line in _lines(path, "SURT prefixes file"):
        where = f"{path}, line {number}"
        if not line.lstrip("+-") or len(line.split()) > 1:
            raise InvalidSpec(f"{where}: {line!r:.200} is not `+PREFIX` or `-PREFIX`")
        if len(prefixes) == MAX_SURT_PREFIXES:
            raise InvalidSpec(f"{where}: more than {MAX_SURT_PREFIXES} SURT prefixes")
        places[f"scope.surt_prefixes[{len(prefixes)}]"] = where
        prefixes.append(line)
    return replace(found, spec=spec, places=places)


def _lines(path: Path, what: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that count, with their numbers, as they are needed."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            number = 0
            while line := file.readline(_MAX_LINE_CHARS):
                number += 1
                text = line.strip()
                if text and not text.startswith("#"):
                    yield number, text
    except OSError as error:
        raise InvalidSpec(f"the {what} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidSpec(f"the {what} {path} is not UTF-8 text") from None


def _check_readable(seeds_file: Path) -> None:
    try:
        with seeds_file.open("rb"):
            return
    except OSError as error:
        raise InvalidSpec(f"the seeds file {seeds_file} cannot be read: {error.strerror}") from None


# `localhost:8080` and `example.com:80/a` begin with a host and its port, not with a scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9]{1,5}(?:[/?#]|$))")


class _Beside(msgspec.Struct, frozen=True):
    """What a spec file says beside the spec."""

    name: str = ""
    seeds: tuple[str, ...] = ()
    seeds_file: str = ""
    surt_prefixes_file: str = ""


_BESIDE_KEYS = _Beside.__struct_fields__


def _fill(message: Message, values: msgspec.Struct, defaults: msgspec.Struct) -> None:
    """Sets the fields of the message whose values are not the defaults: a spec file pins no default."""
    for field in fields_of(message):
        value, default = getattr(values, key_of(field)), getattr(defaults, key_of(field))
        if value == default:
            continue
        if isinstance(value, msgspec.Struct):
            _fill(getattr(message, field.name), value, default)
        else:
            _put(message, field, value)


def _put(message: Message, field: FieldDescriptor, value: Any) -> None:
    if field.name in LISTS:
        for each in value:
            _fill(getattr(message, field.name).add(), each, LISTS[field.name])
    elif field.message_type is not None:
        getattr(message, field.name).FromNanoseconds(round(value * 1e9))
    elif field.is_repeated:
        getattr(message, field.name).extend(value)
    else:
        setattr(message, field.name, _number_of(field, value))


def _number_of(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is None:
        return value
    return next(each.number for each in field.enum_type.values if each.name.endswith(f"_{value.upper()}"))


def _flat(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat.update(_flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value})
    return flat


_PROBLEM = re.compile(r"(?P<problem>.*?)(?: - at `\$\.?(?P<place>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)


def _explained(error: str, root: Table, beside: Iterable[str] = ()) -> tuple[str, str]:
    """The place in the file and the problem, of what msgspec says of a file that may say what `root` does."""
    match = _PROBLEM.fullmatch(error)
    assert match is not None  # it matches any text
    place, problem = match["place"] or "", match["problem"]
    unknown = _UNKNOWN.fullmatch(problem)
    if unknown is None:
        return place, problem[:1].lower() + problem[1:]
    known = _known_fields(place, root, beside)
    near = difflib.get_close_matches(unknown["field"][:200], known, n=1)
    there_are = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"{place}.{unknown['field']:.200}".lstrip("."), f"no such field; {there_are}"


def _known_fields(place: str, root: Table, beside: Iterable[str]) -> list[str]:
    table: Any = root
    for name in re.sub(r"\[\d+\]", "", place).split(".") if place else ():
        table = LISTS.get(name) or getattr(table, name)
    own: list[str] = list(table.__struct_fields__)
    return own if place else [*beside, *own]
