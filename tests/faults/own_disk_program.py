"""A program whose files are on a disk of their own: `own_disk_program.py MODULE FOLDER MIB [flags …]`.

The disk has so many MiB, of which the files below FOLDER take their sizes, a sparse file's too. So what other
programs write to this machine's disk, or delete from it, changes nothing for a test.
"""

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

MIB = 1024 * 1024


def used_bytes(folder: str) -> int:
    """The sizes of all files below a folder."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # programs delete files meanwhile
                total += Path(place, name).lstat().st_size
    return total


def of_own_disk(folder: str, capacity_bytes: int) -> Callable[[object], SimpleNamespace]:
    """An os.statvfs that tells of this disk, in blocks of one byte."""

    def statvfs(path: object) -> SimpleNamespace:
        free = max(0, capacity_bytes - used_bytes(folder))
        return SimpleNamespace(f_frsize=1, f_bavail=free, f_bfree=free, f_blocks=capacity_bytes)

    return statvfs


if __name__ == "__main__":
    module, folder, mib, *flags = sys.argv[1:]
    os.statvfs = of_own_disk(folder, int(mib) * MIB)  # type: ignore[assignment]
    importlib.import_module(module).main(flags)
