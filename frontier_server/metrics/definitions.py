"""The metrics of the frontier. docs/reference.md is written from this table."""

from toehold_base.observability.metrics import PROCESS, Section, counter, gauge, histogram

MAX_CRAWLS = 200  # with a label of their own
OTHERS = "(others)"  # their label; no crawl can have this name

_FAST_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_CALL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

# RPCs.
RPCS = counter(
    "toehold_frontier_rpcs_total",
    "Calls that have ended, by RPC and gRPC status code. `UNKNOWN` counts defects, `CANCELLED` also "
    "callers whose deadline passed.",
    "method",
    "code",
)
RPC_SECONDS = histogram(
    "toehold_frontier_rpc_duration_seconds",
    "Time from a call's arrival to its answer. `Next` waits for leases; calls that stream their answers "
    "are left out.",
    "method",
    buckets=_CALL_S,
)
RPCS_OPEN = gauge("toehold_frontier_rpcs_open", "Calls without an answer so far, and open streams.", "method")
MESSAGES = counter(
    "toehold_frontier_stream_messages_sent_total", "Messages of streams that were handed to gRPC.", "method"
)
REFUSED = counter(
    "toehold_frontier_rpcs_refused_early_total",
    "Calls that were refused before their request was decoded, by the reason that callers get. The calls "
    "count in `toehold_frontier_rpcs_total`, too.",
    "reason",
)

# Crawls.
CRAWL_STATE = gauge(
    "toehold_frontier_crawl_state",
    "1 for the state that the crawl is in, 0 for the others. For the crawls summed up: how many are in it.",
    "crawl",
    "state",
)
CRAWL_PROBLEM = gauge(
    "toehold_frontier_crawl_has_problem",
    "1 if a problem led to the crawl's state: it was paused because of one, or ended.",
    "crawl",
)
DISCOVERED = counter("toehold_frontier_crawl_uris_discovered_total", "URIs taken in.", "crawl")
DISPOSITIONS = counter(
    "toehold_frontier_crawl_dispositions_total",
    "Decisions on reported URIs: `succeeded`, `failed` and `disregarded` are final, `deferred` URIs are "
    "tried again.",
    "crawl",
    "disposition",
)
VERDICTS = counter(
    "toehold_frontier_crawl_verdicts_total", "Answers to candidates of `Schedule`.", "crawl", "verdict"
)
STATUSES = counter(
    "toehold_frontier_crawl_final_statuses_total",
    "URIs with a final disposition, by their last fetch status: HTTP's, or Heritrix' code below zero. "
    "`other` has the HTTP statuses that no standard names.",
    "crawl",
    "status",
)
RELOCATED = counter(
    "toehold_frontier_crawl_uris_relocated_total",
    "URIs moved to another queue when their turn came.",
    "crawl",
)
NOTED = counter("toehold_frontier_crawl_uris_noted_total", "URIs noted as seen without a lease.", "crawl")
ROBOTS_FETCHES = counter(
    "toehold_frontier_crawl_robots_fetches_total", "Reported fetches of robots.txt.", "crawl"
)
BYTES = counter(
    "toehold_frontier_crawl_fetched_bytes_total", "Bytes of the bodies of URIs that succeeded.", "crawl"
)
NOVEL_BYTES = counter(
    "toehold_frontier_crawl_novel_bytes_total",
    "The part of them that was new: from a first visit, or from a page that had changed.",
    "crawl",
)
LAPSES = counter("toehold_frontier_crawl_lapses_total", "Leases that lapsed.", "crawl")
LEASES = gauge("toehold_frontier_crawl_leases", "Leases out.", "crawl")
URIS = gauge(
    "toehold_frontier_crawl_uris",
    "URIs that wait: `queued` in queues (`ineligible` ones among them, where a queue may not be used), "
    "`future` for their time; `retired` ones are kept and not counted as queued.",
    "crawl",
    "place",
)
QUEUES = gauge("toehold_frontier_crawl_queues", "Work queues, by state.", "crawl", "state")
DEEPEST = gauge(
    "toehold_frontier_crawl_deepest_queue_uris",
    "URIs in the largest queue that changed since the frontier started. For the crawls summed up: in the "
    "largest of all.",
    "crawl",
)
EVENTS = counter("toehold_frontier_crawl_events_total", "Events of the crawl, as in its job.log.", "crawl")

# The frontier as a whole.
CRAWLS_TORN_DOWN = gauge(
    "toehold_frontier_crawls_torn_down", "Crawls that were torn down; they have no other metrics."
)
LEASES_OUT = gauge("toehold_frontier_leases", "Leases out, of all crawls.")
HOSTS_RESTING = gauge(
    "toehold_frontier_hosts_resting",
    "Hosts and groups of hosts that may not be asked now; of those in memory, where hosts whose queues "
    "sleep on disk are not.",
)
HOSTS = gauge("toehold_frontier_hosts", "Hosts and groups of hosts in memory.")
NODES = gauge("toehold_frontier_nodes", "Nodes seen within a day, by presence.", "presence")
WAITING_NEXT = gauge("toehold_frontier_next_waiting", "Calls of `Next` that wait for leases.")

# The server.
FLUSH = histogram(
    "toehold_frontier_flush_duration_seconds",
    "Time to make all writes so far durable: the sync of the store's log, and the writing of events to "
    "job logs.",
    buckets=_FAST_S,
)
COMMIT = histogram(
    "toehold_frontier_commit_duration_seconds",
    "Time to write the changes of an operation to the store, stalls included.",
    buckets=(0.00001, 0.000025, 0.00005, 0.0001, 0.00025, *_FAST_S),
)
AWAITING_FLUSH = gauge("toehold_frontier_flush_waiting", "Answers that wait for a flush.")
LOOP_LAG = histogram(
    "toehold_frontier_event_loop_lag_seconds",
    "How much later than asked for the event loop came to a task, tried four times a second.",
    buckets=_FAST_S,
)
DISK_FREE = gauge("toehold_frontier_disk_free_bytes", "Free space on the disk of the data directory.")
DISK_RESERVE = gauge("toehold_frontier_disk_reserve_bytes", "With less free space crawls are paused.")
BUILD_INFO = gauge(
    "toehold_frontier_build_info", "1. The labels tell the version, and the kind of core.", "version", "core"
)

# Shards, if there are several.
SHARD_PRESENT = gauge(
    "toehold_frontier_shard_present", "1 for a shard that answers, 0 for one that is away.", "shard"
)
SHARD_QUEUED = gauge(
    "toehold_frontier_shard_queued_uris", "URIs in its queues, those that are out at nodes included.", "shard"
)
SHARD_LEASES = gauge("toehold_frontier_shard_leases", "Leases out.", "shard")
SHARD_FINISHED = counter("toehold_frontier_shard_fetches_total", "Fetches that were reported to it.", "shard")
SHARD_CPU = counter("toehold_frontier_shard_cpu_seconds_total", "CPU time of its process.", "shard")
SHARD_MEMORY = gauge("toehold_frontier_shard_resident_bytes", "Memory of its process.", "shard")
SHARD_PARKED = gauge(
    "toehold_frontier_shard_parked_links", "Links of other shards' pages that wait until it is back.", "shard"
)
SHARD_STORE = gauge("toehold_frontier_shard_store_bytes", "Size of its store on disk.", "shard")

# The logs of the stores, with --log. The label is the number of the shard, or `coordinator`.
LOG_APPENDS = counter(
    "toehold_frontier_log_appends_total",
    "Records appended, those of replicas left out. These, as `…append_seconds_total` and `…requests_total`, "
    "count from the start of the shard's process.",
    "shard",
)
LOG_APPEND_SECONDS = counter(
    "toehold_frontier_log_append_seconds_total", "The time that this took. All answers wait for it.", "shard"
)
LOG_APPEND_QUANTILE = gauge(
    "toehold_frontier_log_append_quantile_seconds",
    "This share (`0.99`) of the last thousand appends took so long at most.",
    "shard",
    "quantile",
)
LOG_TAIL_ROWS = gauge(
    "toehold_frontier_log_tail_rows",
    "Rows that a start on another machine replays once it has the replica.",
    "shard",
)
LOG_TAIL_RECORDS = gauge("toehold_frontier_log_tail_records", "The records that it reads for that.", "shard")
LOG_EPOCH = gauge(
    "toehold_frontier_log_epoch",
    "Another number, a higher one, after each start: `changes()` counts how often the shard was taken over.",
    "shard",
)
LOG_RESTORED = gauge(
    "toehold_frontier_log_restored",
    "1 if the shard's process found no store of use, and restored it from replica and log; 0 if not.",
    "shard",
)
LOG_WAITING = gauge(
    "toehold_frontier_log_waiting_seconds",
    "How long the flush that is under way has waited for the log's storage; 0 if there is none.",
    "shard",
)
LOG_REPLICA_AGE = gauge(
    "toehold_frontier_log_replica_age_seconds",
    "Time since the last replica. It is made when the tail is long, or after ten minutes if there is one.",
    "shard",
)
LOG_REQUESTS = counter(
    "toehold_frontier_log_requests_total",
    "Requests to the bucket (`get`, `put`, `list`, `delete`), a file counted as one. Those by which machines "
    "find each other are left out.",
    "shard",
    "kind",
)

# RocksDB.
BUFFER_BYTES = gauge("toehold_frontier_rocksdb_memtable_bytes", "Memory of memtables.")
BUFFERS_WAITING = gauge(
    "toehold_frontier_rocksdb_immutable_memtables", "Full memtables, not written to files yet."
)
STOPPED = gauge("toehold_frontier_rocksdb_write_stopped", "1 while RocksDB takes no writes.")
DELAYED = gauge(
    "toehold_frontier_rocksdb_delayed_write_bytes_per_second",
    "The rate that RocksDB slows writes down to; 0 if it does not.",
)
PENDING = gauge(
    "toehold_frontier_rocksdb_pending_compaction_bytes",
    "Bytes that compactions have yet to rewrite, an estimate.",
)
COMPACTIONS = gauge("toehold_frontier_rocksdb_running_compactions", "Compactions that run.")
FLUSHES = gauge("toehold_frontier_rocksdb_running_flushes", "Memtables that are being written to files.")
CACHE = gauge("toehold_frontier_rocksdb_block_cache_bytes", "Memory of cached reads.")
CACHE_LIMIT = gauge("toehold_frontier_rocksdb_block_cache_limit_bytes", "The most that it may take.")
FILE_BYTES = gauge(
    "toehold_frontier_rocksdb_sst_bytes", "Size of the tables, those that are about to go included."
)
FILES = gauge("toehold_frontier_rocksdb_sst_files", "Tables, by level.", "level")
BACKGROUND_ERRORS = counter(
    "toehold_frontier_rocksdb_background_errors_total", "Errors of flushes and compactions."
)

OF_CRAWLS = (
    CRAWL_STATE,
    CRAWL_PROBLEM,
    DISCOVERED,
    DISPOSITIONS,
    VERDICTS,
    STATUSES,
    RELOCATED,
    NOTED,
    ROBOTS_FETCHES,
    BYTES,
    NOVEL_BYTES,
    LAPSES,
    LEASES,
    URIS,
    QUEUES,
    DEEPEST,
    EVENTS,
)
READ = (AWAITING_FLUSH, DISK_FREE, DISK_RESERVE, BUILD_INFO, REFUSED)  # of the server, at a scrape
OF_ALL = (CRAWLS_TORN_DOWN, LEASES_OUT, HOSTS_RESTING, HOSTS, NODES, WAITING_NEXT)
OF_SHARDS = (
    SHARD_PRESENT,
    SHARD_QUEUED,
    SHARD_LEASES,
    SHARD_FINISHED,
    SHARD_CPU,
    SHARD_MEMORY,
    SHARD_STORE,
    SHARD_PARKED,
)
OF_LOGS = (
    LOG_APPENDS,
    LOG_APPEND_SECONDS,
    LOG_APPEND_QUANTILE,
    LOG_TAIL_ROWS,
    LOG_TAIL_RECORDS,
    LOG_EPOCH,
    LOG_RESTORED,
    LOG_WAITING,
    LOG_REPLICA_AGE,
    LOG_REQUESTS,
)
OF_STORE = (
    BUFFER_BYTES,
    BUFFERS_WAITING,
    STOPPED,
    DELAYED,
    PENDING,
    COMPACTIONS,
    FLUSHES,
    CACHE,
    CACHE_LIMIT,
    FILE_BYTES,
    FILES,
    BACKGROUND_ERRORS,
)

SECTIONS = (
    Section("RPCs", (RPCS, RPC_SECONDS, RPCS_OPEN, MESSAGES, REFUSED)),
    Section("crawls", OF_CRAWLS),
    Section("leases, hosts and nodes", OF_ALL),
    Section("server", (FLUSH, COMMIT, AWAITING_FLUSH, LOOP_LAG, DISK_FREE, DISK_RESERVE, BUILD_INFO)),
    Section("shards, if there are several", OF_SHARDS),
    Section("logs of the shards, with `--log`", OF_LOGS),
    Section("RocksDB", OF_STORE),
    PROCESS,
)
