"""The operators' requests on crawler nodes: list them, drain them, size their toe pools."""

from dataclasses import replace

from ..opening import opening
from ..opening.shard import ANY_NODE, Shard
from ..rows import errors
from ..rows.store import Changes
from ..state.model import MAX_NODE_CHARACTERS, NodeView
from ..state.nodes import MAX_NODES

MAX_TOES = 10_000


class Nodes:
    """The nodes of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def listed(self, now_ms: int) -> list[NodeView]:
        """The known nodes; the node that was last seen most recently comes first."""
        shard = self._shard
        nodes = shard.leases.nodes.views(max(now_ms, shard.now_ms))
        return [replace(view, pool_size=shard.pool_size_of(view.node)) for view in nodes]

    @property
    def leases_out(self) -> int:
        """How many leases of all crawls are out."""
        return len(self._shard.leases)

    def drain(self, node: str, now_ms: int, by: str = "") -> tuple[None, Changes]:
        """Let a node's present session end. The answer to its next heartbeat tells it."""
        asked = self._shard.leases.nodes.drain(node)
        op = self._shard.begin(now_ms)
        if asked:
            attended = self._shard.attended_by(node)
            self._shard.sweep(
                op,
                f"drain {node}",
                attended,
                lambda op, crawl: op.acted(crawl, by, "drain-node", node),
            )
        return None, self._shard.end(op)

    def forget(self, node: str, now_ms: int) -> tuple[None, Changes]:
        """Leave a node that is not there out of listings. Raises UnknownNode or NodePresent."""
        op = self._shard.begin(now_ms)
        self._shard.leases.nodes.forget(node, op.now_ms)
        self._shard.sessions.hide(op.tx, node)
        return None, self._shard.end(op)

    def set_pool_size(self, node: str, size: int | None, now_ms: int, by: str = "") -> tuple[None, Changes]:
        """Set how many toe threads a node should have, or each node without a size of its own (ANY_NODE)."""
        if size is not None and not 0 <= size <= MAX_TOES:
            raise errors.InvalidRequest(f"size must be between 0 and {MAX_TOES}, got {size}", field="size")
        if len(node) > MAX_NODE_CHARACTERS:
            raise errors.InvalidRequest(
                f"node must have at most {MAX_NODE_CHARACTERS} characters, got {len(node)}", field="node"
            )
        sizes = self._shard.server.pool_sizes
        names = sizes.keys() - {ANY_NODE, node}
        if size is not None and node != ANY_NODE and len(names) >= MAX_NODES:
            raise errors.InvalidRequest(
                f"at most {MAX_NODES} nodes can have a size of their own; reset some first", field="node"
            )
        op = self._shard.begin(now_ms)
        if size is None:
            sizes.pop(node, None)
        else:
            sizes[node] = size
        opening.put_server_row(op.tx, self._shard.server)
        told = f"{node or 'all nodes'}: {'default' if size is None else size}"
        self._shard.sweep(
            op,
            f"resize {told}",
            self._shard.started(),
            lambda op, crawl: op.acted(crawl, by, "resize-pool", told),
        )
        return None, self._shard.end(op)
