"""Files of secrets and of trust: written whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toehold_client.durable import sync_directory
from toehold_client.errors import InvalidArgument

PUBLIC, SECRET = 0o644, 0o600


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """Writes a file in place of one of the same name, whose permissions it takes over. InvalidArgument if
    that cannot be done."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with suppress(FileNotFoundError):
            mode = path.stat().st_mode & 0o777
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        draft.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidArgument(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """A context that only one process is in at a time. InvalidArgument if there is no such directory."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InvalidArgument(f"directory {directory}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
