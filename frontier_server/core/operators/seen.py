"""The seen-set of a crawl that keeps its URIs: listed and counted."""

from ..journey.kept import KEY_BYTES, Choice, Kept, SeenFilter
from ..opening.shard import Shard
from ..rows.errors import InvalidRequest
from ..state.crawl import Crawl
from ..state.model import SeenCounts, UriState, UriStory
from ..state.operation import Operation
from ..uri.canonical import canonical
from .story import find

ROWS_PER_PAGE = 10_000  # that a page may look at
ROWS_PER_COUNT = 2_000


def seen_page(
    op: Operation, shard: Shard, crawl: Crawl, wanted: SeenFilter, size: int, cursor: bytes
) -> tuple[list[UriStory], bytes]:
    """Stories of seen URIs, and the next cursor."""
    if cursor and len(cursor) != KEY_BYTES:
        raise InvalidRequest(
            "page_token does not belong to ListSeenUris; leave it out to begin again", field="page_token"
        )
    choice = Choice(op.tx, crawl, wanted)
    stories: list[UriStory] = []
    left = ROWS_PER_PAGE
    while left > 0 and len(stories) < size:
        chosen, following, read = choice.after(cursor, min(left, size))
        for each in chosen:
            stories.append(find(op, shard, crawl, canonical(each.row.uri)).story)
            if len(stories) == size and each is not chosen[-1]:
                return stories, each.key[4:]
        if not following:
            return stories, b""
        left -= read
        cursor = following
    return stories, cursor


def count_slice(op: Operation, crawl: Crawl, wanted: SeenFilter, cursor: bytes) -> tuple[SeenCounts, bytes]:
    """Counts of some of the seen URIs, by their state, and where to continue."""
    chosen, following, _ = Choice(op.tx, crawl, wanted).after(cursor, ROWS_PER_COUNT)
    states = [_state(op, crawl, each) for each in chosen]
    counts = SeenCounts(*(states.count(state) for state in UriState if state is not UriState.NEVER_SEEN))
    return counts, following


def _state(op: Operation, crawl: Crawl, each: Kept) -> UriState:
    seen = each.seen
    if seen.future_ms:
        return UriState.FUTURE
    if not seen.position:
        return UriState.DONE
    queue = crawl.queues.active.get(each.key[4:12] + seen.queue)  # only active queues have URIs out
    return UriState.LEASED if queue is not None and seen.position in queue.out else UriState.QUEUED
