"""Reads crawl specs from TOML files, provides a commented template, and compares specs.

A file has the settings of a crawl (`fields`) and, beside them, the crawl's name, its seeds, and the paths of
files with further seeds and SURT prefixes. Omitted settings take the frontier's defaults. The frontier checks
the values when the crawl is created.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import tomli

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, OverrideSettings
from toehold_client.errors import InvalidSpec

from .fields import GIVING_WAY, Spec
from .listed import lines, normalise_seed, read_seeds
from .plain import flat, set_to_plain
from .tables import fill, override_of, read

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Most bytes of a spec file. Long lists of seeds belong in a `seeds_file`, which has no limit."""

MAX_SURT_PREFIXES = 10_000
"""Most SURT prefixes of a crawl, which is also the frontier's limit."""


@dataclass(frozen=True, slots=True)
class SpecFile:
    """The contents of a spec file. `name` is the crawl's; empty if the file has none."""

    name: str
    spec: CrawlSpec
    listed_seeds: tuple[str, ...]
    seeds_file: Path | None
    surt_prefixes_file: Path | None
    places: Mapping[str, str]
    """The places of fields that come from another file: path in the spec → file and line."""

    def typed_seeds(self) -> Iterator[tuple[str, str]]:
        """The same seeds as `seeds`, as they were typed, each behind its place (empty if it is listed)."""
        yield from (("", seed) for seed in self.listed_seeds)
        if self.seeds_file is not None:
            yield from lines(self.seeds_file, "seeds file")

    def seeds(self) -> Iterator[str]:
        """All seeds, each with a scheme: the listed ones, then those of the seeds file, which is read lazily.

        Raises InvalidSpec if the seeds file cannot be read.
        """
        yield from map(normalise_seed, self.listed_seeds)
        if self.seeds_file is not None:
            yield from read_seeds(self.seeds_file)


def load(path: Path) -> SpecFile:
    """Reads a spec file. Raises InvalidSpec, which names the file, the place in it, and the problem."""
    found = parse(_text_of(path), path)
    if found.seeds_file is not None:
        _check_readable(found.seeds_file)
    if found.surt_prefixes_file is not None:
        found = _with_surt_prefixes(found, found.surt_prefixes_file)
    return found


def parse(text: str, path: Path) -> SpecFile:
    """Reads a spec file's text, but neither its `seeds_file` nor its `surt_prefixes_file`.

    Errors name `path`. The paths of the two files are relative to its folder.
    """
    values = _toml(text, path)
    beside = read(values, _Beside, source=f"{path}")
    settings = {key: values[key] for key in values if key not in _BESIDE_KEYS}
    spec = CrawlSpec()
    fill(spec, read(settings, Spec, source=f"{path}", beside=_BESIDE_KEYS), Spec())
    return SpecFile(
        name=beside.name,
        spec=spec,
        listed_seeds=beside.seeds,
        seeds_file=path.parent / beside.seeds_file if beside.seeds_file else None,
        surt_prefixes_file=path.parent / beside.surt_prefixes_file if beside.surt_prefixes_file else None,
        places={},
    )


def load_override(path: Path) -> OverrideSettings:
    """Reads a file with settings for a part of a crawl's URIs. It has some tables of a spec file, with the
    settings that differ. Raises InvalidSpec as `load` does.
    """
    return override_of(_toml(_text_of(path), path), source=f"{path}")


def override_plain(settings: OverrideSettings) -> dict[str, Any]:
    """The settings of an override as its file has them: those that are set, and the lists that are empty."""
    plain = set_to_plain(settings)
    for path in plain.pop("empty_lists", ()):
        part, name = path.split(".")
        plain.setdefault(part, {})[name] = []
    return plain


def template() -> str:
    """The spec file that `toehold init` writes: each field's meaning and, commented out, its default."""
    return (resources.files(__package__) / "template.toml").read_text(encoding="utf-8")


def plain(spec: CrawlSpec) -> dict[str, Any]:
    """The spec as a spec file has it, with all defaults filled in: specs of equal meaning are equal."""
    said = set_to_plain(spec)
    if "unreachable" in said.get("robots", {}):
        said["robots"]["unreachable"] = said["robots"]["unreachable"].lower()
    for table, bound, value, stronger in GIVING_WAY:
        own = said.get(table, {})
        if value in own and bound not in own:
            own[bound] = stronger(getattr(getattr(Spec(), table), bound), own[value])
    filled: dict[str, Any] = msgspec.to_builtins(read(said, Spec))
    return filled


def changes(old: CrawlSpec, new: CrawlSpec) -> list[tuple[str, Any, Any]]:
    """The differences of two specs: the name of each field that differs, and its two values.

    Fields are compared as JSON, so that `nan` equals itself.
    """
    before, after = flat(plain(old)), flat(plain(new))
    return [
        (path, value, after[path])
        for path, value in before.items()
        if json.dumps(value) != json.dumps(after[path])
    ]


def differences(old: CrawlSpec, new: CrawlSpec) -> list[str]:
    """The differences of two specs, one readable line for each field; empty if the specs mean the same."""
    return [f"{path}: was {json.dumps(was)}, is {json.dumps(now)}" for path, was, now in changes(old, new)]


def located(refusal: InvalidSpec, places: Mapping[str, str]) -> InvalidSpec:
    """A frontier's refusal of a spec, in which problems of fields from other files name their places there
    (SpecFile.places).
    """
    problems = {places.get(path, path): problem for path, problem in refusal.problems.items()}
    shown = "; ".join(
        f"{places[path]}: {problem}" if path in places else f"{path} {problem}"
        for path, problem in refusal.problems.items()
    )
    return InvalidSpec(shown or str(refusal), reason=refusal.reason, metadata=problems)


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InvalidSpec(
            f"{path} must have at most {MAX_FILE_BYTES} bytes; put long lists of seeds into a seeds_file"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidSpec(f"{path} must be UTF-8 text, but byte {error.start} is not") from None


def _toml(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise InvalidSpec(f"{path} must be TOML: {error}") from None
    except ValueError:  # Python's own limit, which keeps reading linear
        raise InvalidSpec(f"{path} must be a spec, but a number in it has thousands of digits") from None
    except RecursionError:
        raise InvalidSpec(f"{path} must be a spec, but its keys or values are nested too deeply") from None


def _with_surt_prefixes(found: SpecFile, path: Path) -> SpecFile:
    """The spec with the prefixes of the file after its own."""
    spec, places = CrawlSpec(), {}
    spec.CopyFrom(found.spec)
    prefixes = spec.scope.surt_prefixes
    for where, line in lines(path, "SURT prefixes file"):
        if not line.lstrip("+-") or len(line.split()) > 1:
            raise InvalidSpec(f"{where}: must be +PREFIX or -PREFIX, got {line!r:.200}")
        if len(prefixes) == MAX_SURT_PREFIXES:
            raise InvalidSpec(f"{where}: a crawl can have at most {MAX_SURT_PREFIXES} SURT prefixes")
        places[f"scope.surt_prefixes[{len(prefixes)}]"] = where
        prefixes.append(line)
    return replace(found, spec=spec, places=places)


def _check_readable(seeds_file: Path) -> None:
    try:
        with seeds_file.open("rb"):
            return
    except OSError as error:
        raise InvalidSpec(f"the seeds file {seeds_file} cannot be read: {error.strerror}") from None


class _Beside(msgspec.Struct, frozen=True):
    """The keys of a spec file beside the spec."""

    name: str = ""
    seeds: tuple[str, ...] = ()
    seeds_file: str = ""
    surt_prefixes_file: str = ""


_BESIDE_KEYS = _Beside.__struct_fields__
