"""Names that outlive a power cut: a new file is there for good once its directory, too, has been synced."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make durable which names a directory has."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory and those above it that are missing, for good.

    It may be there already, made by somebody who has died before it was durable: its own name is synced too,
    unless that is not ours to do.
    """
    made = [path, *(directory for directory in path.parents if not directory.exists())]
    path.mkdir(parents=True, exist_ok=True)
    for directory in made:
        with suppress(PermissionError):
            sync_directory(directory.parent)
