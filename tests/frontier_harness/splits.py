"""Splits, which double the shards of a frontier: by its program, also under kills, or by a test that dies."""

import subprocess
import sys
import time

from .process import PROGRAM, run_to_end
from .waiting import PATIENCE_S

FIRST_KILL_S, LATER = 0.3, 1.35  # each time after this many times as long


class Died(BaseException):
    """The process is no more."""


def die(*_: object) -> None:
    """Take the place of a step of a split, before which its process dies."""
    raise Died


def silent(line: str) -> None:
    """Take what a split says, and show it to nobody."""


def split(*options: str) -> None:
    """Let the program double the shards of a directory or a bucket."""
    done = run_to_end(*options, "--split")
    assert done.returncode == 0, done.stderr


def split_under_kills(*options: str) -> None:
    """The same, with `kill -9` a little later each time, until it is faster."""
    command = [sys.executable, *PROGRAM, *options, "--split"]
    patience_s, kills = FIRST_KILL_S, 0
    while True:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            time.sleep(patience_s)
            process.kill()
            code = process.wait(PATIENCE_S)
        if code == 0:
            assert kills
            return
        assert code == -9, code
        kills += 1
        patience_s *= LATER
