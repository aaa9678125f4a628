"""Converts between the contract's messages and the core's values. No rules.

A number that is in no enum of the contract reaches the core unchanged; the core refuses it.
"""

from .administration import (
    fetch_statistics,
    kept_outcomes,
    outcome,
    override,
    queue_change,
    reason,
)
from .cursors import (
    END_CURSOR,
    START_CURSOR,
    Cursor,
    cursor,
    event_place,
    outcome_cursor,
    outcome_place,
    page_token,
    place_of,
)
from .exchange import (
    DISPOSITIONS,
    EMPTY_REASONS,
    VERDICTS,
    ContractCodec,
    candidate,
    fetch_policy,
    leases,
    pool_statistics,
    report,
    results,
    toe_steps,
    verdicts,
)
from .jobs import job, job_asked, job_start
from .parts import order, order_message, progress, progress_message
from .specs import (
    amended,
    differences,
    override_problems,
    sets_something,
    settings,
    settings_of,
    settings_with,
    spec,
    spec_problems,
)
from .times import duration, milliseconds, moment_ms, timestamp
from .uris import disposition, import_row, refusal_rule, seed, seen_counts, seen_filter, story, waiting_uri
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
