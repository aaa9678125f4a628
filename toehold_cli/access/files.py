"""Files of secrets and of trust: written whole or not at all."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toehold_base.durable import sync_directory
from toehold_client.errors import InvalidArgument

PUBLIC, SECRET = 0o644, 0o600


def replace_file(path: Path, content: bytes, mode: int, *, is_shared: bool = False) -> None:
    """Writes a file in place of one of the same name, or of the one that a link leads to. It takes over the
    owner and the permissions, unless everybody could read a SECRET one: that stays so only if it `is_shared`
    with programs of other users, which could not read it any more. InvalidArgument if that cannot be done.
    """
    target = path.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        before = target.stat() if target.exists() else None
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                _take_over(descriptor, before)
                if is_shared or mode != SECRET or not before.st_mode & 0o007:
                    mode = before.st_mode & 0o777
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        draft.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise InvalidArgument(f"{path} cannot be written: {error.strerror}") from None


def _take_over(descriptor: int, before: os.stat_result) -> None:
    """Gives a file the owner of the one before, whom the server runs as, perhaps. Only root may do that."""
    with suppress(PermissionError):
        os.fchown(descriptor, before.st_uid, before.st_gid)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """A context that only one process is in at a time. InvalidArgument if there is no such directory."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InvalidArgument(f"directory {directory}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise InvalidArgument(f"directory {directory} cannot be locked: {error.strerror}") from None
        yield
    finally:
        os.close(descriptor)
