"""Programs killed at moments that nobody chose."""

import json
import os
import random
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from acceptance.judging import complaints, crawl_arguments, in_flight
from acceptance.parts import Parts
from acceptance.programs import Program, Programs, children, pass_time, program_of
from frontier_harness.soaking import Soak
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

from practice_web.practice import PracticeWeb
from toehold_cli.exits import ExitCode

LIBRARY = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
MANY = (*LIBRARY, "nu", "rho", "kappa")


@pytest.mark.soak("kills")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_a_frontier_killed_at_many_random_moments_loses_nothing(parts: Parts, seed: int, soak: Soak) -> None:
    chance = random.Random(soak.seed + seed)
    nodes = [parts.node(name) for name in ("one", "two")]
    parts.launch(MANY)
    moments = []
    for _ in range(20):
        # By pages and not by time alone: however slow the machine, some of the crawl lies between two kills.
        asked = len(parts.web.log()) + chance.randrange(1, 30)
        parts.until_asked(asked)
        pass_time(chance.uniform(0, 0.1))
        moments.append(parts.frontier.kill())
        parts.start_frontier()
    parts.until_finished()
    assert all(node.runs for node in nodes)
    assert parts.complaints(again=in_flight(parts.web.log(), *moments)) == []
    soak.count(faults=20, checked=len(parts.pages))


@pytest.mark.soak("kills")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(3))
def test_a_crawl_of_one_command_comes_through_whatever_ends_it(
    web: PracticeWeb, programs: Programs, tmp_path: Path, seed: int, soak: Soak
) -> None:
    """Signals to the parent, and `kill -9` of it or of a child, twenty times; the same command goes on."""
    chance = random.Random(seed)
    command = crawl_arguments(web, tmp_path / "crawl", keys=MANY)
    moments: list[float] = []
    done = 0
    for _ in range(20):
        asked = len(web.log()) + chance.randrange(1, 30)
        crawl = programs.toehold(*command)
        eventually(partial(_got_so_far, web, crawl, asked), "requests")
        if not crawl.runs:
            break
        pass_time(chance.uniform(0, 0.1))
        moments += _end_somehow(crawl, chance)
        done += 1
    else:
        crawl = programs.toehold(*command)
    # One that was ended just as the crawl came to its end leaves nothing for the next one to do.
    ended = done and crawl.wait() == ExitCode.REFUSED and "has finished" in crawl.complaints
    assert ended or crawl.wait() == 0, crawl.complaints
    assert complaints(web, MANY, again=in_flight(web.log(), *moments)) == []
    soak.count(faults=done, checked=len(web.log()))


@pytest.mark.soak("kills")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_nodes_supervisors_their_processes_and_followers_are_killed_and_nothing_is_lost(
    parts: Parts, programs: Programs, tmp_path: Path, seed: int, soak: Soak
) -> None:
    """Each page comes to one end, and is in the archive of the node that reported it."""
    chance, kills = random.Random(soak.seed + seed), max(soak.cycles(1000) // 40, len(PROGRAMS))
    crew = _Crew(parts, programs)
    parts.launch(MANY)
    crew.follow()
    moments: list[float] = []
    done = 0
    for number in range(kills):
        asked = len(parts.web.log()) + chance.randrange(1, 20)
        eventually(partial(_goes_on, parts, asked), "requests", WHOLE_CRAWL_S)
        if parts.has_finished():
            break
        pass_time(chance.uniform(0, 0.1))
        moments += crew.kill(PROGRAMS[number % len(PROGRAMS)], chance)
        done += 1
    parts.until_finished()
    assert parts.complaints(again=in_flight(parts.web.log(), *moments)) == []
    heard = crew.until_all_is_heard()
    assert heard == [*range(1, len(heard) + 1)]
    soak.count(faults=done, checked=len(parts.pages) + len(heard))


def _goes_on(parts: Parts, asked: int) -> bool:
    return len(parts.web.log()) >= asked or parts.has_finished()


PROGRAMS = ("node", "process", "supervisor", "follower")


class _Crew:
    """A node in one process, one in several, and somebody who follows the crawl's events."""

    def __init__(self, parts: Parts, programs: Programs) -> None:
        self._parts = parts
        self._programs = programs
        self._node = parts.node("one")
        self._many = parts.node("many", "--processes", "2")
        self._heard: list[dict[str, Any]] = []

    def follow(self) -> None:
        """Follow the crawl's events from the last one that is known, whose line may be cut short."""
        cursor = self._heard[-1]["cursor"] if self._heard else "start"
        self._follower = self._programs.toehold(
            *("events", "--follow", "--json", "--from", cursor, "--frontier", self._parts.address)
        )

    def kill(self, what: str, chance: random.Random) -> list[float]:
        """Kill one, and have it back; the moments at which pages may have been unreported."""
        if what == "node":
            moment = self._node.kill()
            self._node = self._parts.node("one")
            return [moment]
        if what == "process":
            moment = time.monotonic()
            with suppress(ProcessLookupError):  # it is being replaced already
                os.kill(chance.choice(children(self._many.pid)), signal.SIGKILL)
            return [moment]
        if what == "supervisor":
            left = children(self._many.pid)
            moment = self._many.kill()
            eventually(lambda: not any(map(program_of, left)), "the end of processes that nobody watches")
            moments = [moment, time.monotonic()]
            self._many = self._parts.node("many", "--processes", "2")
            return moments
        self._follower.kill()
        self._take()
        self.follow()
        return []

    def _take(self) -> None:
        whole, _, _ = self._follower.said.rpartition("\n")
        self._heard += [json.loads(line) for line in whole.splitlines()]

    def until_all_is_heard(self) -> list[int]:
        """Wait for the last event; the numbers of all that followers were told, in order."""
        self._follower.wait()
        self._take()
        return [event["sequence"] for event in self._heard]


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
        assert crawl.wait() in ((0, 1) if frontier else (0, 130))  # 0: it had come to its end just then
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
