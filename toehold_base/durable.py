"""Makes file names durable: a new file survives a power cut only once its directory is synced too."""

import errno
import os
from contextlib import suppress
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable. May block."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_names(path: Path, top: Path) -> None:
    """Make the name of a file durable, and the names of the directories between it and `top`."""
    for directory in path.parents:
        sync_directory(directory)
        if directory == top:
            return


def make_directory(path: Path, mode: int = 0o777) -> None:
    """Make a directory and those above it that are missing, durably. `mode` is for it alone, if it is new.

    Its own name is synced even if it is there already, since its maker may have died before syncing it. A
    parent that this process may not open is left alone.
    """
    directories = [path, *(directory for directory in path.parents if not directory.exists())]
    path.mkdir(mode, parents=True, exist_ok=True)
    for directory in directories:
        with suppress(PermissionError):
            sync_directory(directory.parent)


def make_own_directory(path: Path) -> None:
    """Make a directory for its owner alone, likewise. Raises PermissionError if this process may not write
    in it."""
    make_directory(path, 0o700)
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "not writable")


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """Write a file in the place of another, durably, and in one step: it is whole at any moment."""
    new = path.with_name(f"{path.name}.new")
    with open(new, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_directory(path.parent)
