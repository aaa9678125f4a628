"""How the process's memory is kept flat: large blocks go back to the system as soon as they are freed."""

import ctypes

LARGE_BYTES = 128 * 1024
"""Blocks from this size on are mappings of their own."""

_M_MMAP_THRESHOLD = -3


def give_back_large_blocks() -> None:
    """Fixes glibc's M_MMAP_THRESHOLD for the rest of the process.

    Left alone it grows with the largest block that was ever freed (mallopt(3)). After one document of 8 MB
    all smaller ones lie on heaps, of which threads have their own, and room that is freed in the middle of a
    heap is not the system's again. Where there is no glibc, nothing is done.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
