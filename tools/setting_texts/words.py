"""Settings in words: their defaults and ranges, as sentences, in the contract's comments and elsewhere."""

import re
import textwrap
from collections.abc import Iterable

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from frontier_server.core.spec.table import Bound, Fixed, Items, OneOf, Setting, Text, Within
from tools.setting_texts.contract import GENERATED, PROTO, Contract, Field


def amount(number: float, row: Setting) -> str:
    """A number with its unit."""
    if row.ms:
        return length(int(number))
    if is_bytes(row) and number and number % (1 << 20) == 0 and number < 1 << 60:
        return f"{int(number) >> 40} TiB" if number % (1 << 40) == 0 else f"{int(number) >> 20} MiB"
    if number >= 1 << 30:
        power = int(number + 1).bit_length() - 1
        return f"2^{power}" if number == 1 << power else f"2^{power} - 1"
    return spaced(number)


def length(ms: int) -> str:
    """A length of time."""
    for unit, size in (("year", 365 * 86_400_000), ("day", 86_400_000)):
        if ms and ms % size == 0 and (ms // size < 365 or unit == "year"):
            return f"{ms // size} {unit}{'s' if ms > size else ''}"
    return f"{spaced(ms / 1000)} s" if ms == 0 or ms >= 1000 else f"{ms} ms"


def spaced(number: float) -> str:
    """10 000 is read at once; 1000 too."""
    return f"{number:,.10g}".replace(",", " " if abs(number) >= 10_000 else "")


def is_bytes(row: Setting) -> bool:
    return "bytes" in row.name or row.name == "max_content_length"


def default_of(contract: Contract, field: Field, row: Setting) -> str:
    """The default of a setting, in words."""
    if row.kind is tuple:
        return ", ".join(f"`{each}`" if row.element is str else f"{each}" for each in row.default) or "empty"
    if field.proto.type == FieldDescriptorProto.TYPE_ENUM:
        return f"`{choices_of(contract, field)[row.default]}`"  # false is the first one, and true the second
    if row.kind is bool:
        return str(row.default).lower()
    if row.kind is str:
        return f"`{row.default}`" if row.default else "empty"
    told = amount(row.default, row)
    if way := row.gives_way:
        longer = "longer" if way.stronger is max else "shorter"
        told += f", or `{way.field.removesuffix('_ms')}` if that is {longer}"
    return told


def choices_of(contract: Contract, field: Field) -> list[str]:
    """The words of an enum."""
    return contract.enums[field.proto.type_name.rpartition(".")[2]]


def range_of(contract: Contract, field: Field, row: Setting) -> list[str]:
    """The range of a setting, in words."""
    told = []
    if field.proto.type == FieldDescriptorProto.TYPE_ENUM:
        told.append(one_of(choices_of(contract, field)))
    if row.bound is not None:
        told.append(bound_in_words(row.bound, row))
    if row.not_below:
        told.append(f"at least `{row.not_below.removesuffix('_ms')}`")
    if isinstance(row.element_bound, OneOf):
        told.append(f"each {bound_in_words(row.element_bound, row)}")
    elif isinstance(row.element_bound, Within):
        told.append(f"each is {bound_in_words(row.element_bound, row)}")
    return told


def bound_in_words(bound: Bound, row: Setting) -> str:
    match bound:
        case Within(least, most, above=True):
            return f"above {spaced(least)}, up to {spaced(most)}"
        case Within(least, most):
            return f"{amount(least, row)} to {amount(most, row)}"
        case OneOf():
            return one_of(bound.choices)
        case Text():
            return bound.form
        case Items(most, called, least):
            return f"{least} to {spaced(most)} {called}" if least else f"at most {spaced(most)} {called}"


def one_of(choices: Iterable[str]) -> str:
    return "one of " + ", ".join(f"`{choice}`" for choice in choices)


CHANGES = {
    Fixed.FOR_LIFE: "An update cannot change it.",
    Fixed.GROWS: "An update can only add to it.",
    Fixed.FOR_ALL_URIS: "An override cannot change it.",
}


def in_contract(contract: Contract, field: Field, row: Setting) -> str:
    """The generated paragraph of a setting's comment."""
    told = ["Required." if row.required else f"Default: {default_of(contract, field, row)}."]
    told.append(sentence(range_of(contract, field, row), row))
    told += [text for fixed, text in CHANGES.items() if fixed in row.fixed]
    return " ".join(filter(None, told))


def sentence(range_: list[str], row: Setting) -> str:
    """A range as a sentence, or an empty text."""
    text = "; ".join(range_)
    if isinstance(row.bound, Within):
        text = f"Range: {text}"
    return f"{text[0].upper()}{text[1:]}." if text else ""


def commented(contract: Contract) -> str:
    """The .proto file with the generated paragraphs of its comments."""
    lines = PROTO.read_text().splitlines()
    wanted = {}
    for part in contract.parts():
        for field, row in contract.settings(part.message, part.kind):
            if not row.is_part:
                wanted[field.line] = in_contract(contract, field, row)
    for line in sorted(wanted, reverse=True):
        start = line
        while lines[start - 1].lstrip().startswith("//"):
            start -= 1
        comment = lines[start:line]
        old = next((at for at, each in enumerate(comment) if GENERATED.match(each.lstrip("/ "))), None)
        if old is not None:
            comment = comment[: old - 1]
        lines[start:line] = [*comment, "  //", *wrapped(wanted[line], "  // ", 80)]
    return "\n".join([*lines, ""])


def wrapped(text: str, prefix: str, width: int = 110) -> list[str]:
    """The lines of a text. A number stays with its unit, and with its thousands."""
    kept = re.sub(r"(?<=\d) (?=\d{3}\b|s\b|ms\b|days?\b|years?\b|[MT]iB\b)", "\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(
        kept,
        width,
        initial_indent=prefix,
        subsequent_indent=prefix,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
