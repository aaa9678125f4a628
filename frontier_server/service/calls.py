"""A call while it is answered: its request id for the log and for errors, and its own line at level debug."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import grpc
import structlog
from google.protobuf.message import Message

from toehold_base.observability import logs
from toehold_base.serving.request_ids import given_request_id

from .answers import Context

_log = structlog.get_logger()
_crawl: ContextVar[str] = ContextVar("crawl", default="")


@contextmanager
def logged(method: str, context: Context) -> Iterator[None]:
    """Within, each line of the log has the call's method and request id.

    gRPC gives each call a task, and so a context, of its own.
    """
    request_id = given_request_id(context.invocation_metadata())
    structlog.contextvars.bind_contextvars(method=method, request_id=request_id)
    if not logs.debugging():
        yield
        return
    begun_s = time.monotonic()
    code = "OK"
    try:
        yield
    except (asyncio.CancelledError, GeneratorExit, grpc.aio.InternalError):  # its caller has left
        code = "CANCELLED"
        raise
    except BaseException:
        code = _name(context.code())
        raise
    finally:
        duration_ms = round((time.monotonic() - begun_s) * 1000, 1)
        _log.debug("call", code=code, duration_ms=duration_ms, crawl=_crawl.get())


def note(request: Message) -> None:
    """Note which crawl the call is about, for its line in the log."""
    if logs.debugging() and "crawl" in request.DESCRIPTOR.fields_by_name:
        _crawl.set(str(getattr(request, "crawl")))  # noqa: B009  # not every message has it


def _name(code: object) -> str:
    if isinstance(code, grpc.StatusCode):
        return code.name
    return next((each.name for each in grpc.StatusCode if each.value[0] == code), "UNKNOWN")
