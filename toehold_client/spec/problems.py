"""What is wrong with a table of settings, in words: msgspec's errors, for people who don't know its types."""

import difflib
import json
import re
from collections.abc import Iterable
from typing import Any, get_args, get_type_hints

import msgspec

from .fields import LISTS

_PROBLEM = re.compile(r"(?P<problem>.*?)(?: - at `\$\.?(?P<place>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)
_WRONG = re.compile(r"Expected `(?P<type>\w+)`(?:, got `\w+`| (?P<bound>of length >=|>=|<=) (?P<number>\S+))")
_STEP = re.compile(r"\[(?P<index>\d+)\]|(?P<name>[^.\[\]]+)")
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "a table",
}
_BOUNDS = {">=": "at least", "<=": "at most"}


def explained(error: str, values: Any, root: msgspec.Struct, beside: Iterable[str]) -> tuple[str, str]:
    """The place and the problem in an error of msgspec about a table with the fields of `root`."""
    match = _PROBLEM.fullmatch(error)
    assert match is not None  # it matches any text
    place, problem = match["place"] or "", match["problem"]
    unknown = _UNKNOWN.fullmatch(problem)
    if unknown is None:
        return place, _demand(problem, place, values, root)
    known = _known_fields(place, root, beside)
    near = difflib.get_close_matches(unknown["field"][:200], known, n=1)
    there_are = f"did you mean {near[0]}?" if near else f"must be one of {', '.join(known)}"
    return f"{place}.{unknown['field']:.200}".lstrip("."), f"no such field; {there_are}"


def _demand(problem: str, place: str, values: Any, root: msgspec.Struct) -> str:
    """`must be a whole number, got "x"`."""
    wrong = _WRONG.fullmatch(problem)
    if wrong is None and not problem.startswith("Invalid enum value"):
        return problem[:1].lower() + problem[1:]
    for index, name in _STEP.findall(place):
        values = values[int(index)] if index else values[name]
    if wrong is None:
        above, _, name = place.rpartition(".")
        right = f"one of {', '.join(get_args(get_type_hints(type(_table(above, root)))[name]))}"
    elif wrong["bound"] == "of length >=":
        return f"must have at least 1 {'item' if wrong['type'] == 'array' else 'character'}"
    elif wrong["bound"]:
        right = f"{_BOUNDS[wrong['bound']]} {float(wrong['number']):.15g}"
    else:
        right = _TYPES.get(wrong["type"], wrong["type"])
    return f"must be {right}, got {json.dumps(values, ensure_ascii=False, default=str):.80}"


def _known_fields(place: str, root: msgspec.Struct, beside: Iterable[str]) -> list[str]:
    own: list[str] = list(_table(place, root).__struct_fields__)
    return own if place else [*beside, *own]


def _table(place: str, root: msgspec.Struct) -> Any:
    """The table at a place, with its defaults."""
    table: Any = root
    for _, name in _STEP.findall(place):
        if name:
            table = LISTS.get(name) or getattr(table, name)
    return table
