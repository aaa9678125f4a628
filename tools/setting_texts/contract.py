"""The contract's messages that have settings, with their comments; how they differ from the table."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.spec.table import Setting, Within, rows_of

ROOT = Path(__file__).resolve().parent.parent.parent
PROTO = ROOT / "protos/toehold/frontier/v1/crawl.proto"

# The beginning of the generated paragraph, the last one of a setting's comment.
GENERATED = re.compile(r"(Default: |Required\.)")
DURATION = ".google.protobuf.Duration"
TYPES = {
    bool: {FieldDescriptorProto.TYPE_BOOL, FieldDescriptorProto.TYPE_ENUM},
    int: {FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.TYPE_INT64},
    float: {FieldDescriptorProto.TYPE_DOUBLE},
    str: {FieldDescriptorProto.TYPE_STRING},
}


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
    ) -> Iterator["SpecPart"]:
        """The tables of a spec file, each before those in it; lists of tables as well."""
        yield SpecPart(path, message, part)
        for field, row in self.settings(message, part):
            below = f"{path}.{field.proto.name}".lstrip(".")
            if row.is_part:
                yield from self.parts(field.message, row.kind, below)
            elif row.element is not None and row.element_is_part:
                yield SpecPart(below, field.message, row.element, listed=True)

    def comment_of(self, part: "SpecPart") -> list[str]:
        """The comment of a part: its message's own, or its field's if several fields have the message."""
        if [each.message for each in self.parts()].count(part.message) == 1:
            return self.comments[part.message]
        above, _, name = part.path.rpartition(".")
        (containing,) = (each for each in self.parts() if each.path == above)
        (comment,) = (field.comment for field in self.fields[containing.message] if field.proto.name == name)
        return comment


@dataclass(frozen=True)
class SpecPart:
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
