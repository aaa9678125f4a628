"""A campaign: a target, tried with inputs made of those that went new ways, in a process of its own.

A parser in C may crash, or never come back: the process writes down each input before it tries it, and
whoever started it watches.
"""

import base64
import json
import mmap
import resource
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from frontier_harness.waiting import PATIENCE_S

from . import corpus
from .growth import superlinear
from .mutating import MAX_BYTES, Stock, mutated
from .reached import Reached
from .target import Target

MAX_CPU_S = 5.0
"""Of one input of at most MAX_BYTES, watched line by line, which makes it slower by more than ten times."""
MAX_GROWN_BYTES = 96 * 1024 * 1024
"""What a process may grow by between a quarter of its inputs and the last: its parsers' caches, and ours."""
WARM = 0.25
PUMPED = 50  # inputs for each one that is tried at growing sizes
MAX_KEPT = 4_000

_HEAD = struct.Struct("<QI")  # how many were begun; how long the present one is
_ROOM_BYTES = _HEAD.size + 2 * MAX_BYTES


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that a parser does not stand."""

    target: str
    data: bytes
    problem: str

    def __str__(self) -> str:
        shown = base64.b64encode(zlib.compress(self.data, 9)).decode()
        return f"{self.target}: {self.problem}\n  input (base 64 of zlib): {shown[:4000]}"


class Diary:
    """The input that is tried now, in a file that outlives its process."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            file.truncate(_ROOM_BYTES)
            self._room = mmap.mmap(file.fileno(), _ROOM_BYTES)

    def begin(self, number: int, data: bytes) -> None:
        """Note an input before it is tried."""
        data = data[: _ROOM_BYTES - _HEAD.size]
        self._room[: _HEAD.size + len(data)] = _HEAD.pack(number, len(data)) + data

    def present(self) -> tuple[int, bytes]:
        """How many inputs were begun, and the last one."""
        number, length = _HEAD.unpack(self._room[: _HEAD.size])
        return number, self._room[_HEAD.size : _HEAD.size + length]


class Explorer:
    """Tries inputs on a target, and keeps those that go new ways."""

    def __init__(self, target: Target, chance: Random) -> None:
        self.target = target
        self._chance = chance
        self._reached = Reached(target.sources)
        self._said: set[int] = set()  # hashes: whole answers would be most of what a long campaign grows by
        self.stock = Stock([], target.words)
        self.slowest_s = 0.0

    def try_one(self, data: bytes) -> str:
        """What is wrong with what the parser does; empty if nothing is."""
        before, said_before = len(self._reached.ways), len(self._said)
        began_s = time.thread_time()
        try:
            self._said.add(hash(self._reached.watch(lambda: self.target.said(data))))
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt | SystemExit):
                raise
            frames = traceback.extract_tb(problem.__traceback__)
            at = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-4:]))
            return f"raises {type(problem).__name__}: {str(problem)[:300]} ({at})"
        took_s = time.thread_time() - began_s
        self.slowest_s = max(self.slowest_s, took_s)
        if took_s > MAX_CPU_S:
            return f"takes {took_s:.1f} s for {len(data)} bytes"
        if len(self._reached.ways) > before or len(self._said) > said_before:
            self.stock.inputs.append(data)
            if len(self.stock.inputs) > MAX_KEPT:
                del self.stock.inputs[self._chance.randrange(MAX_KEPT)]
        return ""

    def inputs(self, count: int) -> Iterator[bytes]:
        """The known inputs, then new ones."""
        yield from corpus.inputs(self.target)
        for _ in range(count):
            yield mutated(self._chance, self.stock)

    def ways(self) -> int:
        """How many ways were gone, and how many answers were heard."""
        return len(self._reached.ways) + len(self._said)


def explore(target: Target, seed: int, count: int, seconds: float, diary: Diary) -> Iterator[Finding]:
    """Try so many new inputs, or for so many seconds of a processor's time, whatever else the machine does,
    and end the process' growth beyond bounds with a finding.
    """
    chance = Random(f"{seed} {target.name}")
    explorer = Explorer(target, chance)
    until_s = time.process_time() + seconds
    began_bytes = 0
    told: set[str] = set()
    number = 0
    for number, data in enumerate(explorer.inputs(count), 1):
        if time.process_time() > until_s:
            break
        diary.begin(number, data)
        problem = explorer.try_one(data)
        if not problem and number % PUMPED == 0:
            problem = superlinear(target, chance, explorer.stock, partial(diary.begin, number))
        if problem and (kind := problem.rpartition(" (")[2] or problem) not in told:
            told.add(kind)
            yield Finding(target.name, data, problem)
        if not began_bytes and (
            number > count * WARM or time.process_time() > until_s - (1 - WARM) * seconds
        ):
            began_bytes = _resident_bytes()
    grown = _resident_bytes() - began_bytes if began_bytes else 0
    if grown > MAX_GROWN_BYTES:
        yield Finding(target.name, b"", f"has grown by {grown / 2**20:.0f} MiB within {number} inputs")
    corpus.note_new(target, explorer.stock.inputs)
    statistics = {
        "target": target.name,
        "inputs": number,
        "ways": explorer.ways(),
        "kept": len(explorer.stock.inputs),
        "slowest_s": round(explorer.slowest_s, 3),
        "grown_mib": round(grown / 2**20, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(statistics), flush=True)


def run(
    target: Target, seed: int, count: int, seconds: float = float("inf")
) -> tuple[int, list[Finding], str]:
    """Explore a target in a process of its own: how many inputs it tried, what was found, its statistics."""
    with tempfile.TemporaryDirectory() as folder:
        present, out, err = (Path(folder) / name for name in ("present", "out", "err"))
        present.write_bytes(b"\0" * _ROOM_BYTES)
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", "--child", target.name]
        command += [str(present), str(seed), str(count), str(seconds)]
        with out.open("w") as output, err.open("w") as errors:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=Path(__file__).parents[2]
            )
            try:
                hangs = _watched(child, Diary(present))
            finally:
                if child.poll() is None:
                    child.kill()
                    child.wait()
        number, data = Diary(present).present()
        lines, complaint = [json.loads(line) for line in out.read_text().splitlines()], err.read_text()
    findings = [
        Finding(target.name, bytes.fromhex(line["input"]), line["problem"])
        for line in lines
        if "problem" in line
    ]
    if hangs:
        findings.append(Finding(target.name, data, f"has not come back after {PATIENCE_S:.0f} s"))
    elif child.returncode != 0:
        words = f"ends the process with {child.returncode}: {complaint[-1500:]}"
        findings.append(Finding(target.name, data, words))
    return number, findings, next((json.dumps(line) for line in lines if "ways" in line), "")


def _watched(child: subprocess.Popen[bytes], diary: Diary) -> bool:
    """Waits for the end of a process; whether it was kept from coming by one input."""
    last, since_s = -1, time.monotonic()
    while child.poll() is None:
        number, _ = diary.present()
        if number != last:
            last, since_s = number, time.monotonic()
        elif time.monotonic() - since_s > PATIENCE_S:
            return True
        time.sleep(0.05)
    return False


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
