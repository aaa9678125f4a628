"""Throttle: a limit of bytes a second, shared by all readers. Pure, except for a lock."""

import threading

PIECES_PER_SECOND = 10
"""The least number of reads that a second's bytes are divided into, so that they flow instead of bursting."""

MAX_PIECE_BYTES = 64 * 1024


class Throttle:
    """Says how long a reader must wait after a read, so that all readers together keep to the limit.

    A reader also waits for the bytes that others read before: threads that read in equal pieces get equal
    shares. Unused bytes are not saved up, so there is no burst after a rest. Thread-safe.
    """

    __slots__ = ("_clear_s", "_lock", "_seconds_per_byte", "piece_bytes")

    def __init__(self, bytes_per_second: int) -> None:
        """Raises ValueError unless `bytes_per_second` is above 0."""
        if bytes_per_second <= 0:
            raise ValueError(f"bytes_per_second must be above 0, got {bytes_per_second}")
        self.piece_bytes = max(1, min(bytes_per_second // PIECES_PER_SECOND, MAX_PIECE_BYTES))
        """The most bytes to read at once."""
        self._seconds_per_byte = 1 / bytes_per_second
        self._lock = threading.Lock()
        self._clear_s = float("-inf")  # when all bytes read are paid for

    def charge(self, byte_count: int, now_s: float) -> float:
        """Counts bytes that were read by `now_s`. Returns how many seconds the reader must wait."""
        with self._lock:
            self._clear_s = max(self._clear_s, now_s) + byte_count * self._seconds_per_byte
            return self._clear_s - now_s
