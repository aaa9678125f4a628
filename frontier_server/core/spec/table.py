"""The table of settings: a row for each field of `settings.py`, with its type, default and bounds.

A field's annotation has its bounds: `max_link_hops: Annotated[int, Within(0, 10_000)] = 20`. The unit is in
the name: `_ms` is a length of time, which the contract has as a Duration and without the suffix.
"""

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, get_args, get_origin

MAX_SHOWN = 80  # characters of a value that an error repeats
Number = int | float  # `float` alone would make floats of whole numbers, where this is compiled


@dataclass(frozen=True, slots=True)
class Within:
    """A number from `least` to `most`; `least` itself is left out where the number has to be above it."""

    least: Number
    most: Number
    above: bool = False

    def problem(self, value: Number, ms: bool) -> str:
        """What is wrong with a number, and what would be right; empty if it is right."""
        if (self.least < value if self.above else self.least <= value) and value <= self.most:
            return ""  # NaN is not
        if self.above:
            return f"must be above {self.least} and at most {self.most}, got {value}"
        return f"must be between {shown(self.least, ms)} and {shown(self.most, ms)}, got {shown(value, ms)}"


@dataclass(frozen=True, slots=True)
class NotBelow:
    """A number that is at least as large as another field of the same part."""

    field: str


@dataclass(frozen=True, slots=True)
class GivesWay:
    """A default that follows another field of the same part which is set: the `stronger` of both counts."""

    stronger: Callable[[int, int], int]  # max or min
    field: str


class OneOf:
    """A text out of some."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def problem(self, value: str, ms: bool) -> str:
        """As in `Within`."""
        if value in self.choices:
            return ""
        return f"must be one of {', '.join(self.choices)}, got {value[:MAX_SHOWN]!r}"


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a form: a regular expression that matches all of it, and what that means."""

    pattern: str
    form: str

    def problem(self, value: str, ms: bool) -> str:
        """As in `Within`."""
        if re.fullmatch(self.pattern, value, re.ASCII):
            return ""
        return f"must be {self.form}, got {value[:MAX_SHOWN]!r}"


@dataclass(frozen=True, slots=True)
class Items:
    """A list of so many items, and what they are called."""

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
    """What cannot change a setting."""

    FOR_LIFE = "an update cannot change it"
    GROWS = "an update can only add to it"
    FOR_ALL_URIS = "an override cannot change it"


Bound = Within | OneOf | Text | Items


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table."""

    name: str
    contract_name: str  # where a Duration has its unit with it
    ms: bool  # whether it is a length of time
    kind: type  # int, float, bool, str, tuple, or the class of a part
    is_part: bool  # whether it has fields of its own
    element: type | None  # of a tuple
    element_is_part: bool
    default: Any  # an empty value where one is required
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
    """An element of a list that says nothing: its defaults, and empty values where a value is required."""
    return part(**{row.name: row.default for row in rows_of(part)})


def shown(number: Number, ms: bool) -> str:
    """A number as errors tell it: a length of time in seconds."""
    return f"{number / 1000:.12g} s" if ms else f"{number}"


def _annotated(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type and what is noted beside it."""
    notes: tuple[Any, ...] = getattr(annotation, "__metadata__", ())
    return (annotation.__origin__ if notes else annotation), notes
