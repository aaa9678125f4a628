"""Where readers go on: cursors of streams, tokens of pages. Opaque to them, checked when they come back."""

import re
from hashlib import blake2b
from typing import NamedTuple

START_CURSOR = "start"
END_CURSOR = "end"
_EVENT, _OUTCOME = "e", "o"
_MARK_BYTES = 4
_PLACE = re.compile(r"([eo])([0-9]{1,18})(?:-([0-9]{1,18}))?")


class Cursor(NamedTuple):
    """The event or outcome that a reader has read last: its number, and when it was (0: that is not told).

    A store that was set back counts again, and so does a crawl that is made anew: the time tells its events
    from those of the same numbers that a reader knows.
    """

    number: int
    time_ms: int


def cursor(sequence: int, time_ms: int) -> str:
    """Where a reader of events goes on after an event, which happened then (0: unknown)."""
    return _cursor(_EVENT, sequence, time_ms)


def event_place(text: str) -> Cursor | None:
    """What a cursor of events says; None if it is none of ours."""
    return _place(_EVENT, text)


def outcome_cursor(number: int, time_ms: int) -> str:
    """Where a reader of outcomes goes on after an outcome, which was then (0: unknown)."""
    return _cursor(_OUTCOME, number, time_ms)


def outcome_place(text: str) -> Cursor | None:
    """What a cursor of outcomes says; None if it is none of ours."""
    return _place(_OUTCOME, text)


def _cursor(kind: str, number: int, time_ms: int) -> str:
    return f"{kind}{number}-{time_ms}" if time_ms else f"{kind}{number}"


def _place(kind: str, text: str) -> Cursor | None:
    if text == START_CURSOR:
        return Cursor(0, 0)
    told = _PLACE.fullmatch(text)
    return Cursor(int(told[2]), int(told[3] or 0)) if told and told[1] == kind else None


def page_token(listing: str, place: bytes) -> str:
    """Where a listing goes on behind a place; empty if that is its end.

    The token is good for no other listing: it carries a mark of this one.
    """
    return (place + _mark(listing, place)).hex() if place else ""


def place_of(listing: str, token: str) -> bytes | None:
    """The place that a token of a listing names; None if it is not one of this listing's."""
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
