"""Kinds of fetchers. A crawl with a kind is served only to callers that offer it.

An empty kind stands for any fetcher. What a request offers is a sorted tuple of kinds, perhaps empty, so that
requests that offer the same are equal.
"""

from collections.abc import Iterable

from ..rows.errors import InvalidRequest
from ..spec.settings import FETCHER_KIND

ANY = ""
MAX_KINDS = 16  # that a request offers

Kinds = tuple[str, ...]


def offered(kinds: Iterable[str]) -> Kinds:
    """The kinds that a request offers, in the form in which they are compared."""
    return tuple(sorted(set(kinds)))


def serves(kinds: Kinds, kind: str) -> bool:
    """Whether a fetcher that offers these kinds may fetch for a crawl of this kind."""
    return kind == ANY or kind in kinds


def check_kinds(kinds: Kinds) -> None:
    """Raise InvalidRequest for kinds that no crawl can have, or for too many."""
    if len(kinds) > MAX_KINDS:
        raise InvalidRequest(
            f"fetcher_kinds must have at most {MAX_KINDS} kinds, got {len(kinds)}", field="fetcher_kinds"
        )
    for kind in kinds:
        problem = FETCHER_KIND.problem(kind, False)
        if problem:
            raise InvalidRequest(f"each of fetcher_kinds {problem}", field="fetcher_kinds")
