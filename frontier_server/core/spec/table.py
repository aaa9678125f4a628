"""The table of settings: a row for each field of `settings.py`, with its type, default and bounds.

A field's annotation has its bounds: `max_link_hops: Annotated[int, Within(0, 10_000)] = 20`. A name that ends
with `_ms` is a length of time. In the contract it is a Duration, without the suffix.
"""

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, get_args, get_origin

MAX_SHOWN = 80  # characters of a value that an error repeats
Number = int | float  # compiled code would turn whole numbers into floats if this were only `float`


@dataclass(frozen=True, slots=True)
class Within:
    """A number from `least` to `most`; with `above`, it must be above `least`."""

    least: Number
    most: Number
    above: bool = False

    def problem(self, value: Number, ms: bool) -> str:
        """The problem of a number; empty if there is none."""
        if (self.least < value if self.above else self.least <= value) and value <= self.most:
            return ""  # but not for NaN
        if self.above:
            return f"must be above {self.least} and at most {self.most}, got {value}"
        return f"must be between {shown(self.least, ms)} and {shown(self.most, ms)}, got {shown(value, ms)}"


@dataclass(frozen=True, slots=True)
class NotBelow:
    """The number must be at least another field of the same part."""

    field: str


@dataclass(frozen=True, slots=True)
class GivesWay:
    """The default gives way to another field of the same part, if the other one is `stronger`."""

    stronger: Callable[[int, int], int]  # max or min
    field: str


class OneOf:
    """One of some texts."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def problem(self, value: str, ms: bool) -> str:
        """As in `Within`."""
        if value in self.choices:
            return ""
        return f"must be one of {', '.join(self.choices)}, got {value[:MAX_SHOWN]!r}"


@dataclass(frozen=True, slots=True)
class Text:
    """A text that a regular expression matches as a whole. `form` describes it in words."""

    pattern: str
    form: str

    def problem(self, value: str, ms: bool) -> str:
        """As in `Within`."""
        if re.fullmatch(self.pattern, value, re.ASCII):
            return ""
        return f"must be {self.form}, got {value[:MAX_SHOWN]!r}"


@dataclass(frozen=True, slots=True)
class Items:
    """A list of `least` to `most` items. `called` is their name, in the plural."""

    most: int
    called: str
    least: int = 0

    def problem(self, value: tuple[Any, ...], ms: bool) -> str:
        """As in `Within`."""
        if self.least <= len(value) <= self.most:
            return ""
        range_ = f"{self.least} to {self.most}" if self.least else f"at most {self.most}"
        return f"must have {range_} {self.called}, got {len(value)}"


class Fixed(Enum):
    """A limit on changes of a setting."""

    FOR_LIFE = "an update cannot change it"
    GROWS = "an update can only add to it"
    FOR_ALL_URIS = "an override cannot change it"


Bound = Within | OneOf | Text | Items


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table."""

    name: str
    contract_name: str  # without `_ms`
    ms: bool  # whether it is a length of time
    kind: type  # int, float, bool, str, tuple, or the class of a part
    is_part: bool  # whether it has fields of its own
    element: type | None  # of a tuple
    element_is_part: bool
    default: Any  # an empty value if a value is required
    required: bool
    bound: Bound | None
    element_bound: Bound | None
    not_below: str  # another field, or empty
    gives_way: GivesWay | None
    fixed: frozenset[Fixed]


@cache
def rows_of(part: type) -> tuple[Setting, ...]:
    """The rows of a part of a spec, in the order of its fields."""
    rows = []
    for field in fields(part):
        annotation, notes = _annotated(field.type)
        kind = get_origin(annotation) or annotation
        element, element_notes = _annotated(get_args(annotation)[0]) if kind is tuple else (None, ())
        required = field.default is MISSING
        rows.append(
            Setting(
                name=field.name,
                contract_name=field.name.removesuffix("_ms"),
                ms=field.name.endswith("_ms"),
                kind=kind,
                is_part=is_dataclass(kind),
                element=element,
                element_is_part=element is not None and is_dataclass(element),
                default=kind() if required else field.default,
                required=required,
                bound=next((note for note in notes if isinstance(note, Bound)), None),
                element_bound=next((note for note in element_notes if isinstance(note, Bound)), None),
                not_below=next((note.field for note in notes if isinstance(note, NotBelow)), ""),
                gives_way=next((note for note in notes if isinstance(note, GivesWay)), None),
                fixed=frozenset(note for note in notes if isinstance(note, Fixed)),
            )
        )
    return tuple(rows)


@cache
def blank(part: type) -> Any:
    """An element of a list with its defaults, and empty values where a value is required."""
    return part(**{row.name: row.default for row in rows_of(part)})


def shown(number: Number, ms: bool) -> str:
    """A number as errors show it; a length of time is in seconds."""
    return f"{number / 1000:.12g} s" if ms else f"{number}"


def _annotated(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type and the notes beside it."""
    notes: tuple[Any, ...] = getattr(annotation, "__metadata__", ())
    return (annotation.__origin__ if notes else annotation), notes
