"""Which nodes fetch for a crawl: joined with a lease, and gone as they say, by silence, or replaced."""

from core_doubles.model.things import Crawl, Model, Node

SILENT_PERIODS = 2


def joined(crawl: Crawl, node: str, session: str) -> None:
    """A node got a lease of a crawl."""
    if node in crawl.nodes:
        assert crawl.nodes[node] == session, f"{node} got a lease beside its other session"
        return
    crawl.nodes[node] = session
    crawl.events.append(("node_joined", node, session))


def heard(model: Model, node: str, session: str) -> None:
    """A node showed itself, perhaps with another session than before."""
    known = model.nodes.get(node)
    model.nodes[node] = Node(session, model.now_ms)
    if known is not None and known.session != session:
        model.superseded.add((node, known.session))
        look_everywhere(model)


def left(model: Model, node: str) -> None:
    """A node said that it ends."""
    model.nodes[node].gone = "left"
    look_everywhere(model)


def silence_ms(model: Model) -> list[int]:
    """When nodes will be taken to be gone, if they are not heard until then."""
    return [
        node.last_seen_ms + SILENT_PERIODS * model.period_ms
        for node in model.nodes.values()
        if node.last_seen_ms is not None and not node.gone
    ]


def fall_silent(model: Model) -> None:
    """Nodes that were not heard for long are taken to be gone."""
    for node in model.nodes.values():
        if (
            node.last_seen_ms is not None
            and node.last_seen_ms + SILENT_PERIODS * model.period_ms <= model.now_ms
        ):
            node.gone = node.gone or "silent"
    look_everywhere(model)


def look_everywhere(model: Model) -> None:
    """Crawls note which nodes have left."""
    for crawl in model.crawls.values():
        reconcile(model, crawl)


def reconcile(model: Model, crawl: Crawl) -> None:
    """A crawl notes which nodes have left; one that is held does so when it is released."""
    if crawl.held:
        return
    for name, session in list(crawl.nodes.items()):
        node = model.nodes[name]
        gone = node.gone if node.session == session else "replaced"
        if gone:
            del crawl.nodes[name]
            crawl.events.append(("node_left", name, session, gone))


def restarted(model: Model) -> None:
    """Nodes that fetch for crawls seem to be there, those with leases are known; sessions stay."""
    fetch = {name for crawl in model.crawls.values() for name in crawl.nodes}
    known = fetch | {lease.node for lease in model.leases.values()}
    model.nodes = {
        name: Node(node.session, model.now_ms if name in fetch else None)
        for name, node in model.nodes.items()
        if name in known
    }
