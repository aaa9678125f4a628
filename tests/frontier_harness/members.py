"""The processes of a frontier of several shards."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from frontier_harness.divided import SHARDS
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually


def members(supervisor: subprocess.Popen[Any]) -> dict[str, int]:
    """The process ids of its members that run, by name."""
    found = {}
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes().decode().split("\0")
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, UnicodeDecodeError):  # no process, or one that has just ended
            continue
        if parent == supervisor.pid and "--member" in command:
            found[command[command.index("--member") + 1]] = int(process.name)
    return found


def front_of(server: ServerProcess) -> int:
    """The process id of the one that has the addresses: a frontier of one shard is one process."""
    return server.child.pid if SHARDS == 1 else members(server.child)["front"]


def kill(server: ServerProcess, name: str, number: signal.Signals = signal.SIGKILL) -> int:
    """Kill a member; its process id. Returns once it is gone."""
    process = members(server.child)[name]
    os.kill(process, number)
    eventually(lambda: members(server.child).get(name) != process, f"the end of {name}")
    return process


def is_running(process: int) -> bool:
    """Whether there is a process, which is no zombie."""
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
