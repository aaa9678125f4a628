"""Why a call of URLFrontier's API fails, as gRPC's codes and sentences."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec

from grpc import StatusCode

from toehold_client import errors

from .calls import Aborted

_P = ParamSpec("_P")


class RefusedRequest(Aborted):
    """A request that makes no sense, or names something that is not there."""

    def __init__(self, message: str, code: StatusCode = StatusCode.INVALID_ARGUMENT) -> None:
        super().__init__(message, code)


_CODES: tuple[tuple[type[errors.ToeholdError], StatusCode], ...] = (
    (errors.RefusedForNow, StatusCode.RESOURCE_EXHAUSTED),
    (errors.FrontierUnavailable, StatusCode.UNAVAILABLE),
    (errors.SessionSuperseded, StatusCode.UNAVAILABLE),
    (errors.DeadlineExceeded, StatusCode.DEADLINE_EXCEEDED),
    (errors.InvalidArgument, StatusCode.INVALID_ARGUMENT),
    (errors.CrawlFinished, StatusCode.FAILED_PRECONDITION),
    (errors.IllegalState, StatusCode.FAILED_PRECONDITION),
)


def refusing(serve: Callable[_P, Awaitable[None]]) -> Callable[_P, Awaitable[None]]:
    """The same call, which an error of the frontier ends with its code and a sentence."""

    @wraps(serve)
    async def served(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            await serve(*args, **kwargs)
        except errors.ToeholdError as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), StatusCode.UNKNOWN)
            raise Aborted(str(error), code) from error

    return served
