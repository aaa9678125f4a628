"""File names that survive a power cut: a new file is durable once its directory has been synced, too."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Makes a directory, and missing ones above it, durably.

    An existing directory may not be durable, if its maker died too early. So its name is synced as well,
    if we have permission.
    """
    made = [path, *(directory for directory in path.parents if not directory.exists())]
    path.mkdir(parents=True, exist_ok=True)
    for directory in made:
        with suppress(PermissionError):
            sync_directory(directory.parent)
