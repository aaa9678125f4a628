"""Whether a node is there, and since when it is not."""

from __future__ import annotations

from toehold.frontier.v1.admin_pb2 import Node, NodePresence
from toehold_client.cli.presence import LOST, PRESENT, absence_text

from .look import Look, seconds_until

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


def absence(look: Look, node: Node) -> str:
    """`silent for 12 s`, `lost 3 min ago`; empty for a node that is there."""
    return absence_text(presence(look, node), silent_s(look, node), look.lease_s)
