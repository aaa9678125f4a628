"""Crawler nodes as operators see and ask them: listed, drained, their toe pools sized."""

from dataclasses import replace

from .. import errors, opening
from ..leases import MAX_NODES
from ..model import MAX_NODE_CHARACTERS, NodeView
from ..shard import ANY_NODE, Shard
from ..store import Changes

MAX_TOES = 10_000


class Nodes:
    """The nodes of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def listed(self) -> list[NodeView]:
        """The nodes heard of, the latest first."""
        shard = self._shard
        return [replace(view, pool_size=shard.pool_size_of(view.node)) for view in shard.leases.nodes()]

    @property
    def leases_out(self) -> int:
        """How many leases are out, of all crawls."""
        return len(self._shard.leases)

    def drain(self, node: str, now_ms: int, by: str = "") -> tuple[None, Changes]:
        """Let a node's present session end: it is told with its next heartbeat."""
        asked = self._shard.leases.drain(node)
        op = self._shard.begin(now_ms)
        for crawl in self._shard.crawls.values():
            if asked and node in crawl.state_row.nodes and not crawl.held:
                op.acted(crawl, by, "drain-node", node)
        return None, self._shard.end(op)

    def set_pool_size(self, node: str, size: int | None, now_ms: int, by: str = "") -> tuple[None, Changes]:
        """Set how many toe threads a node should have, or any that has no size of its own (ANY_NODE)."""
        if size is not None and not 0 <= size <= MAX_TOES:
            raise errors.InvalidRequest(f"size is {size}; 0 to {MAX_TOES} is possible", field="size")
        if len(node) > MAX_NODE_CHARACTERS:
            raise errors.InvalidRequest(
                f"node has {len(node)} characters; at most {MAX_NODE_CHARACTERS} are taken", field="node"
            )
        sizes = self._shard.server.pool_sizes
        names = sizes.keys() - {ANY_NODE, node}
        if size is not None and node != ANY_NODE and len(names) >= MAX_NODES:
            raise errors.InvalidRequest(
                f"{len(names)} nodes have sizes of their own; take some back", field="node"
            )
        op = self._shard.begin(now_ms)
        if size is None:
            sizes.pop(node, None)
        else:
            sizes[node] = size
        opening.put_server_row(op.tx, self._shard.server)
        told = f"{node or 'all nodes'}: {'default' if size is None else size}"
        for crawl in self._shard.registry.crawls.values():
            if crawl.state_row.running_since_ms:  # those that a pool works for
                op.acted(crawl, by, "resize-pool", told)
        return None, self._shard.end(op)
