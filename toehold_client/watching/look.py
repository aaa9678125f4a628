"""One look at a crawl: all that a display shows, as it was at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.admin_pb2 import Crawl, Job, Node, Shard, WorkQueue
from toehold.frontier.v1.crawl_pb2 import CrawlState, CrawlStatus, Statistics
from toehold_client.events import Event
from toehold_client.spec.plain import seconds_of, to_plain
from toehold_client.text import LIMITS, counted, remaining_text

from .crawl_log import LoggedPage
from .seeds import Seeds

_PROBLEMS = frozenset(("problem", "flights_cancelled", "limit_reached", "uris_left"))


@dataclass(frozen=True, slots=True)
class Look:
    """A crawl at one moment, by the frontier's clock (`statistics.snapshot_time`)."""

    address: str
    """The frontier's address."""
    crawl: Crawl
    """Its description; only its spec is newer than its beginning."""
    status: CrawlStatus
    statistics: Statistics
    why: str
    """Why it is not going faster, or not at all; in one line."""
    lease_s: float = 30.0
    """How long a node may be silent before its leases lapse."""
    history: Sequence[float] = ()
    """Pages per second over the last minutes, the latest last."""
    seeds: Seeds = field(default_factory=Seeds)
    """The first seeds, as they were some seconds ago at most."""
    nodes: Sequence[Node] = ()
    """The latest seen first."""
    sees_nodes: bool = True
    """Whether whoever looks may see the nodes. A caller who is bound to some crawls may not."""
    shards: Sequence[Shard] = ()
    """Those of a frontier that has several, as far as whoever looks may see them."""
    jobs: Sequence[Job] = ()
    """Those that have not ended."""
    slowest: Sequence[WorkQueue] = ()
    largest: Sequence[WorkQueue] = ()
    problems: Sequence[Event] = ()
    """The latest last."""
    pages: Sequence[LoggedPage] = ()
    """The pages of the crawl log that were fetched last, the latest last."""
    away: str = ""
    """Why the frontier does not answer now; empty if it does. All the rest is as it was last."""
    away_s: float = 0.0
    """For how long."""
    waiting_in: str = ""
    """The directory in which the crawl is paused, so that no frontier runs; empty while one does."""
    due: bool = True
    """Whether its time had come. If not, an event called for it."""

    @property
    def ended(self) -> bool:
        """Whether nothing will happen to it any more."""
        status = self.status
        if status.state != CrawlState.CRAWL_STATE_FINISHED:
            return False
        return status.torn_down or not status.tearing_down


def is_problem(event: Event) -> bool:
    """Whether an event concerns whoever looks after the crawl."""
    kind = event.WhichOneof("kind")
    return kind in _PROBLEMS or (kind == "node_left" and event.node_left.reason == "silent")


def seconds_until(statistics: Statistics, moment: Timestamp) -> float:
    """How long after the statistics a moment is; negative if it was before."""
    return (moment.ToNanoseconds() - statistics.snapshot_time.ToNanoseconds()) / 1e9


def time_left(statistics: Statistics) -> str:
    """`1 to 3 h left`, `about 22 min left (a.example last)`, `about 45 s to the page limit, which leaves 995
    URLs`; empty if nothing allows an estimate."""
    if not statistics.HasField("remaining_max_duration"):
        return ""
    least, most = statistics.remaining_min_duration, statistics.remaining_max_duration
    limit = LIMITS.get(statistics.remaining_limit)
    if limit:
        text = remaining_text(seconds_of(least), seconds_of(most), f"to the {limit}")
        return f"{text}, which leaves {counted(statistics.remaining_uri_count, 'URL')}"
    last = f" ({statistics.remaining_host} last)" if statistics.remaining_host else ""
    return remaining_text(seconds_of(least), seconds_of(most)) + last


def to_record(look: Look) -> dict[str, Any]:
    """A look for programs."""
    return {
        "crawl": look.crawl.crawl,
        "frontier": look.address,
        "away": {"error": look.away, "seconds": round(look.away_s, 3)} if look.away else None,
        "waiting_in": look.waiting_in or None,
        "status": to_plain(look.status),
        "why": look.why,
        "statistics": to_plain(look.statistics),
        "pages_per_second": [round(rate, 3) for rate in look.history],
        "troubled_seeds": [to_plain(seed) for seed in look.seeds.troubled],
        "nodes": [to_plain(node) for node in look.nodes],
        **({"shards": [to_plain(shard) for shard in look.shards]} if look.shards else {}),
        "jobs": [to_plain(job) for job in look.jobs],
        "slowest_queues": [to_plain(queue) for queue in look.slowest],
        "largest_queues": [to_plain(queue) for queue in look.largest],
        "problems": [to_plain(event.message) for event in look.problems],
    }
