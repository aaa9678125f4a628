"""Settings for a part of the web, by SURT prefix (Heritrix: sheets).

A URI takes the settings of all prefixes that its SURT begins with. If two prefixes set the same field, the
longer one overrules the other.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from ..spec.settings import CrawlSettings
from ..uri.surt import SurtPrefixes

MAX_REMEMBERED = 1_000  # combinations of prefixes, those used last

Merge = Callable[[Sequence[bytes]], CrawlSettings]


class Overrides:
    """A crawl's overrides, in the caller's encoding, and the settings that they make.

    `merge` makes the crawl's settings with overrides on top, in order. Its results are remembered, so they
    must depend on nothing else.
    """

    def __init__(self, merge: Merge) -> None:
        self._merge = merge
        self._overrides: SurtPrefixes[tuple[str, bytes]] = SurtPrefixes()
        self._made: OrderedDict[tuple[str, ...], CrawlSettings] = OrderedDict()  # the one used last is last

    def put(self, prefix: str, override: bytes) -> None:
        """Set the override of a prefix that `surt_prefix` has made."""
        self._overrides.put(prefix, (prefix, override))
        self._forget(prefix)

    def discard(self, prefix: str) -> None:
        """Remove the override of a prefix, if there is one."""
        self._overrides.discard(prefix)
        self._forget(prefix)

    def _forget(self, prefix: str) -> None:
        """Forget the settings that were made with a prefix."""
        for prefixes in [known for known in self._made if prefix in known]:
            del self._made[prefixes]

    def forget_made(self) -> None:
        """Forget all made settings, because the crawl's own have changed."""
        self._made.clear()

    def items(self) -> list[tuple[str, bytes]]:
        """All overrides, in the order of their prefixes."""
        return sorted(item for _, item in self._overrides.items())

    def settings_for(self, surt: str) -> CrawlSettings | None:
        """The settings for a SURT; None if nothing overrides the crawl's own."""
        matching = self._overrides.matching(surt)
        if not matching:
            return None
        prefixes = tuple(prefix for prefix, _ in matching)
        made = self._made.get(prefixes)
        if made is None:
            made = self._made[prefixes] = self._merge([override for _, override in matching])
            if len(self._made) > MAX_REMEMBERED:
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(prefixes)
        return made

    def tells_apart(self, surt: str) -> bool:
        """Whether an override applies to some URIs of a SURT's origin, but not to all."""
        return self._overrides.tells_apart(surt)

    def __len__(self) -> int:
        return len(self._overrides)
