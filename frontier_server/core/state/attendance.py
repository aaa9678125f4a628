"""Records which nodes fetch for a crawl. A node joins a crawl with its first lease of it.

It leaves when it says so, when it has been silent for a while, or when another session takes its name. A
crawl that has finished has no nodes.
"""

from .crawl import Crawl
from .leases import LeaseTable
from .nodes import MAX_NODES
from .operation import Operation


def join(op: Operation, crawl: Crawl, node: str, session: str) -> None:
    """Note a node that has a lease of a crawl."""
    nodes = crawl.state_row.nodes
    known = nodes.get(node)
    if known == session or (known is None and len(nodes) >= MAX_NODES):
        return
    if known is not None:
        _leave(op, crawl, node, known, "replaced")
    nodes[node] = session
    op.put_state(crawl)
    op.event(crawl, "node_joined", node=node, session=session)


def record_bound(op: Operation, crawl: Crawl) -> None:
    """Note that a caller who may act on some crawls only fetches for a crawl."""
    if not crawl.state_row.bound:
        crawl.state_row.bound = True
        op.put_state(crawl)


def reconcile(op: Operation, crawl: Crawl, leases: LeaseTable) -> None:
    """Note which nodes have left a crawl. A held crawl waits until it is released; one whose URIs are in
    other stores hears of its nodes from there."""
    if crawl.held or not crawl.has_uris:
        return
    for node, session in list(crawl.state_row.nodes.items()):
        why = leases.nodes.why_gone(node, session)
        if why:
            _leave(op, crawl, node, session, why)


def _leave(op: Operation, crawl: Crawl, node: str, session: str, reason: str) -> None:
    del crawl.state_row.nodes[node]
    op.put_state(crawl)
    op.event(crawl, "node_left", node=node, session=session, reason=reason)
