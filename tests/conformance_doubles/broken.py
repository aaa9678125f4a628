"""What the scripted fetcher can do wrong, one thing at a time, and which cases of the kit must then fail."""

from __future__ import annotations

from enum import StrEnum


class Broken(StrEnum):
    """A fault of the scripted fetcher."""

    FOLLOWS_REDIRECTS = "follows-redirects"
    IGNORES_ROBOTS_PURPOSE = "ignores-robots-purpose"
    FOLLOWS_SIX_REDIRECTS = "follows-six-redirects"
    CLAIMS_EMPTY_ROBOTS = "claims-empty-robots"
    CUTS_NO_ROBOTS = "cuts-no-robots"
    DROPS_BASE = "drops-base"
    SENDS_NO_BASE = "sends-no-base"
    FORGETS_HOPS = "forgets-hops"
    FORGETS_SOURCE = "forgets-source"
    IGNORES_MAX_LINKS = "ignores-max-links"
    REPORTS_BEFORE_LINKS = "reports-before-links"
    OTHER_AGENT = "other-agent"
    CONNECTS_ANYWHERE = "connects-anywhere"
    IGNORES_MAX_BYTES = "ignores-max-bytes"
    IGNORES_DEADLINE = "ignores-deadline"
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
