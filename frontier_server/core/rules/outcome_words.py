"""The outcome of a URI in words, for the seeds' report, explanations, and the reason why a crawl failed."""

from collections.abc import Mapping

from .disposition import (
    BLOCKED_BY_QUOTA,
    DEEMED_NOT_FOUND,
    DEFERRED,
    DELETED_BY_USER,
    OUT_OF_SCOPE,
    PROCESSING_THREAD_KILLED,
    PROTOCOL_ERROR,
    ROBOTS_PRECLUDED,
    ROBOTS_PREREQUISITE_FAILURE,
    SERIOUS_ERROR,
    UNFETCHABLE_URI,
)

WORDS: Mapping[int, str] = {
    -1: "name not found",
    -2: "connection failed",
    -3: "connection lost",
    -4: "timed out",
    -5: "error in the node",
    UNFETCHABLE_URI: "address refused",
    PROTOCOL_ERROR: "the answer was not HTTP",
    DEFERRED: "put off",
    ROBOTS_PREREQUISITE_FAILURE: "robots.txt could not be fetched",
    DEEMED_NOT_FOUND: "deemed not found",
    SERIOUS_ERROR: "serious error in the node",
    OUT_OF_SCOPE: "out of scope",
    BLOCKED_BY_QUOTA: "quota spent",
    DELETED_BY_USER: "deleted by an operator",
    PROCESSING_THREAD_KILLED: "fetch broken off",
    ROBOTS_PRECLUDED: "forbidden by robots.txt",
}
MAX_REASON = 200  # characters
MOST_TOLD = 3
NOT_MODIFIED = 304


def words(fetch_status: int, reason: str = "") -> str:
    """`fetched (200)`, `redirected to /login (302)`, `name not found`, `address refused: …`.

    The reason of a redirect is its target.
    """
    if fetch_status >= 400:
        return f"answered with an error ({fetch_status})"
    if is_redirect(fetch_status):
        return f"redirected{' to ' if reason else ''}{reason} ({fetch_status})"
    if fetch_status > 0:
        return f"fetched ({fetch_status})"
    told = WORDS.get(fetch_status, f"not fetched ({fetch_status})")
    return f"{told}: {reason}" if reason else told


def retry_words(fetch_status: int, reason: str = "") -> str:
    """Why a queue, or a URI alone, rests: `retry after fetch status -3: connection lost`.

    Stores of earlier versions do not have the fetch status (0) of a URI that rests alone.
    """
    if not fetch_status:
        return "retry after a failure"
    told = f": {words(fetch_status, reason)}" if fetch_status < 0 else ""
    return f"retry after fetch status {fetch_status}{told}"


def is_redirect(fetch_status: int) -> bool:
    """Whether a status is that of a redirect: 3xx, but for 304."""
    return 300 <= fetch_status < 400 and fetch_status != NOT_MODIFIED


def is_page(fetch_status: int) -> bool:
    """Whether a status is that of a page: 2xx, or 304."""
    return 200 <= fetch_status < 300 or fetch_status == NOT_MODIFIED


def failure(
    fetch_statuses: Mapping[int, int],
    seed_statuses: Mapping[int, int],
    seeds: int,
    taken_in: int = 0,
    elsewhere: bool = False,
) -> str:
    """Why a crawl that has ended counts as failed: no page, or none of its seeds, was fetched. Empty if it
    does not. The statuses are those of all outcomes, and of seeds alone, with their numbers; `taken_in`
    counts the URIs that the crawl has taken in; `elsewhere` says that no seed which redirects has led to a
    page of its own."""
    if not any(is_page(status) for status in fetch_statuses):
        if fetch_statuses:
            return f"no page was fetched: {_summary(fetch_statuses)}"
        if taken_in:
            return "no page was fetched: the crawl ended before the first answer"
        told = "the seed was not" if seeds == 1 else f"none of {seeds} seeds was"
        return f"no page was fetched: {told} taken in"
    if seed_statuses and (elsewhere or not any(0 < status < 400 for status in seed_statuses)):
        return f"no seed was fetched: {_summary(seed_statuses)}"
    return ""


def _summary(statuses: Mapping[int, int]) -> str:
    """The commonest statuses in words."""
    most = sorted(statuses.items(), key=lambda item: (-item[1], item[0]))
    told = [
        f"{words(status)}{f' ({count} times)' if count > 1 else ''}" for status, count in most[:MOST_TOLD]
    ]
    if len(most) > MOST_TOLD:
        told.append(f"and {sum(count for _, count in most[MOST_TOLD:])} others")
    return ", ".join(told)
