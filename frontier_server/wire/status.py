"""Turns refusals of the core into gRPC statuses: each has a canonical code and one ErrorInfo."""

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from toehold_base.access.denials import AccessDenied, PermissionDenied

from ..core.rows import errors

DOMAIN = "toehold"

CODES: dict[type[errors.FrontierError], grpc.StatusCode] = {
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidName: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidSpec: grpc.StatusCode.INVALID_ARGUMENT,
    errors.BatchEmpty: grpc.StatusCode.INVALID_ARGUMENT,
    errors.BatchTooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    errors.UnknownCrawl: grpc.StatusCode.NOT_FOUND,
    errors.CrawlExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.CrawlFinished: grpc.StatusCode.FAILED_PRECONDITION,
    errors.IllegalState: grpc.StatusCode.FAILED_PRECONDITION,
    errors.CrawlHeld: grpc.StatusCode.UNAVAILABLE,
    errors.CrawlTornDown: grpc.StatusCode.FAILED_PRECONDITION,
    errors.UrisNotKept: grpc.StatusCode.FAILED_PRECONDITION,
    errors.NodePresent: grpc.StatusCode.FAILED_PRECONDITION,
    errors.CrawlActive: grpc.StatusCode.FAILED_PRECONDITION,
    errors.NoSeeds: grpc.StatusCode.FAILED_PRECONDITION,
    errors.SessionSuperseded: grpc.StatusCode.FAILED_PRECONDITION,
    errors.CursorTooOld: grpc.StatusCode.OUT_OF_RANGE,
    errors.UnknownQueue: grpc.StatusCode.NOT_FOUND,
    errors.UnknownNode: grpc.StatusCode.NOT_FOUND,
    errors.UnknownJob: grpc.StatusCode.NOT_FOUND,
    errors.UnknownOverride: grpc.StatusCode.NOT_FOUND,
    errors.UnknownCheckpoint: grpc.StatusCode.NOT_FOUND,
    errors.CheckpointInUse: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ReadOnly: grpc.StatusCode.FAILED_PRECONDITION,
}

Trailer = tuple[tuple[str, bytes], ...]
# The headers and trailers of an answer hold about 8 KiB; longer texts are cut.
MAX_MESSAGE_BYTES = 600
MAX_METADATA_BYTES = 3000
MAX_VALUE_BYTES = 160


def of_error(error: errors.FrontierError, request_id: str = "") -> tuple[grpc.StatusCode, str, Trailer]:
    """Code, message and details of a refusal of the core."""
    code, metadata = CODES[type(error)], dict(error.metadata)
    return status(code, error.reason, str(error), metadata, error.retry_ms, request_id)


def failed(request_id: str) -> tuple[grpc.StatusCode, str, Trailer]:
    """Code, message and details of a defect, which has no reason that a caller could know."""
    message = "the frontier failed at this call; the frontier's log has the reason"
    return _status(grpc.StatusCode.INTERNAL, message, request_id, [])


def of_denial(denial: AccessDenied, request_id: str = "") -> tuple[grpc.StatusCode, str, Trailer]:
    """Code, message and details of a refusal because of the caller."""
    known = isinstance(denial, PermissionDenied)
    code = grpc.StatusCode.PERMISSION_DENIED if known else grpc.StatusCode.UNAUTHENTICATED
    return status(code, denial.reason, str(denial), dict(denial.metadata), request_id=request_id)


def status(
    code: grpc.StatusCode,
    reason: str,
    message: str,
    metadata: dict[str, str] | None = None,
    retry_ms: int = 0,
    request_id: str = "",
) -> tuple[grpc.StatusCode, str, Trailer]:
    """Code, message and details of any refusal."""
    message = _cut(message, MAX_MESSAGE_BYTES)
    shown: dict[str, str] = {}
    room = MAX_METADATA_BYTES
    for key, value in (metadata or {}).items():
        told = _cut(value, MAX_VALUE_BYTES)
        room -= len(key.encode()) + len(told.encode())
        if room < 0:
            break
        shown[key] = told
    info = Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=shown))
    details = [info]
    if retry_ms:
        retry = Any()
        delay = Duration()
        delay.FromMilliseconds(retry_ms)
        retry.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        details.append(retry)
    return _status(code, message, request_id, details)


def _status(
    code: grpc.StatusCode, message: str, request_id: str, details: list[Any]
) -> tuple[grpc.StatusCode, str, Trailer]:
    if request_id:
        request = Any()
        request.Pack(error_details_pb2.RequestInfo(request_id=request_id))
        details.append(request)
    rich = status_pb2.Status(code=code.value[0], message=message, details=details)
    return code, message, (("grpc-status-details-bin", rich.SerializeToString()),)


def _cut(text: str, most_bytes: int) -> str:
    data = text.encode()
    return text if len(data) <= most_bytes else data[: most_bytes - 3].decode(errors="ignore") + "…"
