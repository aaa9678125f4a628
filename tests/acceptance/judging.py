"""Crawls of the practice web, and all judges over one of them at once."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from practice_web import truth
from practice_web.log import Entry
from practice_web.practice import PracticeWeb

SPEC = Path(__file__).parents[1] / "practice_web" / "spec.toml"

SLOW = {"min_delay_seconds = 0.03": "min_delay_seconds = 1.0", "max_delay_seconds = 0.3\n": ""}
"""What a crawl's spec says instead that must not come to its end before somebody has had a look at it."""

BRISK = "politeness.min_delay_seconds=0.03"
"""What `toehold set` is given when it may."""

MAX_LINK_HOPS, MAX_ATTEMPTS = 8, 3
MIN_DELAY_S, MIN_REST_S = 0.03, 1.0
"""What SPEC says: between two requests to a host, and between two attempts at a page."""

FEW = ("alpha", "gamma", "theta")
"""Library hosts of a smaller crawl: one is plain, one compresses, one wants https."""

ONE = FEW[:1]
"""Enough where a test is about programs, and not about what is fetched."""


def slow_spec() -> str:
    """SPEC, with a second between two requests to a host."""
    text = SPEC.read_text()
    for delay, longer in SLOW.items():
        assert delay in text
        text = text.replace(delay, longer)
    return text


def crawl_arguments(web: PracticeWeb, directory: Path, *more: str, keys: Iterable[str] = FEW) -> list[str]:
    """`toehold` arguments that crawl the hosts of these keys."""
    return [
        *("crawl", "--spec", str(SPEC), "--dir", str(directory)),
        *node_options(web),
        *more,
        *seeds_of(web, keys),
    ]


def node_options(web: PracticeWeb) -> list[str]:
    """What a node must know to find the practice web."""
    resolve = (argument for entry in web.resolve for argument in ("--resolve", entry))
    return ["--ca-file", str(web.ca_file), *resolve]


def seeds_of(web: PracticeWeb, keys: Iterable[str] = FEW) -> list[str]:
    """The first pages of the hosts of these keys."""
    return [web.web.url(key, "/") for key in keys]


def complaints(
    web: PracticeWeb,
    keys: Iterable[str] = FEW,
    again: Collection[str] = (),
    unruly: Collection[str] = (),
) -> list[str]:
    """What all judges together have to say about a finished crawl of the hosts of these keys.

    Each mention of a URL in `again`, whose answer may not have been reported, allows one more request for it,
    and lets that come at once. Those in `unruly` are left out where requests of a host are judged by when
    they came.
    """
    log = web.log()
    ruly = [entry for entry in log if entry.url not in unruly]
    expected = truth.expected_pages(web.web, MAX_LINK_HOPS, seeds_of(web, keys))
    return [
        *truth.missing_pages(expected, log),
        *truth.unexpected_requests(web.web, expected, log),
        *truth.forbidden_requests(web.web, log),
        *truth.robots_first_violations(web.web, log),
        *truth.overlaps_and_gaps(web.web, ruly, MIN_DELAY_S),
        *truth.impatient_requests(log, again),
        *truth.repeated_requests(web.web, log, MAX_ATTEMPTS, again),
        *truth.early_retries(web.web, log, MIN_REST_S, again),
    ]


LATE_S = 5.0
"""How long after it was sent a busy web may note that a request has begun."""


def in_flight(log: Sequence[Entry], *moments: float) -> list[str]:
    """The pages that may have been unreported when something was killed at these moments (`Entry.start`'s
    clock).

    As only one lease of a host is out at a time, that is no more than the last page of each host: of those
    noted at the moment, or the first after it, as a request that was on its way may be noted late.
    """
    found: list[str] = []
    for moment in moments:
        last = {entry.host: entry.url for entry in log if entry.start <= moment}
        late = {entry.host: entry.url for entry in reversed(log) if moment < entry.start <= moment + LATE_S}
        found += (*last.values(), *late.values())
    return found
