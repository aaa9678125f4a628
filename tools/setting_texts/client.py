"""The client's modules with the settings of a spec file: as tables that check a file, and as typed dicts."""

import json
import subprocess
import sys
from collections.abc import Iterable

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from frontier_server.core.spec.table import Bound, OneOf, Setting, Within, rows_of
from tools.setting_texts.contract import ROOT, Contract, Field, field_name
from tools.setting_texts.words import choices_of

STYLE = ROOT / "pyproject.toml"


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

`make generate` writes this module. The contract says of `…Spec` what a table means. A length of time is a
number of seconds, and its name ends with the unit (`plain.key_of`). The bounds are those of protobuf's types;
the frontier checks all others.
"""

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
        lines = [f"class {name}(Table, frozen=True):"]
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
    override = ["class Override(Table, frozen=True):"]
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

`make generate` writes this module. The contract says of `…Spec` what a table means.
"""

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
    head = f"class {dict_name(message)}(TypedDict, total=False):"
    return "\n".join([head, *(f"    {key}: {type_}" for key, type_ in keys), ""])


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
