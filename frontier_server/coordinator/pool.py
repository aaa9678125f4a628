"""A limit of a whole crawl, lent to its parts in portions.

What all parts may have together never exceeds the limit, whatever becomes of messages: a part counts with the
most that it may still have. A share is raised by an order alone; lowering it counts only once the part has
said that it has obeyed, and how much of it is in use. So a part that is silent keeps what it had, and nobody
else gets that.
"""

from collections.abc import Sequence

import msgspec


class Share(msgspec.Struct):
    """What one part has of the limit."""

    told: int = 0  # what it is to have, by its next order at the latest
    lent: int = 0  # what it had when it was last heard
    most: int | None = None  # that it may have, whichever of the orders it has obeyed; None: not known
    used: int = 0
    starves: bool = False  # it could use more of this limit
    rests: bool = False  # it can use none now
    heard: bool = False
    raised: int = 0  # when it was last raised: counts all raises


class Pool:
    """One limit, and the shares of all parts of a crawl.

    What is in use of it may come back (leases), or not (documents that are fetched).
    """

    def __init__(self, parts: int, comes_back: bool) -> None:
        self.shares = [Share() for _ in range(parts)]
        self._comes_back = comes_back
        self._raises = 0

    def begin(self) -> None:
        """Note that no part has ever had anything."""
        for share in self.shares:
            share.most = 0

    def record(self, part: int, lent: int, used: int, starves: bool, rests: bool, obeyed: bool) -> None:
        """Note what a part says: what it may use, what it uses. It `starves` if it has URIs to lease, but a
        share of this or another limit that is used up; it has `obeyed` if it knows the last order that was
        made."""
        share = self.shares[part]
        share.lent, share.used, share.rests = max(lent, used), used, rests
        share.starves = starves and not rests and used >= lent
        if not share.heard:
            share.heard, share.told = True, lent
        if not self._comes_back:
            share.told = max(share.told, used)  # what a checkpoint brought was lent to nobody
        if obeyed:
            share.most = share.lent
        elif share.most is not None:
            share.most = max(share.most, share.lent)

    def order(self, part: int) -> None:
        """Note that an order tells a part its share; it may have that from now on."""
        share = self.shares[part]
        if share.most is not None:
            share.most = max(share.most, share.told)

    def lend(self, limit: int) -> None:
        """Divide anew what is free.

        A part whose state is not known may have anything, so nothing is lent until all are known.
        """
        taken = [max(share.most, share.told) for share in self.shares if share.most is not None]
        if len(taken) < len(self.shares):
            return
        free = limit - sum(taken)
        starving = [share for share in self.shares if share.starves and share.told <= share.lent]
        if free < 0:
            self._ask_back(self.shares, sum(share.told for share in self.shares) - limit)
        elif starving and free:
            portion = max(free // (2 * len(starving)), 1)
            for share in sorted(starving, key=lambda each: each.raised):
                given = min(portion, free)
                if given:
                    share.told += given
                    free -= given
                    self._raises += 1
                    share.raised = self._raises
        elif starving and all(
            share.told >= share.lent for share in self.shares
        ):  # nothing is on its way back
            self._ask_back([share for share in self.shares if not share.starves])
            if self._comes_back:
                self._level(min(starving, key=lambda share: share.told))

    def _ask_back(self, shares: Sequence[Share], needed: int = 0) -> None:
        """Lower shares to what is used: all of what a part at rest has left, half of what others have."""
        for share in shares:
            floor = 0 if self._comes_back and needed > 0 else share.used
            slack = share.told - floor
            if slack <= 0:
                continue
            wanted = slack if share.rests else max((slack + 1) // 2, min(needed, slack))
            share.told -= wanted
            needed -= wanted

    def _level(self, poorest: Share) -> None:
        """Take from the part that has most, so that in the end all have the same, or one after the other."""
        richest = max(self.shares, key=lambda share: (share.told, -share.raised))
        difference = richest.told - poorest.told
        if difference > 1:
            richest.told -= difference // 2
        elif difference and not poorest.told:
            richest.told -= 1
