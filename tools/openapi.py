"""Writes toehold_console/openapi.json, the contract as JSON over HTTP, from the .proto files.

`openapi.py --check` only compares, and exits with 1 where the document is not current.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)

from toehold_base.access.roles import ROLES, Role, all_of

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "toehold_console" / "openapi.json"
FILES = (
    "toehold/frontier/v1/crawl.proto",
    "toehold/frontier/v1/frontier.proto",
    "toehold/frontier/v1/admin.proto",
    "toehold/node/v1/node.proto",
)
ABOUT = """\
Every RPC of a Toehold frontier and its nodes as JSON over HTTP, served by `toehold console`. A body is the
RPC's request as proto3 JSON, and so is the answer. RPCs with a stream of answers send server-sent events;
RPCs that take a stream (`AddSeeds`, `ImportUris`) need gRPC. docs/console.md has more."""

Json = dict[str, Any]
Type = FieldDescriptorProto.Type

STRING = {"type": "string"}
SCALARS: Mapping[int, Json] = {
    Type.TYPE_DOUBLE: {"oneOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]},
    Type.TYPE_INT64: {"type": "string", "format": "int64"},
    Type.TYPE_UINT64: {"type": "string", "format": "uint64"},
    Type.TYPE_INT32: {"type": "integer", "format": "int32"},
    Type.TYPE_UINT32: {"type": "integer", "minimum": 0},
    Type.TYPE_BOOL: {"type": "boolean"},
    Type.TYPE_STRING: STRING,
    Type.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
}
WELL_KNOWN: Mapping[str, Json] = {
    ".google.protobuf.Duration": {"type": "string", "description": "Seconds, such as `3s` or `0.5s`."},
    ".google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    ".google.protobuf.FieldMask": {
        "type": "string",
        "description": "Paths with commas between them, in lower camel case.",
    },
}
ERROR: Json = {
    "type": "object",
    "description": "A refusal (AIP-193).",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "status", "details"],
            "properties": {
                "code": {"type": "integer", "description": "The HTTP status."},
                "message": {"type": "string", "description": "A sentence for people."},
                "status": {"type": "string", "description": "The gRPC code, such as `NOT_FOUND`."},
                "details": {
                    "type": "array",
                    "description": "google.rpc.ErrorInfo with the reason, RetryInfo, RequestInfo.",
                    "items": {"type": "object", "required": ["@type"], "properties": {"@type": STRING}},
                },
            },
        }
    },
}


class Comments:
    """The comments of a file, by the path of what they are about."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._of = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}

    def at(self, *path: int) -> Json:
        """The description, if there is a comment."""
        lines = [line.removeprefix(" ") for line in self._of.get(path, "").strip("\n").split("\n")]
        text = "\n".join(lines).strip()
        return {"description": text} if text else {}


def main() -> None:
    text = json.dumps(document(), ensure_ascii=False, indent=1) + "\n"
    if DOCUMENT.exists() and DOCUMENT.read_text() == text:
        return
    if sys.argv[1:] == ["--check"]:
        sys.exit(f"{DOCUMENT.name} is not current: run `make generate` and commit what it writes.")
    DOCUMENT.write_text(text)
    print("toehold_console/openapi.json: written")


def document() -> Json:
    """The whole document."""
    schemas: Json = {"Error": ERROR}
    paths: Json = {}
    tags: list[Json] = []
    for file in compiled():
        comments = Comments(file)
        for place, message in enumerate(file.message_type):
            schemas[name_of(f".{file.package}.{message.name}")] = schema(message, comments, (4, place))
        for place, enum in enumerate(file.enum_type):
            schemas[name_of(f".{file.package}.{enum.name}")] = enumeration(enum, comments, (5, place))
        for place, service in enumerate(file.service):
            tags.append({"name": service.name, **comments.at(6, place)})
            for number, method in enumerate(service.method):
                if not method.client_streaming:
                    full = f"{file.package}.{service.name}/{method.name}"
                    path = f"/v1/{service.name}/{method.name}"
                    paths[path] = operations(service.name, full, method, comments.at(6, place, 2, number))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Toehold",
            "version": "v1",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": tags,
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "See docs/network.md."}
            },
        },
        "security": [{"token": []}, {}],
    }


def compiled() -> Iterator[FileDescriptorProto]:
    """The contract's files with their comments."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "contract"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'protos'}"]
        subprocess.run([*command, "--include_source_info", f"--descriptor_set_out={out}", *FILES], check=True)
        yield from FileDescriptorSet.FromString(out.read_bytes()).file


def operations(service: str, full: str, method: MethodDescriptorProto, comment: Json) -> Json:
    """POST, and for a stream also GET, which an EventSource of a browser needs."""
    roles = ROLES[full]
    allowed = "Every caller may call it." if roles == frozenset(Role) else f"Roles: {all_of(roles)}."
    first, _, _ = comment["description"].partition(". ")
    common: Json = {
        "tags": [service],
        "summary": " ".join(first.split()).rstrip("."),
        "description": f"{comment['description']}\n\n{allowed}",
        "responses": responses(method),
    }
    node = {
        "name": "node",
        "in": "query",
        "required": True,
        "description": "The node's name.",
        "schema": STRING,
    }
    post: Json = {
        "operationId": f"{service}_{method.name}",
        **common,
        "parameters": [node] if service == "NodeService" else [],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": reference(method.input_type)}},
        },
    }
    if not method.server_streaming:
        return {"post": post}
    request = {
        "name": "request",
        "in": "query",
        "description": "The request.",
        "content": {"application/json": {"schema": reference(method.input_type)}},
    }
    last = {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The cursor to go on after, as browsers send it when they reconnect.",
        "schema": STRING,
    }
    post["parameters"] = [last]
    get = {"operationId": f"{service}_{method.name}_get", **common, "parameters": [request, last]}
    return {"get": get, "post": post}


def responses(method: MethodDescriptorProto) -> Json:
    answer = reference(method.output_type)
    if method.server_streaming:
        told = (
            "Server-sent events. The data of each is an answer as JSON, its id the cursor. The event `error` "
            "has a refusal, and `end` tells the end."
        )
        good: Json = {"description": told, "content": {"text/event-stream": {"schema": answer}}}
    else:
        good = {"description": "The answer.", "content": {"application/json": {"schema": answer}}}
    return {
        "200": good,
        "default": {
            "description": "The refusal.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        },
    }


def schema(message: DescriptorProto, comments: Comments, path: tuple[int, ...]) -> Json:
    """A message as an object."""
    entries = {f".{nested.name}": nested for nested in message.nested_type if nested.options.map_entry}
    properties: Json = {}
    for place, field in enumerate(message.field):
        about = comments.at(*path, 2, place)
        entry = next((each for name, each in entries.items() if field.type_name.endswith(name)), None)
        if entry is not None:
            value: Json = {"type": "object", "additionalProperties": value_of(entry.field[1])}
        elif field.label == FieldDescriptorProto.LABEL_REPEATED:
            value = {"type": "array", "items": value_of(field)}
        else:
            value = value_of(field)
        properties[field.json_name] = {**value, **about}
    return {"type": "object", **comments.at(*path), "properties": properties, "additionalProperties": False}


def value_of(field: FieldDescriptorProto) -> Json:
    """One value of a field."""
    if field.type in (Type.TYPE_MESSAGE, Type.TYPE_ENUM):
        return dict(WELL_KNOWN.get(field.type_name) or reference(field.type_name))
    return dict(SCALARS[field.type])


def enumeration(enum: EnumDescriptorProto, comments: Comments, path: tuple[int, ...]) -> Json:
    """The names of an enum, with their meanings."""
    lines = [comments.at(*path).get("description", ""), ""]
    for place, value in enumerate(enum.value):
        meaning = " ".join(comments.at(*path, 2, place).get("description", "").split())
        lines.append(f"- `{value.name}`: {meaning}")
    return {"type": "string", "enum": [value.name for value in enum.value], "description": "\n".join(lines)}


def reference(type_name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name_of(type_name)}"}


def name_of(type_name: str) -> str:
    """The name of a schema. A frontier and a node may have messages of the same name."""
    package, _, name = type_name.rpartition(".")
    return f"Node.{name}" if package == ".toehold.node.v1" else name


if __name__ == "__main__":
    main()
