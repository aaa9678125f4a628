"""Whatever is wrong with a crawl now, in sentences, and which problems that events told of still are."""

from collections.abc import Iterator
from dataclasses import dataclass

from toehold.frontier.v1.crawl_pb2 import CrawlState
from toehold_client.events import Event
from toehold_client.text import counted
from toehold_client.watching.presence import LOST, SILENT, absence, is_present, presence, silent_s

from .look import Look, seconds_until
from .seeds import seed_text
from .shards import absent_shards

NODES_START_S = 5.0
"""A crawl that has just begun, or gone on, does not miss its nodes yet."""

LAPSED = "lapsed"
"""The subject of lapsed leases. It is a count since the launch, so this trouble may long be over."""

NEWS_S = 600.0
"""A node that was lost longer ago is no news."""

_GOING_ON = frozenset(
    (
        CrawlState.CRAWL_STATE_PREPARING,
        CrawlState.CRAWL_STATE_RUNNING,
        CrawlState.CRAWL_STATE_EMPTY,
    )
)
"""The states of a crawl that somebody has resumed or reopened, if the problem was before."""

_REMARKS = {
    "hookFailed": "the hook or callback failed on {}",
    "extractorFailed": "an extractor failed on {}",
}
"""The nodes' remarks that are trouble, and how to say so."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong."""

    subject: str
    """The same as long as it is the same trouble, whatever its numbers."""
    text: str


def troubles(look: Look) -> Iterator[Trouble]:
    """All trouble but that of single seeds and absent nodes, the worst first."""
    yield from _no_node(look)
    for subject, text in absent_shards(look.shards):
        yield Trouble(f"{subject} away", text)
    for node in look.nodes:
        if node.rival_session:
            text = f"node {node.node}: two processes use this name; give each its own"
            yield Trouble(f"node {node.node} rival", text)
        for count, what in ((node.pool.died_count, "died"), (node.pool.abandoned_count, "left behind")):
            if count and is_present(look, node):
                text = f"node {node.node}: {counted(count, 'toe thread')} {what}"
                yield Trouble(f"node {node.node} {what}", text)
    for remark, words in _REMARKS.items():
        count = look.statistics.annotation_counts.get(remark, 0)
        if count:
            yield Trouble(remark, words.format(counted(count, "page")))
    if look.statistics.lapsed_count:
        lapsed = counted(look.statistics.lapsed_count, "lease")
        yield Trouble(LAPSED, f"{lapsed} lapsed, because nodes fell silent; the URIs are fetched again")


def lasting(look: Look) -> list[Event]:
    """The problems that events told of and that are not over, as far as the look tells; the latest last."""
    return [event for event in look.problems if not _is_over(look, event)]


def _is_over(look: Look, event: Event) -> bool:
    """Whether what an event told of has been mended meanwhile, or replaced by something later."""
    spec, state, statistics = look.crawl.spec, look.status.state, look.statistics
    goes_on = (
        state in _GOING_ON and look.status.reach_time.ToNanoseconds() >= event.event_time.ToNanoseconds()
    )
    match event.kind:
        case "limit_reached":
            limit = event.limit_reached
            now = {"max_documents": spec.limits.max_documents, "max_bytes": spec.limits.max_bytes}.get(
                limit.limit, spec.limits.max_elapsed.ToMilliseconds()
            )
            return goes_on or now != limit.value
        case "uris_left":
            return not (statistics.retired_uri_count or statistics.ineligible_uri_count)
        case "node_left":
            return any(node.node == event.node_left.node and is_present(look, node) for node in look.nodes)
        case "problem" if event.problem.kind == "robots-ignored":
            return spec.robots.policy != "ignore"
        case "problem" if event.problem.kind == "node-name":
            return look.sees_nodes and not any(node.rival_session for node in look.nodes)
        case "problem" if event.problem.kind == "clock":
            return False  # it does not pause a crawl
        case _:
            return goes_on


def absences(look: Look) -> Iterator[Trouble]:
    """The nodes that should be there."""
    for node in look.nodes:
        found = presence(look, node)
        if found in (SILENT, LOST) and silent_s(look, node) < NEWS_S:
            yield Trouble(f"node {node.node} {found}", f"node {node.node}: {absence(look, node)}")


def seed_troubles(look: Look) -> Iterator[Trouble]:
    """The seeds that were answered with an error, or not at all, also if they will be tried again."""
    for seed in look.seeds.troubled:
        yield Trouble(f"seed {seed.uri} {seed.result}", f"seed {seed_text(seed)}")


def _no_node(look: Look) -> Iterator[Trouble]:
    runs = look.status.state == CrawlState.CRAWL_STATE_RUNNING and not look.away and look.sees_nodes
    runs_s = -seconds_until(look.statistics, look.status.reach_time)
    if runs and runs_s >= NODES_START_S and not any(is_present(look, node) for node in look.nodes):
        kind = look.crawl.spec.fetcher
        missing = f"no fetcher of kind {kind}" if kind else "no node"
        yield Trouble("no node", f"{missing} is there, so nothing is fetched")
