"""Work that concerns many crawls at once, done for some of them at a time.

There may be 100 000 crawls. Trouble, a node that leaves or a checkpoint may concern each of them, and all
calls wait while an operation runs. So an operation does such work for some crawls, and ticks do it for the
others. Sweeps are not stored: a crash leaves the rest undone. Trouble that lasts and nodes that are gone are
noted again after the next start; records of a checkpoint or of an operator's act on nodes are not.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from .crawl import Crawl
from .operation import Operation

CRAWLS_PER_SLICE = 100  # some milliseconds

Act = Callable[[Operation, Crawl], None]
"""What to do for a crawl."""


class Sweeps:
    """The sweeps under way, each with a name."""

    def __init__(self) -> None:
        self._crawls: dict[str, dict[int, None]] = {}  # sweep → the crawls that still wait for it
        self._acts: dict[str, Act] = {}

    def __bool__(self) -> bool:
        return bool(self._acts)

    def begin(self, name: str, crawls: Iterable[int], act: Act) -> None:
        """Begin a sweep, or add crawls to one that is under way."""
        waiting = self._crawls.setdefault(name, {})
        waiting.update(dict.fromkeys(crawls))
        self._acts[name] = act
        if not waiting:
            self.drop(name)

    def drop(self, name: str) -> None:
        """Leave the rest of a sweep undone."""
        self._crawls.pop(name, None)
        self._acts.pop(name, None)

    def slice(self, op: Operation, crawls: dict[int, Crawl]) -> None:
        """Act on the next crawls, those of the oldest sweep first; not on crawls that are held or gone."""
        most = CRAWLS_PER_SLICE
        for name, act in list(self._acts.items()):
            waiting = self._crawls[name]
            for number in list(islice(waiting, most)):
                del waiting[number]
                most -= 1
                crawl = crawls.get(number)
                if crawl is not None and not crawl.held:
                    act(op, crawl)
            if waiting:
                return
            self.drop(name)
