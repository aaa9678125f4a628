"""A reserve of memory that is let go when memory runs out, so that there is some to say so with (S4.12)."""

import threading

RESERVE_BYTES = 5 * 1024 * 1024


class MemoryReserve:
    """Bytes that are good for nothing, until they are gone. Thread-safe."""

    def __init__(self, size_bytes: int = RESERVE_BYTES) -> None:
        self._size_bytes = size_bytes
        self._lock = threading.Lock()
        self._bytes: bytearray | None = bytearray(size_bytes)

    @property
    def is_full(self) -> bool:
        """Whether there is something to let go."""
        return self._bytes is not None

    def release(self) -> None:
        """Lets the reserve go."""
        self._bytes = None

    def refill(self) -> None:
        """Takes the reserve again, if there is as much."""
        with self._lock:
            if self._bytes is None:
                try:
                    self._bytes = bytearray(self._size_bytes)
                except MemoryError:
                    return
