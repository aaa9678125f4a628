"""Files and directories with secrets: they are for their owner and group, and for nobody else."""

from pathlib import Path

import structlog

_log = structlog.get_logger()


def warn_if_open(*paths: str | Path | None) -> None:
    """Logs each of these that users other than its owner and group may read, change or enter. A path that
    leads nowhere, or is None, counts as closed."""
    for path in paths:
        if path is not None and is_open(Path(path)):
            _log.warning("open_to_others", path=str(path), advice=f"close it: chmod o-rwx {path}")


def is_open(path: Path) -> bool:
    """Whether the permissions of a file or directory allow anything to users other than its owner and
    group."""
    try:
        return bool(path.stat().st_mode & 0o007)
    except OSError:
        return False
