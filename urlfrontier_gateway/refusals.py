"""Why a call of URLFrontier's API fails, as gRPC's codes and sentences."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grpc import StatusCode, aio

from toehold_client.errors import (
    CrawlFinished,
    DeadlineExceeded,
    FrontierUnavailable,
    IllegalState,
    InvalidArgument,
    RefusedForNow,
    SessionSuperseded,
    ToeholdError,
)


class Refused(Exception):
    """A request that makes no sense, or names something that is not there."""

    def __init__(self, message: str, code: StatusCode = StatusCode.INVALID_ARGUMENT) -> None:
        super().__init__(message)
        self.code = code


_CODES: tuple[tuple[type[ToeholdError], StatusCode], ...] = (
    (RefusedForNow, StatusCode.RESOURCE_EXHAUSTED),
    (FrontierUnavailable, StatusCode.UNAVAILABLE),
    (SessionSuperseded, StatusCode.UNAVAILABLE),
    (DeadlineExceeded, StatusCode.DEADLINE_EXCEEDED),
    (InvalidArgument, StatusCode.INVALID_ARGUMENT),
    (CrawlFinished, StatusCode.FAILED_PRECONDITION),
    (IllegalState, StatusCode.FAILED_PRECONDITION),
)


@asynccontextmanager
async def refusing(context: aio.ServicerContext[Any, Any]) -> AsyncIterator[None]:
    """A context in which an error ends the call, with its code and a sentence."""
    try:
        yield
    except Refused as refused:
        await context.abort(refused.code, str(refused))
    except ToeholdError as error:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), StatusCode.UNKNOWN)
        await context.abort(code, str(error))
