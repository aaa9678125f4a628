"""Crawl specs ↔ settings, and the overrides of a spec.

The fields of a settings class have the names of their message's fields. A length of time is a Duration in the
message and `…_ms` in the class. So each direction is one walk over the table of settings.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message

from toehold.frontier.v1 import crawl_pb2

from ..core.rows.errors import StoreCorrupt
from ..core.spec.settings import CrawlSettings
from ..core.spec.table import Fixed, blank, rows_of
from .times import milliseconds

S = TypeVar("S")

SPECS_REMEMBERED = 32
MOST_SHOWN = 80  # characters of a value that an event tells
_DEFAULTS = CrawlSettings()

# The setting with another name: the contract has an enum for this boolean.
_ALLOW_UNREACHABLE = "allow_unreachable"
_UNREACHABLE = {True: '"allow"', False: '"forbid"'}
_PROXY = "fetch.proxy"  # may have a password
# The field of an override that names lists, and the lists that it may name: those that are empty by default.
_EMPTY = "empty_lists"
OVERRIDE_LISTS = frozenset(
    f"{part.name}.{field.name}"
    for part in crawl_pb2.OverrideSettings.DESCRIPTOR.fields
    if part.message_type is not None
    for field in part.message_type.fields
    if field.is_repeated and not getattr(getattr(_DEFAULTS, part.name), field.name)
)
# The parts of a spec with their fields.
_PARTS = [(part.name, row) for part in rows_of(CrawlSettings) if part.is_part for row in rows_of(part.kind)]
# Defaults that give way if they are not set: part, field, and the rule.
_GIVING_WAY = [(part, row, row.gives_way) for part, row in _PARTS if row.gives_way is not None]
# Settings that an override must not change: they decide on partitions, names of queues and rows of hosts.
_FIXED = [(part, row.contract_name) for part, row in _PARTS if Fixed.FOR_ALL_URIS in row.fixed]


def settings(spec_bytes: bytes) -> CrawlSettings:
    """A stored spec as the core uses it."""
    return _read_spec(spec_bytes)[1]


@lru_cache(maxsize=SPECS_REMEMBERED)
def _read_spec(spec_bytes: bytes) -> tuple[crawl_pb2.CrawlSpec, CrawlSettings]:
    """A stored spec and its settings. A large spec takes a while to read."""
    try:
        spec = crawl_pb2.CrawlSpec.FromString(spec_bytes)
    except DecodeError as problem:
        raise StoreCorrupt(f"a stored spec of {len(spec_bytes)} bytes cannot be read") from problem
    return spec, settings_of(spec)


def settings_with(spec_bytes: bytes, overrides: Sequence[bytes]) -> CrawlSettings:
    """The settings of a stored spec with stored OverrideSettings on top, in order.

    Only the overridden parts are read again. Raises StoreCorrupt.
    """
    spec, whole = _read_spec(spec_bytes)
    touched = crawl_pb2.CrawlSpec()
    parts: set[str] = set()

    def part_of(name: str) -> Any:
        part = "limits" if name == "host_quota" else name
        if part not in parts:
            parts.add(part)
            getattr(touched, part).CopyFrom(getattr(spec, part))
        return touched.limits.host_quota if name == "host_quota" else getattr(touched, part)

    for each in overrides:
        try:
            override = crawl_pb2.OverrideSettings.FromString(each)
        except DecodeError as problem:
            raise StoreCorrupt(f"a stored override of {len(each)} bytes cannot be read") from problem
        for field, value in override.ListFields():
            if field.name != _EMPTY:
                _replace(part_of(field.name), value)
        for name, field_name in (path.split(".") for path in override.empty_lists):
            part_of(name).ClearField(field_name)
    read = {part: _read(getattr(touched, part), getattr(_DEFAULTS, part)) for part in parts}
    return _with_bounds(replace(whole, **read), touched, parts)


def _replace(message: Message, override: Message) -> None:
    # MergeFrom would append to lists, and mix the seconds of one Duration with another's nanoseconds.
    for field, value in override.ListFields():
        message.ClearField(field.name)
        if field.is_repeated:
            getattr(message, field.name).extend(value)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(value)
        else:
            setattr(message, field.name, value)


def settings_of(spec: crawl_pb2.CrawlSpec) -> CrawlSettings:
    """A spec as the core uses it. Fields that are not set take their defaults."""
    return _with_bounds(_read(spec, _DEFAULTS), spec, {part for part, _, _ in _GIVING_WAY})


def _with_bounds(read: CrawlSettings, spec: crawl_pb2.CrawlSpec, parts: Collection[str]) -> CrawlSettings:
    """The settings of a spec. In `parts`, defaults that are not set give way."""
    for part, row, way in _GIVING_WAY:
        if part in parts and not getattr(spec, part).HasField(row.contract_name):
            own = getattr(read, part)
            bound = way.stronger(getattr(own, row.name), getattr(own, way.field))
            read = replace(read, **{part: replace(own, **{row.name: bound})})
    return read


def _read(message: Any, default: S) -> S:
    """The settings of a message. Fields that are not set are as in the default."""
    said: dict[str, Any] = {}
    kind: type = type(default)
    for row in rows_of(kind):
        name = row.contract_name
        if name == _ALLOW_UNREACHABLE:
            said[name] = message.unreachable == crawl_pb2.ROBOTS_UNREACHABLE_ALLOW
        elif row.is_part:
            said[name] = _read(getattr(message, name), getattr(default, name))
        elif row.element_is_part:
            said[name] = tuple(_read(each, blank(row.element)) for each in getattr(message, name))
        elif _is_set(message, name):
            value = getattr(message, name)
            said[row.name] = milliseconds(value) if row.ms else tuple(value) if row.kind is tuple else value
    return replace(default, **said)  # type: ignore[type-var]  # every S is a dataclass


def _is_set(message: Any, name: str) -> bool:
    has_presence = message.DESCRIPTOR.fields_by_name[name].has_presence
    return bool(message.HasField(name) if has_presence else getattr(message, name))


def spec(settings: CrawlSettings) -> crawl_pb2.CrawlSpec:
    """A spec with all defaults filled in."""
    message = crawl_pb2.CrawlSpec()
    _write(settings, message)
    return message


M = TypeVar("M", bound=Message)


def part(settings: object, message: M) -> M:
    """Fill an empty message with a part of a spec."""
    _write(settings, message)
    return message


def _write(settings: object, message: Any) -> None:
    kind: type = type(settings)
    for row in rows_of(kind):
        name, value = row.contract_name, getattr(settings, row.name)
        if name == _ALLOW_UNREACHABLE:
            message.unreachable = (
                crawl_pb2.ROBOTS_UNREACHABLE_ALLOW if value else crawl_pb2.ROBOTS_UNREACHABLE_FORBID
            )
        elif row.is_part:
            getattr(message, name).SetInParent()
            _write(value, getattr(message, name))
        elif row.element_is_part:
            for each in value:
                _write(each, getattr(message, name).add())
        elif row.ms:
            getattr(message, name).FromMilliseconds(value)
        elif row.kind is tuple:
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)


def amended(
    spec_bytes: bytes, change: crawl_pb2.CrawlSpec, paths: Sequence[str]
) -> tuple[bytes, Sequence[str]]:
    """Replace fields of a stored spec: those in `paths`, or all that `change` sets. Returns spec and paths.

    Raises ValueError for a path that names no field.
    """
    spec = crawl_pb2.CrawlSpec.FromString(spec_bytes)
    chosen = list(paths) or list(_paths(change))
    for path in chosen:
        _amend(spec, change, path.split("."), path)
    return spec.SerializeToString(deterministic=True), chosen


def differences(before: bytes, after: bytes) -> list[str]:
    """The settings that differ in two stored specs, as spec files name them, with both values:
    `limits.max_documents = 1000 (was 400)`. Values with passwords, and lists of tables, are only named."""
    return list(_differences(settings(before), settings(after)))


def _differences(before: Any, after: Any, prefix: str = "") -> Iterator[str]:
    kind: type = type(before)
    for row in rows_of(kind):
        was, now = getattr(before, row.name), getattr(after, row.name)
        name = f"{prefix}{row.contract_name}{'_seconds' if row.ms else ''}"
        if was == now:
            continue
        if row.is_part:
            yield from _differences(was, now, f"{name}.")
        elif row.element_is_part:
            yield f"{name} ({len(now)} of them, were {len(was)})"
        elif name == _PROXY:
            yield f"{name} (another one)"
        elif row.name == _ALLOW_UNREACHABLE:
            yield f"robots.unreachable = {_UNREACHABLE[now]} (was {_UNREACHABLE[was]})"
        else:
            yield f"{name} = {_plain(now, row.ms)} (was {_plain(was, row.ms)})"


def _plain(value: Any, ms: bool) -> str:
    """A value as a spec file has it, without the rest of a long one."""
    if ms:
        return f"{value / 1000:.12g}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _paths(message: Message, prefix: str = "") -> Iterator[str]:
    """The paths of the fields that are set; parts are entered."""
    for field, value in message.ListFields():
        path = f"{prefix}{field.name}"
        if field.is_repeated or field.message_type is None or isinstance(value, Duration):
            yield path
        else:
            yield from _paths(value, f"{path}.")


def _amend(spec: Message, change: Message, names: Sequence[str], path: str) -> None:
    field = spec.DESCRIPTOR.fields_by_name.get(names[0])
    if field is None:
        raise ValueError(f"a path must name a field of CrawlSpec, got {path[:80]!r}")
    if len(names) > 1:
        if field.is_repeated or field.message_type is None:
            raise ValueError(
                f"a path must name a field of CrawlSpec, but {names[0]!r} in {path[:80]!r} has no fields"
            )
        _amend(getattr(spec, names[0]), getattr(change, names[0]), names[1:], path)
        return
    spec.ClearField(names[0])
    value = getattr(change, names[0])
    if field.is_repeated:
        getattr(spec, names[0]).extend(value)
    elif field.has_presence and not change.HasField(names[0]):
        return  # the default
    elif field.message_type is not None:
        getattr(spec, names[0]).CopyFrom(value)
    else:
        setattr(spec, names[0], value)


def spec_problems(spec: crawl_pb2.CrawlSpec) -> dict[str, str]:
    """The problems of a spec that only the wire can see: unknown enum values."""
    if spec.robots.unreachable not in crawl_pb2.RobotsUnreachable.values():
        return {"robots.unreachable": f"must be a RobotsUnreachable, got {spec.robots.unreachable}"}
    return {}


def override_problems(override: crawl_pb2.OverrideSettings) -> dict[str, str]:
    """The problems of an override that only the wire can see: fields that an override cannot have, and wrong
    names of lists."""
    found = {
        f"{part}.{name}": "cannot be overridden, because it belongs to the whole crawl"
        for part, name in _FIXED
        if _is_set(getattr(override, part), name)
    }
    if len(override.empty_lists) > len(OVERRIDE_LISTS):
        found[_EMPTY] = f"must have at most {len(OVERRIDE_LISTS)} names, got {len(override.empty_lists)}"
        return found
    for place, path in enumerate(override.empty_lists):
        at = f"{_EMPTY}[{place}]"
        if path not in OVERRIDE_LISTS:
            found[at] = f"must be one of {', '.join(sorted(OVERRIDE_LISTS))}, got {path[:80]!r}"
        elif path in override.empty_lists[:place]:
            found[at] = f"must differ from the other names, got {path} twice"
        elif _is_set(getattr(override, path.split(".")[0]), path.split(".")[1]):
            found[at] = f"must name a list without elements, but {path} has some"
    return found


def sets_something(override: crawl_pb2.OverrideSettings) -> bool:
    said = (value for field, value in override.ListFields() if field.name != _EMPTY)
    return bool(override.empty_lists) or any(part.ListFields() for part in said)
