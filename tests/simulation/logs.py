"""The crawl logs of a simulated server: what is durable is written there and synced, and then noted."""

from simulation.entry import demand
from simulation.ledger import Ledger

from frontier_server.core.core import Core


class Logs:
    """Up to which outcome each crawl's log is on the disk. It outlives the server's process."""

    def __init__(self) -> None:
        self._synced: dict[int, int] = {}

    def write(self, core: Core, ledger: Ledger) -> list[tuple[int, int]]:
        """Write and sync what counts by now; what is to be noted of that: crawls and outcomes."""
        written = []
        for number, (_, noted, _) in core.upkeep.log_positions().items():
            book = ledger.numbers.get(number)
            if book is not None and book.outcomes > noted:
                self._synced[number] = book.outcomes
                written.append((number, book.outcomes))
        return written

    def cut(self, core: Core, put_back: bool) -> list[str]:
        """At a start: lines behind what is noted are cut off, and no log lacks what is noted.

        The crawls whose logs have lines that the store knows nothing of: there are such only where another
        copy of it was put in its place.
        """
        ahead = []
        for number, synced in list(self._synced.items()):
            crawl = core.shard.registry.crawls.get(number)
            if crawl is None:
                if put_back:  # another crawl may get its number now
                    del self._synced[number]
                continue
            noted, last = crawl.counters.logged_outcome, crawl.counters.next_outcome - 1
            demand(noted <= synced or put_back, f"outcomes to {noted} are noted as logged; {synced} are")
            self._synced[number] = noted
            if synced > last:
                ahead.append(crawl.name)
        demand(put_back or not ahead, f"the logs of {ahead} tell of more than is stored")
        return ahead
