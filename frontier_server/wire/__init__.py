"""The contract's messages ↔ the core's values, both ways. Decides nothing.

A number that the contract's enums do not have reaches the core as it is; the core
says what is wrong with it.
"""

from .administration import (
    WHYS,
    fetch_figures,
    kept_outcomes,
    outcome,
    override,
    queue_change,
    reason,
)
from .cursors import (
    END_CURSOR,
    START_CURSOR,
    cursor,
    outcome_cursor,
    outcome_number,
    page_token,
    place_of,
    sequence_of,
)
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
from .jobs import JOB_STATES, job, job_asked
from .specs import amended, override_problems, settings, settings_of, settings_with, spec, spec_problems
from .times import duration, milliseconds, moment_ms, timestamp
from .uris import URI_STATES, import_row, seed, story, waiting_uri
from .views import (
    QUEUE_STATES,
    QUEUE_STATES_BY_NUMBER,
    TARGETS,
    crawl,
    crawl_status,
    event,
    node,
    queue,
    statistics,
)

__all__ = [
    "DISPOSITIONS",
    "EMPTY_REASONS",
    "END_CURSOR",
    "JOB_STATES",
    "QUEUE_STATES",
    "QUEUE_STATES_BY_NUMBER",
    "START_CURSOR",
    "TARGETS",
    "URI_STATES",
    "VERDICTS",
    "WHYS",
    "ContractCodec",
    "amended",
    "candidate",
    "crawl",
    "crawl_status",
    "cursor",
    "duration",
    "event",
    "fetch_figures",
    "fetch_policy",
    "import_row",
    "job",
    "job_asked",
    "kept_outcomes",
    "lease",
    "milliseconds",
    "moment_ms",
    "node",
    "outcome",
    "outcome_cursor",
    "outcome_number",
    "override",
    "override_problems",
    "page_token",
    "place_of",
    "queue",
    "queue_change",
    "reason",
    "report",
    "report_result",
    "seed",
    "sequence_of",
    "settings",
    "settings_of",
    "settings_with",
    "spec",
    "spec_problems",
    "statistics",
    "story",
    "timestamp",
    "toe_steps",
    "waiting_uri",
]
