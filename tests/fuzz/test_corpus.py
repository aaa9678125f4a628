"""The inputs that fuzzing has found, given to their parsers again; and that fuzzing finds what is wrong."""

import time
from pathlib import Path
from random import Random

import pytest
from fuzz import corpus
from fuzz.campaign import Diary, Explorer
from fuzz.groups import GROUPS, TARGETS
from fuzz.growth import superlinear
from fuzz.mutating import Stock
from fuzz.target import Said, Target

MAX_CPU_S = 10.0
"""Of all that is known of a parser: some hundred short inputs."""
MOST_KIB = 600


@pytest.mark.parametrize("name", TARGETS)
def test_no_parser_is_broken_by_what_was_ever_found(name: str) -> None:
    target = TARGETS[name]
    began_s = time.thread_time()
    for data in corpus.inputs(target):
        target.said(data)
    assert time.thread_time() - began_s < MAX_CPU_S


def test_each_input_that_is_kept_belongs_to_a_parser_and_all_of_them_are_few() -> None:
    files = list(corpus.FOLDER.iterdir())
    assert {file.name for file in files} <= set(TARGETS)
    assert sum(file.stat().st_size for file in files) < MOST_KIB * 1024
    assert sum(map(len, GROUPS.values())) == len(TARGETS), "two parsers have one name"


def _fragile(data: bytes) -> Said:
    """Breaks, three steps from its seed: blind chance would take years."""
    if data[:1] == b"<":
        if data[1:2] == b"!":
            if data[2:3] == b"[":
                raise IndexError("fell over")
            return "declaration"
        return "tag"
    return "text"


FRAGILE = Target("fragile", _fragile, (b"seed",), sources=(__file__,))


def test_inputs_that_go_new_ways_lead_to_others_and_to_what_breaks_a_parser(tmp_path: Path) -> None:
    (tmp_path / "present").touch()
    diary, explorer = Diary(tmp_path / "present"), Explorer(FRAGILE, Random(1))
    for number, data in enumerate(explorer.inputs(30_000)):
        diary.begin(number, data)
        if problem := explorer.try_one(data):
            break
    assert problem.startswith("raises IndexError: fell over")
    assert diary.present() == (number, data) and data.startswith(b"<![")


def _quadratic(data: bytes) -> Said:
    return sum(data.count(b"\xff", start) for start in range(0, len(data), 4))


def _linear(data: bytes) -> int:
    return sum(data.count(b"\xff", start, start + 400) for start in range(len(data)))


def _stepped(data: bytes) -> Said:
    """In proportion, but for a step: as where an input does not fit into the processor's caches any more."""
    return sum(_linear(data) for _ in range(4 if len(data) > 64 * 1024 else 1))


def test_time_that_grows_with_the_square_of_an_input_is_noticed_and_time_in_proportion_is_not() -> None:
    stock = Stock([b"some text"], ())
    for run, is_slow in ((_quadratic, True), (_linear, False), (_stepped, False)):
        target = Target("slow", run, most_bytes=96 * 1024, seeds=())
        told = superlinear(target, Random(1), stock, lambda data: None)
        assert bool(told) is is_slow, told
