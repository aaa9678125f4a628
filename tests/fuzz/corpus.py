"""The inputs that are kept: a file for each target, an input on a line, as JSON text of Latin-1 letters.

`python -m tests.fuzz --keep` adds those of a campaign that go ways which the others do not.
"""

import json
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from .reached import Reached, Way
from .target import Said, Target

FOLDER = Path(__file__).with_name("corpus")
MAX_INPUT_BYTES = 1024
MAX_TARGET_BYTES = 12 * 1024
NEW = "TOEHOLD_FUZZ_NEW"
"""A folder for what campaigns find; unset, nothing is written."""


def inputs(target: Target) -> list[bytes]:
    """The honest inputs of a target, then those that were found."""
    return [*target.seeds, *_read(FOLDER / target.name), *_read(_new_folder() / target.name)]


def note_new(target: Target, found: Sequence[bytes]) -> None:
    """Write down what a campaign has kept, if anybody wants to know."""
    if os.environ.get(NEW):
        _write(_new_folder() / target.name, [*dict.fromkeys(found)])


def keep(target: Target) -> int:
    """Add what campaigns have found to the corpus: the shortest first, each for ways of its own."""
    ways: set[Way | Said] = set()
    kept: list[bytes] = []
    room = MAX_TARGET_BYTES
    for data in _shortest_first(target):
        reached = Reached(target.sources)
        try:
            said = reached.watch(partial(target.said, data))
        except Exception:
            said = "a finding"
        new = reached.ways | {("said", said)}
        if new <= ways:
            continue
        ways |= new
        if data not in target.seeds and len(data) <= room:
            kept.append(data)
            room -= len(data)
    _write(FOLDER / target.name, kept)
    return len(kept)


def _shortest_first(target: Target) -> Iterable[bytes]:
    found = {each for each in inputs(target) if len(each) <= MAX_INPUT_BYTES}
    return [*target.seeds, *sorted(found - set(target.seeds), key=lambda each: (len(each), each))]


def _new_folder() -> Path:
    return Path(os.environ.get(NEW) or "/nonexistent")


def _read(path: Path) -> list[bytes]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line).encode("latin-1") for line in lines]


def _write(path: Path, found: Iterable[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each.decode("latin-1")) + "\n" for each in found))
