"""The memory of the process: a reserve for when it runs out, and large blocks that go back to the system."""

import ctypes
import threading

RESERVE_BYTES = 5 * 1024 * 1024

LARGE_BYTES = 128 * 1024
"""Blocks from this size on are mappings of their own."""

_M_MMAP_THRESHOLD = -3


class MemoryReserve:
    """Unused bytes. Letting them go leaves memory to report with that there is no more. Thread-safe."""

    def __init__(self, size_bytes: int = RESERVE_BYTES) -> None:
        self._size_bytes = size_bytes
        self._lock = threading.Lock()
        self._bytes: bytearray | None = bytearray(size_bytes)

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


def give_back_large_blocks() -> None:
    """Fixes glibc's M_MMAP_THRESHOLD for the rest of the process.

    By default it grows with the largest block that was ever freed (mallopt(3)). After one document of 8 MB
    all smaller blocks would lie on heaps, of which each thread has its own, and the system does not get back
    memory that is freed in the middle of a heap. Does nothing where there is no glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
