"""The contract's messages ↔ the core's values, both ways. Decides nothing.

A number that the contract's enums do not have reaches the core as it is; the core
says what is wrong with it.
"""

from .exchange import (
    DISPOSITIONS,
    EMPTY_REASONS,
    VERDICTS,
    ContractCodec,
    candidate,
    fetch_policy,
    lease,
    report,
    report_result,
    toe_steps,
)
from .specs import override_problems, settings, settings_of, settings_with, spec, spec_problems
from .times import duration, milliseconds, moment_ms, timestamp
from .views import (
    QUEUE_STATES,
    QUEUE_STATES_BY_NUMBER,
    START_CURSOR,
    TARGETS,
    crawl,
    crawl_status,
    cursor,
    event,
    node,
    queue,
    sequence_of,
    statistics,
)

__all__ = [
    "DISPOSITIONS",
    "EMPTY_REASONS",
    "QUEUE_STATES",
    "QUEUE_STATES_BY_NUMBER",
    "START_CURSOR",
    "TARGETS",
    "VERDICTS",
    "ContractCodec",
    "candidate",
    "crawl",
    "crawl_status",
    "cursor",
    "duration",
    "event",
    "fetch_policy",
    "lease",
    "milliseconds",
    "moment_ms",
    "node",
    "override_problems",
    "queue",
    "report",
    "report_result",
    "sequence_of",
    "settings",
    "settings_of",
    "settings_with",
    "spec",
    "spec_problems",
    "statistics",
    "timestamp",
    "toe_steps",
]
