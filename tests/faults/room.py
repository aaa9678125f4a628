"""A disk that fills up and gets room again: a large file stands in for what fills it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults import own_disk_program

MIB = own_disk_program.MIB
CAPACITY_MIB, RESERVE_MIB = 4096, 1024
"""The size of the disk, and how much of it a program keeps free. A test writes far less than the rest."""


class Disk:
    """A disk of the programs that are told to have it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        """Where its files are."""

    def program(self, module: str) -> tuple[str, ...]:
        """How Python is told to run the program of a module on this disk."""
        return own_disk_program.__file__, module, str(self.folder), str(CAPACITY_MIB)

    def command(self, module: str) -> tuple[str, ...]:
        """The same as a whole command."""
        return sys.executable, *self.program(module)

    @property
    def free_mib(self) -> int:
        """How much room there is."""
        return CAPACITY_MIB - own_disk_program.used_bytes(str(self.folder)) // MIB

    @contextmanager
    def filled(self) -> Iterator[None]:
        """There is less room than RESERVE_MIB until the block ends."""
        filler = self.folder / "filler"
        with filler.open("wb") as file:
            os.truncate(file.fileno(), (CAPACITY_MIB - RESERVE_MIB // 2) * MIB)
        try:
            yield
        finally:
            filler.unlink()
