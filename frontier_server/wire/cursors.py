"""Where readers go on: cursors of streams, tokens of pages. Opaque to them, checked when they come back."""

from hashlib import blake2b

START_CURSOR = "start"
END_CURSOR = "end"
_EVENT, _OUTCOME = "e", "o"
_MAX_DIGITS = 18
_MARK_BYTES = 4


def cursor(sequence: int) -> str:
    """Where a reader of events goes on after an event."""
    return f"{_EVENT}{sequence}"


def sequence_of(text: str) -> int | None:
    """The sequence number of a cursor of events; None if it is none of ours."""
    return _number_of(_EVENT, text)


def outcome_cursor(number: int) -> str:
    """Where a reader of outcomes goes on after an outcome."""
    return f"{_OUTCOME}{number}"


def outcome_number(text: str) -> int | None:
    """The number of a cursor of outcomes; None if it is none of ours."""
    return _number_of(_OUTCOME, text)


def _number_of(kind: str, text: str) -> int | None:
    if text == START_CURSOR:
        return 0
    digits = text.removeprefix(kind)
    known = text != digits and digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS
    return int(digits) if known else None


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
