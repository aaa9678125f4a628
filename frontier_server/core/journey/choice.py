"""Queues shared by several hosts: URIs of other hosts pass a URI whose host must wait.

The URIs of each authority are in a lane (see `lanes`). Memory (`queue.Passing`) knows which lanes must wait,
and how long. The others have their turns in the order of their first URIs. So a turn costs a look at each
lane whose wait is over, whatever the number of URIs that wait.
"""

from collections.abc import Callable
from typing import NamedTuple

from ..rows.keys import LAST_POSITION
from ..rows.records import PendingUri
from ..state import lanes
from ..state.crawl import Crawl
from ..state.head import Head
from ..state.line import Awaited
from ..state.operation import Operation
from ..state.passing import HeldLane, Passing
from ..state.queue import WorkQueue

MAX_HELD = 10_000  # waiting authorities; with so many, the whole queue waits

MAX_LINES = 100  # that a queue waits in at once


class Wait(NamedTuple):
    """The wait of an authority: until a time, or for a busy host, group or robots.txt.

    The wait of a queue is for the first of all these.
    """

    until_ms: int  # 0 if only `busy` counts
    reason: str = ""
    busy: tuple[Awaited, ...] = ()


def choose(
    op: Operation,
    crawl: Crawl,
    queue: WorkQueue,
    read: Callable[[bytes, PendingUri], Head],
    wait_of: Callable[[Head], Wait | None],
    known_as: Callable[[str], Awaited | None],
    most: int,
) -> tuple[Head | None, Wait | None, int]:
    """Find the first URI that need not wait. Returns it, the wait if all wait, and how many were looked at.

    Both are None if `most` URIs were looked at without result: the next call goes on from there. `known_as`
    finds what lanes wait for by its name: they are looked at again only once a request of it has ended.
    """

    def ended_of(name: str) -> int:
        awaited = known_as(name)
        return -1 if awaited is None else awaited.ended

    passing = queue.passing
    if passing is None:
        passing = queue.passing = Passing(queue.row.start)
    passing.end_waits(op.now_ms, ended_of)
    looked = 0
    while looked < most and len(passing.held) < MAX_HELD:
        _meet_lanes(op, crawl, queue, passing)
        first = passing.first
        if first is None:
            break
        bound, lane = first
        found = lanes.first_free(op, crawl, queue, lane, bound)
        if found is None:
            passing.all_out(lane)
            continue
        position, pending = found
        if position != bound:
            passing.let_go(lane, position)
            continue
        looked += 1
        head = read(position, pending)
        wait = wait_of(head)
        if wait is None:
            if not passing.held:
                queue.passing = None
            return head, None, looked
        if wait.busy:
            passing.hold(lane, HeldLane(0, wait.reason, position, wait.busy[0].name), wait.busy[0].ended)
        else:
            passing.hold(lane, HeldLane(wait.until_ms, wait.reason, position))
    else:
        if looked == most:
            return None, None, looked
    wake = passing.next_wake
    busy = tuple([each for name in passing.busy(MAX_LINES) if (each := known_as(name)) is not None])
    return None, Wait(0, "", busy) if wake is None else Wait(wake.until_ms, wake.reason, busy), looked


def _meet_lanes(op: Operation, crawl: Crawl, queue: WorkQueue, passing: Passing) -> None:
    """Get to know all lanes whose first URIs are before that of the lane whose turn is next."""
    first = passing.first
    if passing.walked == LAST_POSITION or (first is not None and first[0] <= passing.walked):
        return
    for position, lane in lanes.in_order(op, crawl, queue, passing.walked):
        passing.walked = position
        if lane not in passing:
            passing.let_go(lane, position)
            return  # it is the first now: those that are known are behind it
        if first is not None and first[0] <= position:
            return
    passing.walked = LAST_POSITION
