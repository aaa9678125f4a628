"""Checks candidates, apart from their scope. Each problem says what is right, then what was sent."""

from ..rows.records import MAX_COST
from ..rules.precedence import MAX_PRECEDENCE
from ..state.model import (
    HOP_LETTERS,
    MAX_ANNOTATIONS_BYTES,
    MAX_PATH_CHARACTERS,
    MAX_RECORD_BYTES,
    QUEUE_KEY,
    QUEUE_KEY_FORM,
    Candidate,
    Directive,
    Verdict,
)
from ..uri.canonical import MAX_URI_BYTES, Malformed, TooLong, UnsupportedScheme, canonical, longer_than
from .future import LAST_MS

MAX_SHOWN = 80  # characters of a value


def problem_of(candidate: Candidate) -> tuple[Verdict, str] | None:
    """The first problem of a candidate, whatever the crawl; None if it is valid."""
    return field_problem(candidate) or uri_problem(candidate.uri)


def uri_problem(text: str) -> tuple[Verdict, str] | None:
    """The problem of an offered URI."""
    try:
        canonical(text)
    except TooLong as problem:
        return Verdict.TOO_LONG, f"{problem}"
    except UnsupportedScheme as problem:
        return Verdict.UNSUPPORTED_SCHEME, f"{problem}"
    except Malformed:
        return Verdict.MALFORMED, f"uri must be an absolute URI with a host, got {text[:MAX_SHOWN]!r}"
    return None


def field_problem(candidate: Candidate) -> tuple[Verdict, str] | None:
    """The problem of a candidate's fields other than its URI."""
    for name, text in (("via", candidate.via), ("source", candidate.source), ("base", candidate.base)):
        if longer_than(text, MAX_URI_BYTES):
            return (
                Verdict.TOO_LONG,
                f"{name} must have at most {MAX_URI_BYTES} bytes, got {len(text.encode())}",
            )
    for name, size, most, unit in (
        ("annotations", len(candidate.annotations), MAX_ANNOTATIONS_BYTES, "bytes"),
        ("path", len(candidate.path), MAX_PATH_CHARACTERS, "letters"),
        ("a candidate", len(candidate.record), MAX_RECORD_BYTES, "bytes"),
    ):
        if size > most:
            return Verdict.TOO_LONG, f"{name} must have at most {most} {unit}, got {size}"
    if candidate.via and not candidate.path and not candidate.seed:
        return Verdict.MALFORMED, "path must give the hops from the seed to the URI when via is set, got none"
    wrong = next((letter for letter in candidate.path if letter not in HOP_LETTERS), None)
    if wrong is not None:
        letters = ", ".join(sorted(HOP_LETTERS))
        return Verdict.MALFORMED, f"path must consist of the letters {letters}, got {wrong!r}"
    for name, number, least, most in (
        ("precedence", candidate.precedence, 0, MAX_PRECEDENCE),
        ("cost", candidate.cost, 0, MAX_COST),
        ("directive", candidate.directive, int(Directive.HIGHEST), int(Directive.NORMAL)),
    ):
        if number is not None and not least <= number <= most:
            return Verdict.MALFORMED, f"{name} must be between {least} and {most}, got {number}"
    if not 0 <= candidate.not_before_ms <= LAST_MS:
        return Verdict.MALFORMED, "not_before_time must be in the years 1970 to 9999"
    if candidate.queue_key and not QUEUE_KEY(candidate.queue_key):
        return (
            Verdict.MALFORMED,
            f"queue_key must have {QUEUE_KEY_FORM}, got {candidate.queue_key[:MAX_SHOWN]!r}",
        )
    return None
