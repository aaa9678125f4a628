"""How much memory the server may have, as the machine and its containers tell."""

import os
from pathlib import Path

import pytest

from frontier_server.machine import memory_bytes

MIB = 1024 * 1024
ALL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def write(path: Path, text: str) -> None:
    """Write a file, and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": f"{64 * MIB}\n"}, 64 * MIB),
        ("0::/a/b\n", {"a/memory.max": f"{48 * MIB}\n", "a/b/memory.max": "max\n"}, 48 * MIB),
        ("0::/\n", {"memory.max": f"{32 * MIB}\n"}, 32 * MIB),
        ("4:cpu,memory:/x\n", {"memory/x/memory.limit_in_bytes": f"{16 * MIB}\n"}, 16 * MIB),
        # In a container the path is often the host's, and only the root is there.
        ("4:memory:/docker/1\n", {"memory/memory.limit_in_bytes": f"{24 * MIB}\n"}, 24 * MIB),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, ALL),
        ("3:cpu:/\n0::/\n", {"memory.max": "max\n"}, ALL),
        ("0::/a\n", {}, ALL),
    ],
)
def test_the_least_limit_of_the_groups_around_counts(
    tmp_path: Path, own: str, limits: dict[str, str], expected: int
) -> None:
    write(tmp_path / "own", own)
    for place, limit in limits.items():
        write(tmp_path / "cgroup" / place, limit)
    assert memory_bytes(tmp_path / "own", tmp_path / "cgroup") == expected


def test_without_groups_it_is_the_machines(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path / "own", tmp_path / "cgroup") == ALL
