"""Whether the nodes of a frontier are there, in words."""

import re
import time
from collections.abc import Sequence

from toehold.frontier.v1.admin_pb2 import GetFrontierResponse, Node, NodePresence
from toehold_client.spec.plain import seconds_of

from ..text import counted, rough_text
from .look import Look, seconds_until

PRESENT = NodePresence.NODE_PRESENCE_PRESENT
SILENT = NodePresence.NODE_PRESENCE_SILENT
LOST = NodePresence.NODE_PRESENCE_LOST
LEFT = NodePresence.NODE_PRESENCE_LEFT
_UNSPECIFIED = NodePresence.NODE_PRESENCE_UNSPECIFIED

_PROCESS = re.compile(r"/[0-9]+\Z")


def team_of(name: str) -> str:
    """The node of which this may be a process: `north` for `north/2`."""
    return _PROCESS.sub("", name)


def is_gone(node: Node) -> bool:
    """Whether a node is lost or has left."""
    return node.presence in (LOST, LEFT)


def is_working(node: Node) -> bool:
    """Whether a node is there and takes leases. One that drains takes none."""
    return node.presence == PRESENT and not node.draining


def presence_text(node: Node, answer: GetFrontierResponse, now_s: float | None = None) -> str:
    """`present`, `present, drains`, or its absence; `-` if the frontier is too old to say."""
    if node.presence == PRESENT:
        return "present, drains" if node.draining else "present"
    seen_s = node.last_seen_time.ToNanoseconds() / 1e9
    ago_s = max((time.time() if now_s is None else now_s) - seen_s, 0.0)
    return absence_text(node.presence, ago_s, seconds_of(answer.lease_duration)) or "-"


def absence_text(presence: NodePresence.ValueType, silent_s: float, lease_s: float) -> str:
    """`silent for 12 s`, `lost 3 min ago`, `left 2 h ago`; empty for a node that is there.

    A node is lost once its leases have lapsed, a lease period after its last call.
    """
    if presence == SILENT:
        return f"silent for {rough_text(silent_s)}"
    if presence == LOST:
        return f"lost {rough_text(max(silent_s - lease_s, 0.0))} ago"
    return f"left {rough_text(silent_s)} ago" if presence == LEFT else ""


def summary(nodes: Sequence[Node]) -> str:
    """`2 nodes work, with 31 toe threads; 1 drains, 1 is silent.` Only those that work count as nodes."""
    working = [node for node in nodes if is_working(node)]
    verb = "works" if len(working) == 1 else "work"
    toes = counted(sum(map(toe_count, working)), "toe thread")
    sentence = f"{counted(len(working), 'node')} {verb}, with {toes}" if working else "No node works"
    counts = {
        ("drains", "drain"): sum(node.presence == PRESENT and node.draining for node in nodes),
        ("is silent", "are silent"): sum(node.presence == SILENT for node in nodes),
        ("is lost", "are lost"): sum(node.presence == LOST for node in nodes),
        ("left", "left"): sum(node.presence == LEFT for node in nodes),
    }
    others = [f"{count} {one if count == 1 else many}" for (one, many), count in counts.items() if count]
    return f"{sentence}; {', '.join(others)}." if others else f"{sentence}."


def toe_count(node: Node) -> int:
    """How many toe threads a node has now: none unless it is there."""
    if node.presence != PRESENT:
        return 0
    return node.pool.alive_count if node.HasField("pool") else sum(each.count for each in node.toe_steps)


def rival_warning(node: Node) -> str:
    """Tells that two processes use one name, and what to do."""
    return (
        f"Warning: two processes use the name {node.node!r}, so the frontier refuses one of them (session "
        f"{node.rival_session}). End one, or restart it with another --name."
    )


def presence(look: Look, node: Node) -> NodePresence.ValueType:
    """What the frontier says, or, if it is too old to say, what the time of the last call says."""
    if node.presence != _UNSPECIFIED:
        return node.presence
    return LOST if silent_s(look, node) > look.lease_s else PRESENT


def is_present(look: Look, node: Node) -> bool:
    """Whether it is there, with its toe threads."""
    return presence(look, node) == PRESENT


def silent_s(look: Look, node: Node) -> float:
    """How long ago it last called."""
    return max(-seconds_until(look.statistics, node.last_seen_time), 0.0)


def absence(look: Look, node: Node) -> str:
    """`silent for 12 s`, `lost 3 min ago`; empty for a node that is there."""
    return absence_text(presence(look, node), silent_s(look, node), look.lease_s)
