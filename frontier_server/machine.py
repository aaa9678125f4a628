"""How much memory this process may use: the machine's, or less under a container's limit."""

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def memory_bytes(own: Path = _OWN, cgroups: Path = _CGROUPS) -> int:
    """The least of the machine's memory and the limits of this process's control groups."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(own, cgroups)])


def _limits(own: Path, cgroups: Path) -> list[int]:
    """The limits of the groups and their parents; empty if there are no groups."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    found: list[int] = []
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if not controllers:  # version 2
            root, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = root / place.lstrip("/")
        for folder in (group, *group.parents):
            if folder == root or root in folder.parents:
                found += _number(folder / name)
    return found


def _number(path: Path) -> list[int]:
    """The number in a file; empty if the file is missing or has none."""
    try:
        text = path.read_text().strip()
    except OSError:
        return []
    return [int(text)] if text.isdecimal() else []
