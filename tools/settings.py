"""Writes whatever repeats the table of settings, or checks that it is current.

The table is `core/spec/settings.py` of the server. The meaning of each setting is its comment in crawl.proto.
From both come the last paragraph of those comments (default and range), the keys and the template of the
client's spec file, and docs/settings.md. `settings.py --check` only compares, and exits with 1 where they
differ. Fields of the contract that differ from the table are an error in both cases.
"""

import json
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from frontier_server.core.spec.settings import MAX_INT32, CrawlSettings
from frontier_server.core.spec.table import Bound, Fixed, Items, OneOf, Setting, Text, Within, rows_of

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "protos/toehold/frontier/v1/crawl.proto"
CLIENT = ROOT / "client/toehold_client/spec"
PAGE = ROOT / "docs/settings.md"
STYLE = ROOT / "pyproject.toml"

GENERATED = re.compile(
    r"(Default: |Required\.)"
)  # what the last paragraph of a setting's comment begins with
DURATION = ".google.protobuf.Duration"
TYPES = {
    bool: {FieldDescriptorProto.TYPE_BOOL, FieldDescriptorProto.TYPE_ENUM},
    int: {FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.TYPE_INT64},
    float: {FieldDescriptorProto.TYPE_DOUBLE},
    str: {FieldDescriptorProto.TYPE_STRING},
}


def main() -> None:
    contract = Contract()
    if wrong := list(differences(contract, "CrawlSpec", CrawlSettings)):
        sys.exit("\n".join([*wrong, f"{PROTO.name} and the table of settings differ."]))
    wanted = {
        PROTO: commented(contract),
        CLIENT / "fields.py": client_fields(contract),
        CLIENT / "dicts.py": client_dicts(contract),
        CLIENT / "template.toml": template(contract),
        PAGE: page(contract),
    }
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    names = [str(path.relative_to(ROOT)) for path in stale]
    if sys.argv[1:] == ["--check"]:
        if stale:
            sys.exit(f"{', '.join(names)}: not current. Run `make generate` and commit what it writes.")
        return
    for path, name in zip(stale, names, strict=True):
        path.write_text(wanted[path])
        print(f"{name}: written")


# The contract, with its comments.


@dataclass(frozen=True)
class Field:
    """A field of the contract. Its comment is in paragraphs, the generated one left out."""

    proto: FieldDescriptorProto
    line: int
    comment: list[str]

    @property
    def message(self) -> str:
        """The message that it has, or an empty text."""
        own = self.proto.type == FieldDescriptorProto.TYPE_MESSAGE and self.proto.type_name != DURATION
        return self.proto.type_name.rpartition(".")[2] if own else ""


class Contract:
    """The messages of crawl.proto, as the compiler reads it."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "contract"
            command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'protos'}"]
            subprocess.run(
                [*command, "--include_source_info", f"--descriptor_set_out={out}", PROTO], check=True
            )
            file = FileDescriptorSet.FromString(out.read_bytes()).file[-1]
        places = {tuple(each.path): each for each in file.source_code_info.location}
        self.comments: dict[str, list[str]] = {}
        self.fields: dict[str, list[Field]] = {}
        for number, message in enumerate(file.message_type):
            self.comments[message.name] = paragraphs(places[4, number].leading_comments)
            self.fields[message.name] = [
                Field(
                    field,
                    places[4, number, 2, place].span[0],
                    paragraphs(places[4, number, 2, place].leading_comments),
                )
                for place, field in enumerate(message.field)
            ]
        self.enums = {
            enum.name: [value.name.rpartition("_")[2].lower() for value in enum.value[1:]]
            for enum in file.enum_type
        }

    def settings(self, message: str, part: type) -> list[tuple[Field, Setting]]:
        """The fields of a message, each with its row."""
        rows = {field_name(row): row for row in rows_of(part)}
        return [(field, rows[field.proto.name]) for field in self.fields[message]]

    def parts(
        self, message: str = "CrawlSpec", part: type = CrawlSettings, path: str = ""
    ) -> Iterator["Part"]:
        """The tables of a spec file, each before those in it; lists of tables as well."""
        yield Part(path, message, part)
        for field, row in self.settings(message, part):
            below = f"{path}.{field.proto.name}".lstrip(".")
            if row.is_part:
                yield from self.parts(field.message, row.kind, below)
            elif row.element is not None and row.element_is_part:
                yield Part(below, field.message, row.element, listed=True)


@dataclass(frozen=True)
class Part:
    """A table of a spec file: `retry`, or one of those that a list has: `retry.statuses`."""

    path: str
    message: str
    kind: type
    listed: bool = False


def paragraphs(comment: str) -> list[str]:
    """A comment's paragraphs without what is generated."""
    text = "\n".join(line.removeprefix(" ") for line in comment.splitlines())
    return [each for each in re.split(r"\n\n+", text.strip("\n")) if not GENERATED.match(each)]


def field_name(row: Setting) -> str:
    """The name that a setting has in the contract: there, the choice of two has a name for each."""
    return row.contract_name.removeprefix("allow_")


def differences(contract: Contract, message: str, part: type) -> Iterator[str]:
    """The differences between a message and its part of the table."""
    rows = {field_name(row): row for row in rows_of(part)}
    fields = {field.proto.name: field for field in contract.fields[message]}
    for name in sorted(rows.keys() ^ fields.keys()):
        yield f"{message}.{name}: only the {'table' if name in rows else 'contract'} has it"
    for name, field in fields.items():
        if name in rows:
            yield from (f"{message}.{name}: {wrong}" for wrong in unlike(field, rows[name]))
            kind = rows[name].kind if rows[name].is_part else rows[name].element
            if field.message and kind is not None:
                yield from differences(contract, field.message, kind)
            if not field.comment:
                yield f"{message}.{name}: has no comment"


def unlike(field: Field, row: Setting) -> Iterator[str]:
    """The differences between a field and its row."""
    proto, kind = field.proto, row.element if row.kind is tuple else row.kind
    bound = row.bound if row.kind is not tuple else row.element_bound
    if (proto.label == FieldDescriptorProto.LABEL_REPEATED) != (row.kind is tuple):
        yield "one is a list"
    if row.ms != (proto.type_name == DURATION):
        yield "one is a length of time"
    elif not row.ms and not (field.message if kind not in TYPES else proto.type in TYPES[kind]):
        yield "they have other types"
    if kind in (int, float) and not isinstance(bound, Within) and not row.required:
        yield "a number needs a bound"
    if proto.type == FieldDescriptorProto.TYPE_INT32 and isinstance(bound, Within) and bound.most >= 1 << 31:
        yield "the bound is larger than the type"


# In words.


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


# The client.


def key_of(row: Setting) -> str:
    """The name that a setting has in a spec file."""
    return f"{row.contract_name}_seconds" if row.ms else field_name(row)


def toml_value(contract: Contract, field: Field, row: Setting) -> str:
    """A default as TOML has it, and Python as well but for booleans."""
    if field.proto.type == FieldDescriptorProto.TYPE_ENUM:
        return json.dumps(choices_of(contract, field)[row.default])
    if row.ms:
        return repr(row.default / 1000)
    return json.dumps(list(row.default) if row.kind is tuple else row.default)


def struct_name(message: str) -> str:
    """The name of a message's class in the client."""
    return {"CrawlSpec": "Spec", "OverrideSettings": "Override"}.get(message) or message.removesuffix("Spec")


def annotation(contract: Contract, field: Field, row: Setting) -> str:
    """The type of a key, with the bounds of protobuf's own."""
    if field.proto.type == FieldDescriptorProto.TYPE_ENUM:
        return f"Literal[{', '.join(json.dumps(choice) for choice in choices_of(contract, field))}]"
    if row.is_part:
        return struct_name(field.message)
    if row.kind is tuple:
        bound = row.element_bound
        element = struct_name(field.message) if field.message else number(field, bound) or "str"
        listed = f"tuple[{element}, ...]"
        return f"Annotated[{listed}, msgspec.Meta(min_length=1)]" if row.default else listed
    if row.ms:
        return "_Seconds"
    if row.kind is str:
        return "_Name" if row.default else "str"
    return number(field, row.bound) or row.kind.__name__


def number(field: Field, bound: Bound | None) -> str:
    """The type of a whole number, or an empty text."""
    signed = not isinstance(bound, Within) or bound.least < 0
    if field.proto.type == FieldDescriptorProto.TYPE_INT32:
        return "_Integer" if signed else "_Count"
    if field.proto.type == FieldDescriptorProto.TYPE_INT64:
        return "_LargeInteger" if signed else "_LargeCount"
    return ""


def python_value(contract: Contract, field: Field, row: Setting) -> str:
    if row.is_part:
        return f"{struct_name(field.message)}()"
    value = toml_value(contract, field, row)
    if row.kind is tuple:
        return f"({value[1:-1]}{',' if len(row.default) == 1 else ''})"
    return {"true": "True", "false": "False"}.get(value, value)


FIELDS_HEAD = '''\
"""The settings of a spec file: CrawlSpec's fields, in the contract's order, with the contract's defaults.

tools/settings.py writes this module. A length of time is a number of seconds, and its name ends with the unit
(`plain.key_of`). The bounds are those of protobuf's types; the frontier checks all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=315_576_000_000)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_LargeCount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Integer = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_LargeInteger = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]


class Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A table of a spec file."""
'''


def client_fields(contract: Contract) -> str:
    """The module of the client that has the keys of a spec file."""
    parts = list(contract.parts())
    made: list[str] = []
    for part in reversed(parts):  # those in a part before the part
        name = struct_name(part.message)
        lines = [f"class {name}(Table, frozen=True):", f'    """See the contract\'s {part.message}."""', ""]
        for field, row in contract.settings(part.message, part.kind):
            value = python_value(contract, field, row)
            lines.append(f"    {key_of(row)}: {annotation(contract, field, row)} = {value}")
        if "\n".join(lines) not in made:
            made.append("\n".join(lines))
    lists = [
        f'    "{part.path.rpartition(".")[2]}": {struct_name(part.message)}(),'
        for part in parts
        if part.listed
    ]
    ways = [
        f'    ("{part.path}", "{key_of(row)}", "{bound}_seconds", {way.stronger.__name__}),'
        for part in parts
        for row in rows_of(part.kind)
        if (way := row.gives_way) is not None
        for bound in [way.field.removesuffix("_ms")]
    ]
    override = ["class Override(Table, frozen=True):", '    """See the contract\'s OverrideSettings."""', ""]
    override += [
        f"    {field.proto.name}: {struct_name(field.message)} = {struct_name(field.message)}()"
        for field in contract.fields["OverrideSettings"]
        if field.message
    ]
    ends = [
        "LISTS: dict[str, Table] = {\n" + "\n".join(lists) + "\n}\n"
        '"""The fields that are lists of tables: name → a table of the list with its defaults."""\n',
        "GIVING_WAY: tuple[tuple[str, str, str, Callable[[Any, Any], Any]], ...] = (\n"
        + "\n".join(ways)
        + "\n)\n"
        '"""Defaults that give way to another value: table, key, the other key, which value counts."""\n',
    ]
    return "\n\n".join(
        [FIELDS_HEAD, *(f"{text}\n" for text in (*made, "\n".join(override))), "\n".join(ends)]
    )


DICTS_HEAD = '''\
"""The settings of a spec file as dicts that a type checker knows: `fields` as programs write them.

tools/settings.py writes this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict
'''


def client_dicts(contract: Contract) -> str:
    """The module of the client that types a spec in a program."""
    made: list[str] = []
    for part in reversed(list(contract.parts())):  # those in a part before the part
        keys = [
            (key_of(row), type_in_dict(contract, field, row))
            for field, row in contract.settings(part.message, part.kind)
        ]
        text = typed_dict(part.message, keys)
        if text not in made:
            made.append(text)
    parts = [
        (field.proto.name, dict_name(field.message))
        for field in contract.fields["OverrideSettings"]
        if field.message
    ]
    made.append(typed_dict("OverrideSettings", parts))
    return formatted("\n\n".join([DICTS_HEAD, *made]))


def formatted(code: str) -> str:
    """Python as ruff writes it, which breaks long lines."""
    command = [sys.executable, "-m", "ruff", "format", "--silent", "--config", str(STYLE), "-"]
    done = subprocess.run(command, input=code, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def typed_dict(message: str, keys: Iterable[tuple[str, str]]) -> str:
    head = [
        f"class {dict_name(message)}(TypedDict, total=False):",
        f'    """See the contract\'s {message}."""',
        "",
    ]
    return "\n".join([*head, *(f"    {key}: {type_}" for key, type_ in keys), ""])


def dict_name(message: str) -> str:
    return f"{struct_name(message)}Dict"


def type_in_dict(contract: Contract, field: Field, row: Setting) -> str:
    """The type of a key, without bounds."""
    if field.proto.type == FieldDescriptorProto.TYPE_ENUM:
        return literal(choices_of(contract, field))
    if row.is_part:
        return dict_name(field.message)
    if row.kind is tuple:
        if field.message:
            return f"Sequence[{dict_name(field.message)}]"
        if isinstance(row.element_bound, OneOf):
            return f"Sequence[{literal(row.element_bound.choices)}]"
        return "Sequence[int]" if number(field, row.element_bound) else "Sequence[str]"
    if isinstance(row.bound, OneOf):
        return literal(row.bound.choices)
    return "float" if row.ms else row.kind.__name__


def literal(choices: Iterable[str]) -> str:
    return f"Literal[{', '.join(json.dumps(choice) for choice in choices)}]"


# The template of a spec file.

BEFORE_CONTACT = """\
# A crawl's spec. Settings that are commented out show their defaults: remove the "# " to change them.

# The crawl's name: 1 to 64 of the characters a-z, 0-9, -, _ and ., beginning with a letter or digit.
name = "my-crawl"
"""
AFTER_CONTACT = """\
# The URLs where the crawl begins. A seed without a scheme gets https://. The hosts of the seeds are in scope.
seeds = []

# The path, relative to this file, of a file with further seeds, one per line. Blank lines and lines that
# begin with # don't count.
# seeds_file = ""

# The path, relative to this file, of a file with further SURT prefixes: lines of +PREFIX and -PREFIX (see
# scope.surt_prefixes). Blank lines and lines that begin with # don't count.
# surt_prefixes_file = ""
"""
# The values of examples of tables in lists. Other settings of such a table show their defaults.
EXAMPLES: dict[str, dict[str, Any]] = {
    "groups": {"name": "shop", "hosts": ["www.example.com", "images.example.com"]},
    "retry.statuses": {"fetch_status": -4, "max_attempts": 3, "delay_seconds": 60.0, "growth": 2.0},
    "fetch.credentials": {
        "surt_prefix": "https://www.example.com/members/",
        "user": "archive",
        "password": "secret",
    },
    "identity.rewrites": {"pattern": "[?&]utm_[a-z]+=[^&]*", "replacement": ""},
}


class Names:
    """The names of settings in comments, turned into those that a spec file has."""

    def __init__(self, contract: Contract) -> None:
        self._paths: dict[tuple[str, str], str] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._choices: set[tuple[str, str]] = set()
        for part in contract.parts():
            for row in rows_of(part.kind):
                if isinstance(row.bound, OneOf):
                    self._choices |= {(part.message, choice) for choice in row.bound.choices}
                at = (part.message, field_name(row))
                self._keys[at] = key_of(row)
                self._paths.setdefault(at, f"{part.path}.{key_of(row)}".lstrip("."))

    def replaced(self, text: str, message: str) -> str:
        """A comment of a message, with the keys of a spec file in backticks."""

        def path(found: re.Match[str]) -> str:
            known = self._paths.get((found["message"], found["field"]))
            return f"`{known}`" if known else found[0]

        def key(found: re.Match[str]) -> str:
            name = found[1]
            return f"`{self._keys.get((message, name)) or self._keys.get(('CrawlSpec', name)) or name}`"

        text = re.sub(r"`(?P<field>\w+)` of (?P<message>\w+Spec)\b", path, text)
        text = re.sub(r"\b(?P<message>\w+Spec)\.(?P<field>\w+)\b", path, text)
        return re.sub(r"`(\w+)`", key, text)

    def in_toml(self, text: str, message: str) -> str:
        """The same without backticks, as TOML has it: keys bare, values quoted."""
        keys = {*self._keys.values(), *self._paths.values()}
        keys -= {choice for of, choice in self._choices if of == message}

        def word(found: re.Match[str]) -> str:
            return found[1] if found[1] in keys else json.dumps(found[1])

        return re.sub(r"`([^`]*)`", word, self.replaced(" ".join(text.split()), message))


def template(contract: Contract) -> str:
    """The spec file that `toehold init` writes."""
    names, shown = Names(contract), set[str]()
    tables = [part for part in contract.parts() if not part.listed]
    sections = []
    for part in tables:
        settings = [pair for pair in contract.settings(part.message, part.kind) if not pair[1].is_part]
        told = [setting_in_toml(contract, names, part, *pair) for pair in settings]
        if not part.path:
            text = "\n\n".join([BEFORE_CONTACT.rstrip(), told[0], AFTER_CONTACT.rstrip(), *told[1:]])
        else:
            repeated = part.message in shown
            once = [each.message for each in tables].count(part.message) == 1
            comment = contract.comments[part.message] if once else comment_at(contract, part.path)
            head = "\n".join([*wrapped(names.in_toml(comment[0], part.message), "# "), f"[{part.path}]"])
            if repeated:
                told = ["\n".join(each.splitlines()[-1] for each in told)]
            text = "\n\n".join([head, *told])
        shown.add(part.message)
        sections.append(("\n" if "." not in part.path and part.path else "") + text)
    return "\n\n".join(sections) + "\n"


def comment_at(contract: Contract, path: str) -> list[str]:
    """The comment of the field that has a part."""
    above, _, name = path.rpartition(".")
    (part,) = (each for each in contract.parts() if each.path == above)
    (comment,) = (field.comment for field in contract.fields[part.message] if field.proto.name == name)
    return comment


def setting_in_toml(contract: Contract, names: Names, part: Part, field: Field, row: Setting) -> str:
    """A setting with its comment; commented out unless everybody has to set it."""
    told = [field.comment[0]]
    if row.gives_way is not None:
        told.append(f"Default: {default_of(contract, field, row)}.")
    if row.ms or not (isinstance(row.bound, Within) and row.bound.most >= MAX_INT32):  # which is no bound
        range_ = [text for text in range_of(contract, field, row) if not choices_are_told(text, field)]
        told.append(sentence(range_, row))
    lines = wrapped(names.in_toml(" ".join(filter(None, told)), part.message), "# ")
    if row.element_is_part:
        lines += example(contract, names, f"{part.path}.{field.proto.name}".lstrip("."))
    return "\n".join(
        [*lines, f"# {key_of(row)} = {toml_value(contract, field, row)}".removeprefix(uncommented(row))]
    )


def choices_are_told(text: str, field: Field) -> bool:
    """Whether the comment names all choices already."""
    choices = re.findall(r"`[^`]+`", text) if "one of " in text else []
    return bool(choices) and all(choice in field.comment[0] for choice in choices)


def uncommented(row: Setting) -> str:
    return "# " if row.name == "contact" else ""


def example(contract: Contract, names: Names, path: str) -> list[str]:
    """An element of a list of tables."""
    (part,) = (each for each in contract.parts() if each.path == path)
    values = [
        (f"{key_of(row)} = {example_value(EXAMPLES[path].get(key_of(row)), contract, field, row)}", field)
        for field, row in contract.settings(part.message, part.kind)
    ]
    width = max(len(value) for value, _ in values)
    lines = []
    for value, field in values:
        comment = names.in_toml(field.comment[0], part.message)
        line = f"#   {value:{width}}  # {comment}"
        lines.append(line if len(line) <= 110 else f"#   {value}")
    return ["#", f"#   [[{path}]]", *lines, "#"]


def example_value(value: Any, contract: Contract, field: Field, row: Setting) -> str:
    if value is None:
        return toml_value(contract, field, row)
    return f"'{value}'" if isinstance(value, str) and "[" in value else json.dumps(value)


# The reference.

PAGE_HEAD = """\
# Settings of a crawl

`make generate` writes this page from the table of settings and the comments of the contract. The names are
those of a spec file; `toehold init` writes a spec file with all of them. Lengths of time are in seconds,
sizes in bytes.

| changes | |
|---|---|
| live | An update can change it while the crawl lives: `toehold set`, `toehold update`. |
| live, prefix | An override can change it, too, for the URIs under a SURT prefix: `toehold overrides put`. |
| grows | An update can only add to it. |
| fixed | It is fixed when the crawl is created. |
"""


def page(contract: Contract) -> str:
    """docs/settings.md."""
    names = Names(contract)
    overridable = {
        "limits.host_quota" if field.proto.name == "host_quota" else field.proto.name
        for field in contract.fields["OverrideSettings"]
        if field.message
    }
    sections = [PAGE_HEAD]
    for part in contract.parts():
        settings = [pair for pair in contract.settings(part.message, part.kind) if not pair[1].is_part]
        title = "A crawl" if not part.path else f"`[[{part.path}]]`" if part.listed else f"`[{part.path}]`"
        once = [each.message for each in contract.parts()].count(part.message) == 1
        comment = contract.comments[part.message] if once else comment_at(contract, part.path)
        lines = [f"## {title}", ""]
        if part.path:
            lines += [
                *("\n".join(wrapped_list(names.replaced(each, part.message))) + "\n" for each in comment)
            ]
        lines += ["| setting | default | range | changes | meaning |", "|---|---|---|---|---|"]
        of_prefix = part.path in overridable or part.path.rpartition(".")[0] in overridable
        for field, row in settings:
            cells = [
                f"`{key_of(row)}`",
                "required" if row.required else default_in_page(contract, names, part, field, row),
                names.replaced("; ".join(range_of(contract, field, row)), part.message),
                changes(contract, part, row, of_prefix),
                "<br>".join(flat(names.replaced(each, part.message)) for each in field.comment),
            ]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        sections.append("\n".join([*lines, ""]))
    return "\n".join(sections)


def default_in_page(contract: Contract, names: Names, part: Part, field: Field, row: Setting) -> str:
    if row.gives_way is None:
        return f"`{toml_value(contract, field, row)}`"
    _, _, way = names.replaced(default_of(contract, field, row), part.message).partition(",")
    return f"`{toml_value(contract, field, row)}`,{way}"


def changes(contract: Contract, part: Part, row: Setting, of_prefix: bool) -> str:
    if row.element_is_part:
        return f"see `[[{part.path}.{key_of(row)}]]`".replace("[[.", "[[")
    above = {pair[0].proto.name: pair[1] for pair in contract.settings("CrawlSpec", CrawlSettings)}
    top = above.get(part.path.partition(".")[0])
    if Fixed.FOR_LIFE in row.fixed or (top is not None and Fixed.FOR_LIFE in top.fixed):
        return "fixed"
    if Fixed.GROWS in row.fixed:
        return "grows"
    return "live, prefix" if of_prefix and Fixed.FOR_ALL_URIS not in row.fixed else "live"


def flat(paragraph: str) -> str:
    """A paragraph as one line of a table; items of a list are lines of their own."""
    items = re.split(r"\n(?=- )", paragraph)
    return "<br>".join(
        " ".join(item.removeprefix("- ").split()) if len(items) > 1 else " ".join(item.split())
        for item in items
    )


def wrapped_list(paragraph: str) -> list[str]:
    """A paragraph, or a list, in lines."""
    items = re.split(r"\n(?=- |\d\. )", paragraph)
    return [line for item in items for line in wrapped(" ".join(item.split()), "")]


if __name__ == "__main__":
    main()
