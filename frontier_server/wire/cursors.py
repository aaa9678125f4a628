"""Where readers continue: cursors of streams, tokens of pages. Opaque to readers, checked on return."""

import re
from hashlib import blake2b
from typing import NamedTuple

START_CURSOR = "start"
END_CURSOR = "end"
_EVENT, _OUTCOME = "e", "o"
_MARK_BYTES = 4
_PLACE = re.compile(r"([eo])([0-9]{1,18})(?:-([0-9]{1,18}))?")


class Cursor(NamedTuple):
    """The last event or outcome that a reader has: its number, and its time (0: unknown).

    Numbers repeat if a store was set back, or a crawl was created anew; the time then tells the reader's
    event from the new one.
    """

    number: int
    time_ms: int


def cursor(sequence: int, time_ms: int) -> str:
    """The cursor after an event, given its time (0: unknown)."""
    return _cursor(_EVENT, sequence, time_ms)


def event_place(text: str) -> Cursor | None:
    """The place of a cursor of events; None if the text is not one."""
    return _place(_EVENT, text)


def outcome_cursor(number: int, time_ms: int) -> str:
    """The cursor after an outcome, given its time (0: unknown)."""
    return _cursor(_OUTCOME, number, time_ms)


def outcome_place(text: str) -> Cursor | None:
    """The place of a cursor of outcomes; None if the text is not one."""
    return _place(_OUTCOME, text)


def _cursor(kind: str, number: int, time_ms: int) -> str:
    return f"{kind}{number}-{time_ms}" if time_ms else f"{kind}{number}"


def _place(kind: str, text: str) -> Cursor | None:
    if text == START_CURSOR:
        return Cursor(0, 0)
    match = _PLACE.fullmatch(text)
    return Cursor(int(match[2]), int(match[3] or 0)) if match and match[1] == kind else None


def page_token(listing: str, place: bytes) -> str:
    """The token that continues a listing after a place; empty at the listing's end.

    It carries a mark of this listing, so that no other one accepts it.
    """
    return (place + _mark(listing, place)).hex() if place else ""


def place_of(listing: str, token: str) -> bytes | None:
    """The place of a token; None if the token does not belong to this listing."""
    if not token:
        return b""
    try:
        data = bytes.fromhex(token)
    except ValueError:
        return None
    place, mark = data[:-_MARK_BYTES], data[-_MARK_BYTES:]
    return place if place and mark == _mark(listing, place) else None


def _mark(listing: str, place: bytes) -> bytes:
    return blake2b(listing.encode() + b"\0" + place, digest_size=_MARK_BYTES).digest()
