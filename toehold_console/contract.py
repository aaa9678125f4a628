"""The contract as JSON over HTTP: its methods by path, its messages as proto3 JSON, and its errors.

`POST /v1/FrontierAdminService/GetCrawl` with `{"crawl": "docs"}` is the call GetCrawl. A refusal has the HTTP
status of its gRPC code, and a body as AIP-193 has it, with all details that gRPC carries.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from toehold.frontier.v1 import admin_pb2, frontier_pb2
from toehold.node.v1 import node_pb2
from toehold_client.rpc.batches import MAX_MESSAGE_BYTES

MAX_BODY_BYTES = 16 * 1024 * 1024
"""JSON takes more room than the messages, which have at most 8 MiB."""

MAX_VALUES = 100_000
"""A body has at most so many: each takes some hundred bytes of memory, however short it is."""

NODE_SERVICE = "NodeService"

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_TO_COMMA = re.compile(rb'(?:[^",]++|"(?:[^"\\]++|\\.)*+"?+)*+,', re.DOTALL)
"""The bytes of JSON to the next comma outside of texts."""

METHODS: Mapping[str, MethodDescriptor] = {
    f"{service.name}/{method.name}": method
    for file in (frontier_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR, node_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
}
"""All methods, by `Service/Method`."""

HTTP_STATUS: Mapping[grpc.StatusCode, int] = {
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNKNOWN: 500,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DATA_LOSS: 500,
    grpc.StatusCode.UNAUTHENTICATED: 401,
}
"""As google.rpc.Code says."""


class Refusal(Exception):
    """A request is refused, by the console or by the server."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        reason: str = "",
        details: list[dict[str, Any]] | None = None,
        http_status: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.http_status = http_status or HTTP_STATUS[code]
        if details is None:
            details = [_error_info(reason)] if reason else []
        self.details = details

    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        return {
            "error": {
                "code": self.http_status,
                "message": str(self),
                "status": self.code.name,
                "details": self.details,
            }
        }

    def headers(self) -> dict[str, str]:
        """Retry-After, if the server gave a hint; and which credentials are missing."""
        headers = {"WWW-Authenticate": "Bearer"} if self.http_status == 401 else {}
        for detail in self.details:
            delay = detail.get("retryDelay", "")
            if delay.endswith("s"):
                headers["Retry-After"] = str(max(1, -(-float(delay[:-1]) // 1).__int__()))
        return headers


class JsonCall(NamedTuple):
    """A call as JSON asks for it."""

    method: MethodDescriptor
    request: Message


def method_of(service: str, method: str) -> MethodDescriptor:
    """The RPC that a path means. Raises Refusal."""
    found = METHODS.get(f"{service}/{method}")
    if found is None:
        known = sorted({path.partition("/")[0] for path in METHODS})
        message = f"there is no RPC {service[:80]}/{method[:80]}; the services are {', '.join(known)}"
        raise Refusal(grpc.StatusCode.UNIMPLEMENTED, message, "UNKNOWN_RPC", http_status=404)
    if found.client_streaming:
        message = f"{found.name} takes a stream of messages, which JSON over HTTP has no form for; use gRPC"
        if found.name == "AddSeeds":
            message += ", or AddSeedBatch"
        raise Refusal(grpc.StatusCode.UNIMPLEMENTED, message, "CLIENT_STREAM")
    return found


def call_of(found: MethodDescriptor, body: bytes) -> JsonCall:
    """The call of an RPC that a body means. Raises Refusal."""
    request = GetMessageClass(found.input_type)()
    try:
        json_format.Parse(_object_in(body), request, max_recursion_depth=30)
    except (json_format.ParseError, ValueError) as problem:
        told = f"the body must be a {found.input_type.name} as proto3 JSON: {str(problem)[:500]}"
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, told, "INVALID_JSON") from None
    except RecursionError:
        told = "the body must be proto3 JSON, but it is nested too deeply"
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, told, "INVALID_JSON") from None
    size = request.ByteSize()
    if size > MAX_MESSAGE_BYTES:  # as the frontier says it; gRPC would refuse to send more
        told = f"a message must have at most {MAX_MESSAGE_BYTES} bytes, got {size}"
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, told, "BATCH_TOO_LARGE")
    return JsonCall(found, request)


def _object_in(body: bytes) -> str:
    """The text of a JSON object. Raises ValueError for what protobuf would stumble over."""
    if body.count(b",") >= MAX_VALUES and _has_commas(body, MAX_VALUES):
        raise ValueError(f"it must have at most {MAX_VALUES} values")
    text = body.decode() or "{}"
    if not text.lstrip().startswith("{"):
        raise ValueError("it must be a JSON object")
    if _HALF.search(text):
        json.dumps(json.loads(text), ensure_ascii=False).encode()  # half a character is none
    return text


def _has_commas(body: bytes, count: int) -> bool:
    """Whether JSON has so many commas outside of texts."""
    place = 0
    for _ in range(count):
        found = _TO_COMMA.match(body, place)
        if found is None:
            return False
        place = found.end()
    return True


def to_json(message: Message) -> str:
    """A message as proto3 JSON on one line, with all fields that have no presence."""
    return json_format.MessageToJson(
        message, indent=None, always_print_fields_with_no_presence=True, ensure_ascii=False
    )


def refusal_of(error: grpc.RpcError, sentence: str = "") -> Refusal:
    """A failed call. `sentence` says it for people if the server did not."""
    code, message = error.code(), error.details() or ""
    details: list[dict[str, Any]] = []
    try:
        status = rpc_status.from_call(error)  # type: ignore[arg-type]  # has what is read of a Call
    except (ValueError, DecodeError):
        status = None
    if status is not None:
        details = _details(status)
    elif sentence:
        message = sentence
    reason = next((str(each["reason"]) for each in details if "reason" in each), "")
    return Refusal(code, message, reason, details)


def _details(status: Status) -> list[dict[str, Any]]:
    """The details as JSON; those of an unknown kind are left out."""
    found = []
    for detail in status.details:
        try:
            found.append(json_format.MessageToDict(detail))
        except (TypeError, DecodeError):
            continue
    return found


def _error_info(reason: str) -> dict[str, Any]:
    info = error_details_pb2.ErrorInfo(reason=reason, domain="toehold")
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", **json_format.MessageToDict(info)}
