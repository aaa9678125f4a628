"""Programs killed at moments that nobody chose."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from acceptance.judging import FEW, complaints, crawl_arguments, in_flight
from acceptance.parts import Parts
from acceptance.programs import Program, Programs, children, pass_time, program_of, until

from practice_web.practice import PracticeWeb

LIBRARY = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


def test_a_frontier_killed_at_random_moments_loses_nothing(parts: Parts) -> None:
    _kill_at_random(parts, kills=3, keys=FEW, random=random.Random(20))


@pytest.mark.soak("kills")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_a_frontier_killed_at_many_random_moments_loses_nothing(parts: Parts, seed: int) -> None:
    _kill_at_random(parts, kills=20, keys=(*LIBRARY, "nu", "rho", "kappa"), random=random.Random(seed))


def _kill_at_random(parts: Parts, *, kills: int, keys: tuple[str, ...], random: random.Random) -> None:
    nodes = [parts.node(name) for name in ("one", "two")]
    parts.launch(keys)
    moments = []
    for _ in range(kills):
        # By pages and not by time alone: however slow the machine, some of the crawl lies between two kills.
        asked = len(parts.web.log()) + random.randrange(1, 30)
        parts.until_asked(asked)
        pass_time(random.uniform(0, 0.1))
        moments.append(parts.frontier.kill())
        parts.start_frontier()
    parts.until_finished()
    assert all(node.runs for node in nodes)
    assert parts.complaints(again=in_flight(parts.web.log(), *moments)) == []


@pytest.mark.soak("kills")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(3))
def test_a_crawl_of_one_command_comes_through_whatever_ends_it(
    web: PracticeWeb, programs: Programs, tmp_path: Path, seed: int
) -> None:
    """Signals to the parent, and `kill -9` of it or of a child, twenty times; the same command goes on."""
    chance = random.Random(seed)
    keys = (*LIBRARY, "nu", "rho", "kappa")
    command = crawl_arguments(web, tmp_path / "crawl", keys=keys)
    moments = []
    for _ in range(20):
        asked = len(web.log()) + chance.randrange(1, 30)
        crawl = programs.toehold(*command)
        until(partial(_got_so_far, web, crawl, asked), "requests")
        if not crawl.runs:
            break
        pass_time(chance.uniform(0, 0.1))
        moments += _end_somehow(crawl, chance)
    else:
        crawl = programs.toehold(*command)
    assert crawl.wait() == 0, crawl.complaints
    assert complaints(web, keys, again=in_flight(web.log(), *moments)) == []


def _got_so_far(web: PracticeWeb, crawl: Program, asked: int) -> bool:
    return len(web.log()) >= asked or not crawl.runs


def _end_somehow(crawl: Program, chance: random.Random) -> list[float]:
    """Ends `toehold crawl` or has it end; the moments at which pages may have been unreported."""
    way = chance.choice(["pause", "stop", "kill", "kill frontier"])
    if way == "kill":
        return [crawl.kill()]
    if way == "kill frontier":
        frontier = [pid for pid in children(crawl.pid) if "frontier_server" in program_of(pid)]
        moment = time.monotonic()
        for pid in frontier:
            os.kill(pid, signal.SIGKILL)
        assert crawl.wait() == (1 if frontier else 130)
        # The node is ended as well: what it had still begun by then, nobody took its report of.
        return [moment, time.monotonic()]
    moment = crawl.signal(signal.SIGTERM)
    if way == "stop":
        pass_time(0.2)
        if crawl.runs:
            moment = crawl.signal(signal.SIGTERM)
    # Python itself ends by the signal as long as it has not begun to run `toehold`.
    assert crawl.wait() in (0, 130, -signal.SIGTERM)
    return [moment]
