"""The outcome of a fetch: the statuses below zero, and the errors that mean them. Pure."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum, IntEnum

import httpx

from .addresses import AddressRefused, Unresolvable
from .answer_head import ProtocolError
from .cancellation import Cancelled
from .connection import ConnectFailed, ConnectionLost, DeadlinePassed, Stalled, WireLimitReached
from .exchange import Unsendable
from .failure import FetchFailure
from .shared_cookies import CookiesUnavailable

MAX_NOTE_CHARS = 128


class Status(IntEnum):
    """Why there is no answer: Heritrix's fetch status codes, and -10, which is ours."""

    DOMAIN_UNRESOLVABLE = -1
    CONNECT_FAILED = -2
    CONNECT_LOST = -3
    TIMEOUT = -4
    RUNTIME_EXCEPTION = -5
    UNFETCHABLE_URI = -7
    PROTOCOL_ERROR = -10
    DEFERRED = -50
    """The frontier tries the URI again without counting the try (Heritrix's S_DEFERRED)."""
    DEEMED_NOT_FOUND = -404
    PROCESSING_THREAD_KILLED = -7000


class Truncation(Enum):
    """Why a body is not whole; the values are those of WARC-Truncated."""

    NONE = ""
    LENGTH = "length"
    TIME = "time"
    """The deadline passed within the body, or the server fell silent."""
    DISCONNECT = "disconnect"
    FILTER = "unspecified"
    """The crawl does not want bodies of this media type or length, and leaves them unread."""

    @property
    def is_partial(self) -> bool:
        """Whether the next visit may get more, even of an unchanged page. So it must neither ask whether the
        page has changed, nor refer to this answer."""
        return self in (Truncation.TIME, Truncation.DISCONNECT, Truncation.FILTER)


def status_of(error: Exception) -> Status:
    """The status of a fetch that ended with this error."""
    for kinds, status in _MEANINGS:
        if isinstance(error, kinds):
            return status
    return Status.RUNTIME_EXCEPTION


def reason_of(error: Exception) -> str:
    """Why a fetch that ended with this error has no answer, for people; empty if its status says it all."""
    if isinstance(error, FetchFailure):
        return error.reason
    if status_of(error) is Status.RUNTIME_EXCEPTION:
        return f"{type(error).__name__}: {error}"
    return str(error)


def note(text: str) -> str:
    """Makes a text an annotation of the crawl log: short printable ASCII, without blanks and commas."""
    return re.sub(r"[^!-+\--~]+", "_", text[: 4 * MAX_NOTE_CHARS])[:MAX_NOTE_CHARS]


def retry_after_ms(header: str | None, now_ms: int) -> int | None:
    """How long a Retry-After header asks to wait, in milliseconds from `now_ms` (since the epoch).

    Takes seconds or an HTTP date (RFC 9110 10.2.3); a past date means 0. None without a header, and for one
    that makes no sense.
    """
    text = (header or "").strip()[:64]
    if re.fullmatch(r"[0-9]{1,10}", text):
        return int(text) * 1000
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:  # "-0000": a time in UTC, from an unknown zone
        date = date.replace(tzinfo=UTC)
    return max(0, int(date.timestamp() * 1000) - now_ms)


_MEANINGS: tuple[tuple[tuple[type[Exception], ...], Status], ...] = (
    ((Cancelled,), Status.PROCESSING_THREAD_KILLED),
    ((CookiesUnavailable,), Status.DEFERRED),
    ((Unresolvable,), Status.DOMAIN_UNRESOLVABLE),
    ((AddressRefused,), Status.UNFETCHABLE_URI),
    ((ConnectFailed,), Status.CONNECT_FAILED),
    ((DeadlinePassed, Stalled), Status.TIMEOUT),
    ((ConnectionLost,), Status.CONNECT_LOST),
    ((ProtocolError, WireLimitReached), Status.PROTOCOL_ERROR),
    ((httpx.InvalidURL, httpx.UnsupportedProtocol, Unsendable), Status.UNFETCHABLE_URI),
)
