"""Files that may change while a server uses them."""

from pathlib import Path

Mark = tuple[int, ...]


def mark_of(path: Path) -> Mark | None:
    """Changes with a file, also when somebody may read it at last; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
