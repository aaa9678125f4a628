"""The request ids that calls carry: one of the caller's own, or a new one for each call."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from toehold_base.serving.request_ids import REQUEST_ID_KEY, is_request_id, new_request_id
from toehold_client.errors import InvalidArgument

Metadata = tuple[tuple[str, str], ...]

_current: ContextVar[str] = ContextVar("request_id", default="")


@contextmanager
def request_id(name: str = "") -> Iterator[str]:
    """A context whose calls all carry this request id, and its value; by default that of an outer context, or
    else a new one.

    InvalidArgument unless it has 1 to 64 letters, digits and `. _ : -`.
    """
    if name and not is_request_id(name):
        raise InvalidArgument(
            f"a request id must have 1 to 64 letters, digits and any of . _ : -, got {name!r:.200}"
        )
    chosen = name or _current.get() or new_request_id()
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


def with_request_id(metadata: Metadata, chosen: str = "") -> Metadata:
    """The metadata of a call: these, and its request id."""
    return (*metadata, (REQUEST_ID_KEY, chosen or _current.get() or new_request_id()))


def request_id_in(metadata: Metadata) -> str:
    """The request id among a call's metadata."""
    return next((value for key, value in metadata if key == REQUEST_ID_KEY), "")
