"""The faults of the scripted fetcher, one at a time, and the cases of the kit that must then fail."""

from collections.abc import Mapping
from enum import StrEnum


class Broken(StrEnum):
    """A fault of the scripted fetcher."""

    FOLLOWS_REDIRECTS = "follows-redirects"
    IGNORES_ROBOTS_PURPOSE = "ignores-robots-purpose"
    FOLLOWS_SIX_REDIRECTS = "follows-six-redirects"
    CLAIMS_EMPTY_ROBOTS = "claims-empty-robots"
    CUTS_NO_ROBOTS = "cuts-no-robots"
    CUTS_ROBOTS_AS_PAGES = "cuts-robots-as-pages"
    MIXES_ROBOTS_BODIES = "mixes-robots-bodies"
    READS_HEADERS_AS_ASCII = "reads-headers-as-ascii"
    READS_LOCATIONS_AS_LATIN_1 = "reads-locations-as-latin-1"
    DROPS_BASE = "drops-base"
    RESOLVES_AT_THE_ROOT = "resolves-at-the-root"
    FORGETS_HOPS = "forgets-hops"
    FORGETS_SOURCE = "forgets-source"
    FORGETS_REDIRECTS = "forgets-redirects"
    COPIES_REDIRECTS_TO_LINKS = "copies-redirects-to-links"
    IGNORES_MAX_LINKS = "ignores-max-links"
    REPORTS_BEFORE_LINKS = "reports-before-links"
    OTHER_AGENT = "other-agent"
    CONNECTS_ANYWHERE = "connects-anywhere"
    IGNORES_MAX_BYTES = "ignores-max-bytes"
    IGNORES_DEADLINE = "ignores-deadline"
    IGNORES_SILENCE = "ignores-silence"
    DROPS_SILENT_BODIES = "drops-silent-bodies"
    IGNORES_FILTER = "ignores-filter"
    HIDES_CUTS = "hides-cuts"
    SENDS_NO_VALIDATORS = "sends-no-validators"
    BENDS_STATUSES = "bends-statuses"
    CALLS_ALL_FAILURES_LOST = "calls-all-failures-lost"
    SENDS_NO_HEARTBEAT = "sends-no-heartbeat"
    KEEPS_ENDED_LEASES = "keeps-ended-leases"
    IGNORES_RELEASE = "ignores-release"
    IGNORES_INTERRUPT = "ignores-interrupt"
    IGNORES_DRAIN = "ignores-drain"
    ENDS_AT_ONCE = "ends-at-once"
    SURVIVES_SUPERSESSION = "survives-supersession"
    KEEPS_SESSION = "keeps-session"
    ASKS_IN_A_LOOP = "asks-in-a-loop"
    ENDS_AT_ERRORS = "ends-at-errors"
    IGNORES_HINTS = "ignores-hints"
    DROPS_FAILED_CALLS = "drops-failed-calls"
    ENDS_AT_STALE = "ends-at-stale"


_REDIRECTS = ("redirect-is-a-link", "redirect-kinds", "redirect-to-another-host", "redirect-loop")
_FAILED_CALLS = ("overloaded", "broken-connections", "failed-schedule", "lost-answers", "held-crawl")
_ROBOTS = tuple(
    f"robots-{name}"
    for name in (
        *(
            "body",
            "redirects",
            "six-redirects",
            "redirect-without-target",
            "cut",
            "lost",
            "drip",
            "silent-body",
        ),
        *(
            "empty",
            "huge",
            "beyond-max-bytes",
            "redirects-with-bodies",
            "gzip",
            "garbage",
            "to-private-address",
        ),
    )
)

FAILING: Mapping[Broken, frozenset[str]] = {
    fault: frozenset(cases)
    for fault, cases in {
        Broken.FOLLOWS_REDIRECTS: (*_REDIRECTS, "only-leases", "redirect-to-private-address"),
        Broken.IGNORES_ROBOTS_PURPOSE: (*_ROBOTS, "valid-reports"),
        Broken.FOLLOWS_SIX_REDIRECTS: ("robots-six-redirects",),
        Broken.CLAIMS_EMPTY_ROBOTS: ("robots-lost", "robots-drip", "robots-silent-body", "robots-garbage"),
        Broken.CUTS_NO_ROBOTS: ("robots-huge", "valid-reports"),
        Broken.CUTS_ROBOTS_AS_PAGES: ("robots-beyond-max-bytes",),
        Broken.MIXES_ROBOTS_BODIES: ("robots-redirects-with-bodies",),
        Broken.READS_HEADERS_AS_ASCII: ("headers-in-latin-1", "redirect-in-utf-8"),
        Broken.READS_LOCATIONS_AS_LATIN_1: ("redirect-in-utf-8",),
        Broken.DROPS_BASE: ("base-element",),
        Broken.RESOLVES_AT_THE_ROOT: ("relative-references",),
        Broken.FORGETS_HOPS: (*_REDIRECTS, "link-hops", "embed-hops"),
        Broken.FORGETS_SOURCE: ("source",),
        Broken.FORGETS_REDIRECTS: ("redirect-chain",),
        Broken.COPIES_REDIRECTS_TO_LINKS: ("redirect-chain",),
        Broken.IGNORES_MAX_LINKS: ("max-links",),
        Broken.REPORTS_BEFORE_LINKS: ("links-before-report", "failed-schedule"),
        Broken.OTHER_AGENT: ("user-agent",),
        Broken.CONNECTS_ANYWHERE: (
            *("private-addresses", "redirect-to-private-address", "robots-to-private-address"),
        ),
        Broken.IGNORES_MAX_BYTES: ("max-bytes",),
        Broken.IGNORES_DEADLINE: ("slow-body", "slow-head", "robots-drip"),
        Broken.IGNORES_SILENCE: ("no-answer", "silent-body"),
        Broken.DROPS_SILENT_BODIES: ("silent-body", "links-of-a-silent-body"),
        Broken.IGNORES_FILTER: ("media-type-filter", "length-filter"),
        Broken.HIDES_CUTS: (
            *("body-too-short", "chunks-cut", "max-bytes", "media-type-filter", "length-filter", "slow-body"),
            "silent-body",
        ),
        Broken.SENDS_NO_VALIDATORS: ("revisit",),
        Broken.BENDS_STATUSES: ("statuses-beyond-599",),
        Broken.CALLS_ALL_FAILURES_LOST: (
            *("refused", "no-such-name", "no-answer", "slow-head", "not-http", "bad-framing"),
            *("robots-six-redirects", "robots-redirect-without-target", "robots-silence", "robots-drip"),
            *("robots-garbage", "private-addresses"),
        ),
        Broken.SENDS_NO_HEARTBEAT: (
            *("heartbeats", "heartbeat-interval", "ended-leases", "ended-leases-are-forgotten"),
            *("pause-releases", "interrupt", "drain"),
        ),
        Broken.KEEPS_ENDED_LEASES: ("ended-leases", "ended-leases-are-forgotten"),
        Broken.IGNORES_RELEASE: ("pause-releases",),
        Broken.IGNORES_INTERRUPT: ("interrupt",),
        Broken.IGNORES_DRAIN: ("drain",),
        Broken.ENDS_AT_ONCE: ("goodbye",),
        Broken.SURVIVES_SUPERSESSION: ("superseded",),
        # A request to drain counts for a session, so the next process ends at once, too.
        Broken.KEEPS_SESSION: ("superseded", "kill-of-the-fetcher", "drain"),
        Broken.ASKS_IN_A_LOOP: ("patience", "long-poll"),
        Broken.ENDS_AT_ERRORS: (*_FAILED_CALLS, "kill-of-the-frontier"),
        Broken.IGNORES_HINTS: ("overloaded", "held-crawl"),
        Broken.DROPS_FAILED_CALLS: _FAILED_CALLS,
        Broken.ENDS_AT_STALE: ("lapse",),
    }.items()
}
"""The cases that must fail for each fault, and no others but those of MAY_FAIL."""

MAY_FAIL: Mapping[Broken, frozenset[str]] = {
    # A crawl ends when its last URI is reported, and sometimes that is before the links of that page arrive.
    Broken.REPORTS_BEFORE_LINKS: frozenset(
        (
            *_FAILED_CALLS,
            *("lapse", "ended-leases", "ended-leases-are-forgotten", "superseded"),
            *("pause-releases", "pause-finishes", "stop-finishes", "interrupt", "goodbye", "drain"),
            *("kill-of-the-fetcher", "kill-of-the-frontier"),
        )
    ),
    # A lease that waits long for a free toe lapses.
    Broken.SENDS_NO_HEARTBEAT: frozenset(("goodbye", "pause-finishes")),
}
"""Cases that fail for a fault only if the moment is bad."""


def wrongly_judged(fault: Broken, failed: set[str]) -> set[str]:
    """The cases that should have failed for a fault and did not, and those that should not have failed."""
    return (failed - MAY_FAIL.get(fault, frozenset())) ^ (FAILING[fault] - MAY_FAIL.get(fault, frozenset()))
