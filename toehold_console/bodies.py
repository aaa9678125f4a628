"""Bodies of requests: JSON of a bounded size, which arrives in time."""

import asyncio
import json

import grpc
from starlette.requests import Request

from .contract import MAX_BODY_BYTES, Refusal

BODY_S = 20.0
"""For so long a body may arrive."""
MAX_TEXTS_BYTES = 1024 * 1024
"""A login or a setting has at most so many."""
MAX_DIGITS = 16  # of a length that is read


async def body_of(request: Request, most_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The body of a request. Raises Refusal."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"the header Content-Type must be application/json, got {kind[:100]!r}",
            "CONTENT_TYPE",
            http_status=415,
        )
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                data += part
                if len(data) > most_bytes:
                    raise Refusal(
                        grpc.StatusCode.INVALID_ARGUMENT,
                        f"the body must have at most {most_bytes} bytes",
                        "BODY_TOO_LARGE",
                        http_status=413,
                    )
    except TimeoutError:
        raise Refusal(
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f"the body did not arrive within {BODY_S:g} s",
            "BODY_TOO_SLOW",
            http_status=408,
        ) from None
    return bytes(data)


def announces_less(request: Request, size_bytes: int) -> bool:
    """Whether a request says that its body is smaller than this."""
    header = request.headers.get("content-length", "")
    return header.isascii() and header.isdecimal() and len(header) < MAX_DIGITS and int(header) < size_bytes


async def texts_of(request: Request) -> dict[str, str]:
    """The texts in a body, by their names. Raises Refusal."""
    try:
        said = json.loads(await body_of(request, MAX_TEXTS_BYTES) or b"{}")
    except (ValueError, RecursionError):
        said = None
    if not (isinstance(said, dict) and all(map(_is_text, said.values()))):
        raise Refusal(
            grpc.StatusCode.INVALID_ARGUMENT,
            "the body must be a JSON object of Unicode texts",
            "INVALID_JSON",
        )
    return said


def _is_text(value: object) -> bool:
    """Whether a JSON value is a text, and that without half of a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)
