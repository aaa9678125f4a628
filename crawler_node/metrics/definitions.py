"""The metrics of a node. docs/reference.md is written from this table."""

from toehold_base.observability.metrics import PROCESS, Across, Section, counter, gauge, histogram

_FETCH_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_STAGE_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, *_FETCH_S)
_CALL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

# Fetches.
FETCHES = counter(
    "toehold_node_fetches_total",
    "Leases that toes are done with, by purpose (`page`, `robots`) and status: HTTP's, or Heritrix' code "
    "below zero for an error. `other` has the HTTP statuses that no standard names.",
    "purpose",
    "status",
)
FETCH_SECONDS = histogram(
    "toehold_node_fetch_duration_seconds",
    "Time of a fetch, from the look-up of the name to the last byte. Each redirect of a robots.txt is "
    "one more.",
    "purpose",
    buckets=_FETCH_S,
)
STAGE_SECONDS = histogram(
    "toehold_node_stage_duration_seconds",
    "Time of a stage of a page: `resolve`, `connect`, `tls`, `head` (from the request to the end of the "
    "answer's head), `body`, `extract`, `write`; and `sync`, which makes the pages of a batch durable.",
    "stage",
    buckets=_STAGE_S,
)
RECEIVED = counter(
    "toehold_node_received_bytes_total", "Bytes that servers sent, heads included, inside TLS."
)
CONNECTIONS = counter(
    "toehold_node_connections_total",
    "Requests by their connection: a `new` one, or one that was `kept` by an earlier request.",
    "use",
)
HANDSHAKES = counter("toehold_node_tls_handshakes_total", "TLS handshakes of new connections.")
FAILURES = counter(
    "toehold_node_page_failures_total", "Pages of which an `extractor` or the `hook` failed.", "part"
)

# Toes and leases.
TOES = gauge("toehold_node_toes", "Toe threads, by the step that they are at.", "step")
POOL_SIZE = gauge("toehold_node_toes_wanted", "Toe threads that there should be.")
TOES_DIED = counter("toehold_node_toes_died_total", "Toe threads that died of an error, and were replaced.")
TOES_KILLED = counter("toehold_node_toes_killed_total", "Toe threads that an operator killed.")
TOES_LEFT = counter(
    "toehold_node_toes_left_behind_total", "Toe threads that did not end, and were left behind."
)
LEASES = gauge(
    "toehold_node_leases",
    "Leases held: `queued` for a toe, `started`, or `done` and not settled with the frontier yet.",
    "stage",
)
UNREPORTED = gauge(
    "toehold_node_reports_waiting", "Leases that wait for their report, those that go back included."
)
OUTBOX = gauge(
    "toehold_node_outbox_pages",
    "Finished pages among these whose links, or whose report, wait for a shard of the frontier that is away.",
)
DRAINING = gauge("toehold_node_draining", "1 while the node ends.", across=Across.MOST)

# The frontier.
CALLS = counter(
    "toehold_node_frontier_calls_total",
    "Calls of the frontier by outcome: `answered`; `unavailable` without an answer; `busy`, `refused`, "
    "`crawl_over`, `superseded` and `failed` by the frontier; `abandoned` by the node; `broken` by a defect.",
    "method",
    "outcome",
)
CALL_SECONDS = histogram(
    "toehold_node_frontier_call_duration_seconds",
    "Time of a call. `Next` waits for leases.",
    "method",
    buckets=_CALL_S,
)
SILENT = gauge(
    "toehold_node_frontier_silent_seconds",
    "Time since the frontier last answered; before its first answer, since the node started.",
    across=Across.MOST,
)

# Output.
WARC_RECORDS = counter("toehold_node_warc_records_total", "WARC records of pages.")
WARC_BYTES = counter("toehold_node_warc_written_bytes_total", "Bytes of these records, compressed.")
WARC_FILES = counter("toehold_node_warc_files_total", "WARC files that were begun.")
OUTPUT_FAILING = gauge(
    "toehold_node_output_failing",
    "1 while output cannot be written; the node takes no leases then.",
    across=Across.MOST,
)
DISK_FREE = gauge(
    "toehold_node_disk_free_bytes", "Free space where the node writes.", "directory", across=Across.LEAST
)
DISK_RESERVE = gauge(
    "toehold_node_disk_reserve_bytes", "With less free space the node takes no leases.", across=Across.MOST
)

# Processes.
WORKERS = gauge(
    "toehold_node_workers",
    "Processes of the node that tell their metrics (`answering`) or do not (`silent`).",
    "state",
)
RESTARTS = counter("toehold_node_worker_restarts_total", "Processes that the supervisor replaced.")
BUILD_INFO = gauge(
    "toehold_node_build_info", "1. The label tells the version.", "version", across=Across.MOST
)

READ = (
    TOES,
    POOL_SIZE,
    TOES_DIED,
    TOES_KILLED,
    TOES_LEFT,
    LEASES,
    UNREPORTED,
    OUTBOX,
    DRAINING,
    SILENT,
    WARC_RECORDS,
    WARC_BYTES,
    WARC_FILES,
    OUTPUT_FAILING,
    DISK_FREE,
    DISK_RESERVE,
    WORKERS,
    RESTARTS,
    BUILD_INFO,
)

SECTIONS = (
    Section("fetches", (FETCHES, FETCH_SECONDS, STAGE_SECONDS, CONNECTIONS, HANDSHAKES, RECEIVED, FAILURES)),
    Section(
        "toes and leases",
        (TOES, POOL_SIZE, TOES_DIED, TOES_KILLED, TOES_LEFT, LEASES, UNREPORTED, OUTBOX, DRAINING),
    ),
    Section("calls of the frontier", (CALLS, CALL_SECONDS, SILENT)),
    Section("output", (WARC_RECORDS, WARC_BYTES, WARC_FILES, OUTPUT_FAILING, DISK_FREE, DISK_RESERVE)),
    Section("processes", (WORKERS, RESTARTS, BUILD_INFO)),
    PROCESS,
)
