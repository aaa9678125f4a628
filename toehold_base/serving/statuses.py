"""Refusals as gRPC statuses: a canonical code, a message, and an ErrorInfo for programs."""

from typing import TypeAlias

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from ..access.denials import AccessDenied, PermissionDenied

DOMAIN = "toehold"

# The headers and trailers of an answer hold about 8 KiB; longer texts are cut.
MAX_MESSAGE_BYTES = 600
MAX_METADATA_BYTES = 3000
MAX_VALUE_BYTES = 160

Status: TypeAlias = tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]
"""Code, message and trailer, as the `abort` of a call takes them."""


def refusal(
    code: grpc.StatusCode,
    reason: str,
    message: str,
    metadata: dict[str, str] | None = None,
    retry_ms: int = 0,
    request_id: str = "",
) -> Status:
    """The status of any refusal. Without a reason that a program could know it has no ErrorInfo."""
    details: list[Message] = []
    if reason:
        shown = _fitting(metadata or {})
        details.append(error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=shown))
    if retry_ms:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(retry_ms)
        details.append(retry)
    if request_id:
        details.append(error_details_pb2.RequestInfo(request_id=request_id))
    message = _cut(message, MAX_MESSAGE_BYTES)
    rich = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        rich.details.add().Pack(detail)
    return code, message, (("grpc-status-details-bin", rich.SerializeToString()),)


def of_denial(denial: AccessDenied, request_id: str = "") -> Status:
    """The status of a refusal because of the caller."""
    known = isinstance(denial, PermissionDenied)
    code = grpc.StatusCode.PERMISSION_DENIED if known else grpc.StatusCode.UNAUTHENTICATED
    return refusal(code, denial.reason, str(denial), dict(denial.metadata), request_id=request_id)


def _fitting(metadata: dict[str, str]) -> dict[str, str]:
    shown: dict[str, str] = {}
    room = MAX_METADATA_BYTES
    for key, value in metadata.items():
        told = _cut(value, MAX_VALUE_BYTES)
        room -= len(key.encode()) + len(told.encode())
        if room < 0:
            break
        shown[key] = told
    return shown


def _cut(text: str, most_bytes: int) -> str:
    data = text.encode()
    return text if len(data) <= most_bytes else data[: most_bytes - 3].decode(errors="ignore") + "…"
