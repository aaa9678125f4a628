"""Whether a node is there, and since when it is not."""

from __future__ import annotations

from toehold.frontier.v1.admin_pb2 import Node, NodePresence
from toehold_client.cli.text import rough_text

from .look import Look, seconds_until

PRESENT = NodePresence.NODE_PRESENCE_PRESENT
SILENT = NodePresence.NODE_PRESENCE_SILENT
LOST = NodePresence.NODE_PRESENCE_LOST
LEFT = NodePresence.NODE_PRESENCE_LEFT
_UNSPECIFIED = NodePresence.NODE_PRESENCE_UNSPECIFIED


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


def absence_text(look: Look, node: Node) -> str:
    """`silent for 12 s`, `lost 3 min ago`, `left 2 h ago`; empty for a node that is there.

    A node is lost once its leases have lapsed, a lease period after its last call.
    """
    ago = rough_text(silent_s(look, node))
    match presence(look, node):
        case NodePresence.NODE_PRESENCE_SILENT:
            return f"silent for {ago}"
        case NodePresence.NODE_PRESENCE_LOST:
            return f"lost {rough_text(max(silent_s(look, node) - look.lease_s, 0.0))} ago"
        case NodePresence.NODE_PRESENCE_LEFT:
            return f"left {ago} ago"
        case _:
            return ""
