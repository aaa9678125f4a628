"""Files that may change while a server uses them."""

from pathlib import Path


def mark_of(path: Path) -> tuple[int, int, int] | None:
    """Changes with a file; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
