"""The robots.txt that a fetch brought, or why there is none (RFC 9309, 2.3.1). Pure."""

import re
from dataclasses import dataclass

from .decode import Break, decoded, is_credible
from .fetch import MAX_ROBOTS_BYTES, MAX_ROBOTS_REDIRECTS, FetchResult
from .outcome import Status, Truncation

# Names as the frontier and `extraction.sitemap` read them, misspelt or not.
_GENEROUS = re.compile(rb"(?:[\s\0]|\xef\xbb\xbf)*+(?:allow|site-?map)", re.IGNORECASE)
_UNWANTED_END = re.compile(rb"(?:\$|[0-9A-Fa-f]?%)*+")  # backwards: an anchor, or half of an escape


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """The report of a robots.txt."""

    status: int
    """The HTTP status, or a Status below zero if the file is unavailable, whatever HTTP says."""
    body: bytes = b""
    """Its first MAX_ROBOTS_BYTES, decoded. With a status of 2xx an empty body means an empty file."""
    reason: str = ""
    """Why there is no file, for people; empty if the status says it all."""
    notes: tuple[str, ...] = ()
    """Annotations for the crawl log about a broken Content-Encoding."""

    @property
    def was_had(self) -> bool:
        """Whether there is a file, be it empty."""
        return 200 <= self.status < 300


def robots_file(fetch: FetchResult) -> RobotsFile:
    """The file that a fetch of a robots.txt brought.

    A redirect that was not followed, or leads nowhere, means that there is no file. A file that broke off, or
    is longer than MAX_ROBOTS_BYTES, counts as far as it came, unless it is empty: a cut line forbids no less
    than the whole line, except an `Allow`, which is left out. A file that dripped until the deadline, or
    whose server fell silent, is unavailable, as most of it may be missing. Bytes that are no text, and that
    no coding explains, are no file either. A broken Content-Encoding breaks the file off, unless only its
    checksum or length is wrong.
    """
    if 300 <= fetch.status < 400:
        leads = fetch.redirect_target is not None
        why = (
            f"more than {MAX_ROBOTS_REDIRECTS} redirects"
            if leads
            else f"status {fetch.status} without a target"
        )
        return RobotsFile(Status.DEEMED_NOT_FOUND, reason=why)
    if not 200 <= fetch.status < 300:
        return RobotsFile(fetch.status, reason=fetch.reason)
    if fetch.truncation is Truncation.TIME:
        return RobotsFile(Status.TIMEOUT, reason=fetch.reason)
    if fetch.truncation is Truncation.DISCONNECT and not fetch.body_bytes:
        return RobotsFile(Status.CONNECT_LOST, reason=fetch.reason)
    breaks: list[Break] = []
    body = decoded(fetch.body, fetch.content_encoding, MAX_ROBOTS_BYTES, breaks.append)
    is_cut = fetch.truncation is not Truncation.NONE
    notes = tuple(dict.fromkeys(where.note for where in breaks if not (is_cut and where is Break.END)))
    if body is None or not is_credible(fetch.body, fetch.content_encoding, body):
        return RobotsFile(Status.PROTOCOL_ERROR, reason="the file is no text", notes=notes)
    if is_cut or len(body) >= MAX_ROBOTS_BYTES or not {Break.CHECKSUM, Break.LENGTH}.issuperset(breaks):
        body = _without_torn_permission(body)
    return RobotsFile(fetch.status, body, notes=notes)


def _without_torn_permission(body: bytes) -> bytes:
    """A body without its last, cut line, if that might permit or name more than the whole line would. A rule
    that remains forbids no less than the whole one.
    """
    torn = max(body.rfind(b"\r"), body.rfind(b"\n")) + 1
    if _GENEROUS.match(body, torn):
        return body[:torn] + b"#" + body[torn:]
    unwanted = _UNWANTED_END.match(body[torn:][::-1])
    return body[: len(body) - (unwanted.end() if unwanted is not None else 0)]
