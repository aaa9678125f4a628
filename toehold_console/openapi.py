"""The contract as an OpenAPI document, made of its descriptors and of the comments in its .proto files."""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, MethodDescriptor

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold.node.v1 import node_pb2
from toehold_base.access.roles import ROLES, Role, all_of

FILES = (crawl_pb2.DESCRIPTOR, frontier_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR, node_pb2.DESCRIPTOR)
ABOUT = """\
Every RPC of a Toehold frontier and its nodes as JSON over HTTP, served by `toehold console`. A body is the
RPC's request as proto3 JSON, and so is the answer. RPCs with a stream of answers send server-sent events;
RPCs that take a stream (`AddSeeds`, `ImportUris`) need gRPC. docs/api.md has more."""

Json = dict[str, Any]

STRING = {"type": "string"}
SCALARS: Mapping[int, Json] = {
    FieldDescriptor.TYPE_DOUBLE: {"oneOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]},
    FieldDescriptor.TYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.TYPE_UINT64: {"type": "string", "format": "uint64"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_UINT32: {"type": "integer", "minimum": 0},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: STRING,
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
}
WELL_KNOWN: Mapping[str, Json] = {
    "google.protobuf.Duration": {"type": "string", "description": "Seconds, such as `3s` or `0.5s`."},
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.FieldMask": {
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


Comments = Mapping[str, Json]
"""The description of each message, field, service and so on, by its name and those around it, with dots
between them. What has no comment has no description."""

_OPENED = re.compile(r"(?:message|enum|service|rpc) (\w+)")
_FIELD = re.compile(r"(?:[\w., <>]+ )?(\w+) = -?\d")


@cache
def text() -> str:
    """The whole document as JSON."""
    return json.dumps(document(), ensure_ascii=False, indent=1) + "\n"


def document() -> Json:
    schemas: Json = {"Error": ERROR}
    paths: Json = {}
    tags: list[Json] = []
    for file in FILES:
        comments = comments_in(source(file.name))
        for message in file.message_types_by_name.values():
            schemas[name_of(message)] = schema(message, comments)
        for enum in file.enum_types_by_name.values():
            schemas[name_of(enum)] = enumeration(enum, comments)
        for service in file.services_by_name.values():
            tags.append({"name": service.name, **comments[service.name]})
            for method in service.methods:
                if not method.client_streaming:
                    comment = comments[f"{service.name}.{method.name}"]
                    paths[f"/v1/{service.name}/{method.name}"] = operations(service.name, method, comment)
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


def source(name: str) -> str:
    """The text of one of the contract's .proto files, which lie beside the generated code."""
    package, _, rest = name.partition("/")
    return resources.files(package).joinpath(rest).read_text()


def comments_in(proto: str) -> Comments:
    """The comments in a .proto file, each of which stands right above what it is about."""
    found: dict[str, Json] = {}
    around: list[str] = []
    comment: list[str] = []
    for line in map(str.strip, proto.splitlines()):
        if line.startswith("//"):
            comment.append(line.removeprefix("//").removeprefix(" "))
            continue
        name = _OPENED.match(line) or _FIELD.match(line)
        if name is not None:
            text = "\n".join(comment).strip()
            path = ".".join(filter(None, [*around, name[1]]))
            found[path] = {"description": text} if text else {}
        comment.clear()
        if line.endswith("{"):
            around.append("" if name is None else name[1])  # a oneof is no part of its fields' names
        elif line.startswith("}"):
            around.pop()
    return found


def operations(service: str, method: MethodDescriptor, comment: Json) -> Json:
    """POST, and for a stream also GET, which an EventSource of a browser needs."""
    roles = ROLES[f"{method.containing_service.full_name}/{method.name}"]
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


def responses(method: MethodDescriptor) -> Json:
    answer = reference(method.output_type)
    if method.server_streaming:
        description = (
            "Server-sent events. The data of each is an answer as JSON, its id the cursor. The event `error` "
            "has a refusal, and `end` tells the end."
        )
        good: Json = {"description": description, "content": {"text/event-stream": {"schema": answer}}}
    else:
        good = {"description": "The answer.", "content": {"application/json": {"schema": answer}}}
    return {
        "200": good,
        "default": {
            "description": "The refusal.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        },
    }


def schema(message: Descriptor, comments: Comments) -> Json:
    """A message as an object."""
    properties: Json = {}
    for field in message.fields:
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            value: Json = {"type": "object", "additionalProperties": value_of(entry.fields_by_name["value"])}
        elif field.is_repeated:
            value = {"type": "array", "items": value_of(field)}
        else:
            value = value_of(field)
        properties[field.json_name] = {**value, **comments[f"{message.name}.{field.name}"]}
    return {
        "type": "object",
        **comments[message.name],
        "properties": properties,
        "additionalProperties": False,
    }


def value_of(field: FieldDescriptor) -> Json:
    kind = field.message_type or field.enum_type
    if kind is None:
        return dict(SCALARS[field.type])
    return dict(WELL_KNOWN.get(kind.full_name) or reference(kind))


def enumeration(enum: EnumDescriptor, comments: Comments) -> Json:
    """The names of an enum, with their meanings."""
    lines = [comments[enum.name].get("description", ""), ""]
    for value in enum.values:
        meaning = " ".join(comments[f"{enum.name}.{value.name}"].get("description", "").split())
        lines.append(f"- `{value.name}`: {meaning}")
    return {"type": "string", "enum": [value.name for value in enum.values], "description": "\n".join(lines)}


def reference(kind: Descriptor | EnumDescriptor) -> Json:
    return {"$ref": f"#/components/schemas/{name_of(kind)}"}


def name_of(kind: Descriptor | EnumDescriptor) -> str:
    """The name of a schema. A frontier and a node may have messages of the same name."""
    return f"Node.{kind.name}" if kind.file.package == "toehold.node.v1" else kind.name
