"""Throttle: a limit of bytes a second, spread over those who read. Pure, but for a lock."""

import threading

PIECES_PER_SECOND = 10
"""Into how many reads a second's bytes are divided at least, so that they flow instead of bursting."""

MAX_PIECE_BYTES = 64 * 1024


class Throttle:
    """Says how long to wait after bytes were read, so that all who ask read no faster than the limit.

    Who has read waits for all that was read before him, too: threads that read in equal pieces get equal
    shares. What was not used is not saved up: after a rest there is no burst. Thread-safe.
    """

    __slots__ = ("_clear_s", "_lock", "_seconds_per_byte", "piece_bytes")

    def __init__(self, bytes_per_second: int) -> None:
        """Raises ValueError unless `bytes_per_second` is above zero."""
        if bytes_per_second <= 0:
            raise ValueError(f"a limit of {bytes_per_second} bytes a second is not above zero")
        self.piece_bytes = max(1, min(bytes_per_second // PIECES_PER_SECOND, MAX_PIECE_BYTES))
        """Most to read at once."""
        self._seconds_per_byte = 1 / bytes_per_second
        self._lock = threading.Lock()
        self._clear_s = float("-inf")  # when all that was read is paid for

    def charge(self, byte_count: int, now_s: float) -> float:
        """Counts bytes that were read by `now_s`; how many seconds to wait before anything else is done."""
        with self._lock:
            self._clear_s = max(self._clear_s, now_s) + byte_count * self._seconds_per_byte
            return self._clear_s - now_s
