"""The OpenAPI document's comments are those that the protobuf compiler reads."""

from collections.abc import Iterator
from pathlib import Path

from frontier_harness.protoc import PROTOBUF, PROTOS
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from toehold_console import openapi

NAMED = {"message_type": "field", "enum_type": "value", "service": "method"}
"""What a file has, and what that has."""


def compiled(scratch: Path) -> FileDescriptorSet:
    names = [file.name for file in openapi.FILES]
    out = scratch / "contract"
    flags = ("--include_source_info", f"--descriptor_set_out={out}", f"-I{PROTOS}", f"-I{PROTOBUF}")
    assert protoc.main(["protoc", *flags, *names]) == 0
    return FileDescriptorSet.FromString(out.read_bytes())


def declared(file: FileDescriptorProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Everything with a name in a file, with its path."""
    for above, below in NAMED.items():
        kind = file.DESCRIPTOR.fields_by_name[above]
        for place, each in enumerate(getattr(file, above)):
            yield each.name, (kind.number, place)
            number = each.DESCRIPTOR.fields_by_name[below].number
            for inner, one in enumerate(getattr(each, below)):
                yield f"{each.name}.{one.name}", (kind.number, place, number, inner)


def test_comments_are_those_that_the_compiler_reads(tmp_path: Path) -> None:
    for file in compiled(tmp_path).file:
        comments = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
        found = openapi.comments_in(openapi.source(file.name))
        for name, path in declared(file):
            lines = [line.removeprefix(" ") for line in comments[path].split("\n")]
            assert found[name].get("description", "") == "\n".join(lines).strip(), name
