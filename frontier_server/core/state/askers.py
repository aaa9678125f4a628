"""When fetchers last asked for leases, and the kinds that they offered."""

from .kinds import Kinds, serves

MAX_ASKERS = 1_000


class Askers:
    """Who asked for leases, and when: of one crawl, or of any."""

    def __init__(self) -> None:
        self.in_vain = False  # the frontier was opened read-only: it gives no leases
        # Node → when it last asked, and the kinds that it offered; the latest last.
        self._by: dict[str, tuple[int, Kinds]] = {}

    def note(self, node: str, kinds: Kinds, now_ms: int) -> None:
        """Note that a node asks, and offers these kinds."""
        self._by.pop(node, None)
        self._by[node] = now_ms, kinds
        if len(self._by) > MAX_ASKERS:
            del self._by[next(iter(self._by))]

    def last_ms(self, kind: str) -> int:
        """When a fetcher that serves this kind last asked; 0 if none of those noted did."""
        for ms, kinds in reversed(self._by.values()):
            if serves(kinds, kind):
                return ms
        return 0

    def since(self, earliest_ms: int, kind: str) -> list[str]:
        """The nodes that serve this kind and have asked since a time."""
        return [node for node, (ms, kinds) in self._by.items() if ms >= earliest_ms and serves(kinds, kind)]
