"""The memory of the process: a reserve for when it runs out, and how malloc gets and returns it."""

import ctypes
import threading

RESERVE_BYTES = 5 * 1024 * 1024

LARGE_BYTES = 512 * 1024
"""Blocks from this size on are mappings of their own, which the system gets back when they are freed."""

SPARE_BYTES = 8 * 1024 * 1024
"""The most unused memory at the end of the heap."""

# mallopt(3)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


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


def suit_pages() -> None:
    """Sets glibc's malloc for the rest of the process, before it has threads: blocks of the size of pages
    come from one heap and go back to it, and only larger ones go back to the system.

    By default each thread has a heap of its own, and what is a large block grows with the largest that was
    ever freed: after one document of 8 MB all smaller ones would lie on heaps, and the system gets back no
    memory that is freed in the middle of a heap. If it gets back too much, the next page pays for it: a
    compressor has some 300 KB, and as a mapping of its own that is a page fault for each 4 KB. Does nothing
    where there is no glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_ARENA_MAX, 1)  # the interpreter's lock lets one thread work at a time anyway
    mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
    mallopt(_M_TRIM_THRESHOLD, SPARE_BYTES)
