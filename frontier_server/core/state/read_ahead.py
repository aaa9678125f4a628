"""The first stored URIs of a queue, read ahead to save an iterator at most turns."""

from bisect import bisect_left
from collections.abc import Iterable

READ_AHEAD = 8
READ_AHEAD_BYTES = 4096  # of rows beyond the first


class Ahead:
    """The first stored URIs of a queue: a prefix of it, without gaps; empty means unknown."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[tuple[bytes, bytes]] = []  # position and value, in order

    @property
    def first(self) -> tuple[bytes, bytes] | None:
        """The position and value of the first URI, if known."""
        return self._rows[0] if self._rows else None

    @property
    def rows(self) -> tuple[tuple[bytes, bytes], ...]:
        """All URIs read ahead."""
        return tuple(self._rows)

    def read(self, rows: Iterable[tuple[bytes, bytes]], behind: int = 0, most: int = READ_AHEAD) -> None:
        """Keep the first of a queue's rows, in order, at most `most`.

        `behind` is the length of the queue's name, which is cut from each key.
        """
        self._rows.clear()
        size = 0
        for key, value in rows:
            self._rows.append((key[behind:], value))
            size += len(value)
            if len(self._rows) in (most, READ_AHEAD) or size >= READ_AHEAD_BYTES:
                break

    def put(self, position: bytes, value: bytes) -> None:
        """Note that a URI has come into the queue, or has a new value."""
        rows = self._rows
        if not rows or position > rows[-1][0]:
            return
        at = bisect_left(rows, (position,))
        if rows[at][0] == position:
            rows[at] = position, value
        else:
            rows.insert(at, (position, value))
            self.read(tuple(rows))

    def took(self, position: bytes) -> None:
        """Note that a URI has left the queue."""
        rows = self._rows
        at = bisect_left(rows, (position,))
        if at < len(rows) and rows[at][0] == position:
            del rows[at]

    def forget(self) -> None:
        """Forget all."""
        self._rows.clear()
