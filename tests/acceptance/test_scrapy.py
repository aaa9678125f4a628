"""Scrapy's own program on a frontier and the practice web: complete, polite, each page once."""

import signal
from pathlib import Path

import pytest
from acceptance.judging import FEW, ONE, in_flight
from acceptance.parts import Parts
from acceptance.programs import Program, Programs
from acceptance.spiders import PracticeSpiders
from frontier_harness.soaking import Soak
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually


def test_a_spider_that_is_stopped_goes_on_later_and_outlives_its_frontier(
    parts: Parts, programs: Programs, tmp_path: Path
) -> None:
    spiders = PracticeSpiders(parts, programs, tmp_path, ONE)
    stopped = spiders.start("stopped")
    parts.until_asked(20)
    stopped.signal(signal.SIGTERM)
    assert stopped.wait() == 0, stopped.complaints
    assert parts.leased("stopped") == 0
    second = spiders.start("second")
    asked = len(parts.web.log())
    parts.until_asked(asked + 20)
    moment = parts.frontier.kill()
    parts.start_frontier()
    spiders.until_finished(second)
    assert spiders.complaints(again=in_flight(parts.web.log(), moment)) == []
    assert {line.node for line in parts.pages} == {"stopped", "second"}


def test_two_processes_share_a_crawl_and_kill_9_of_one_loses_nothing(
    parts: Parts, programs: Programs, tmp_path: Path
) -> None:
    spiders = PracticeSpiders(parts, programs, tmp_path, ("alpha", "theta"))
    killed, other = spiders.start("killed"), spiders.start("other")
    eventually(lambda: _has_reported(parts, killed, other), "pages of both", WHOLE_CRAWL_S)
    moment = killed.kill()
    spiders.until_finished(other)
    assert spiders.complaints(again=in_flight(parts.web.log(), moment)) == []


@pytest.mark.soak("kills")
def test_spiders_and_their_frontier_killed_again_and_again_lose_nothing(
    parts: Parts, programs: Programs, tmp_path: Path, soak: Soak
) -> None:
    spiders = PracticeSpiders(parts, programs, tmp_path, (*FEW, "beta", "nu", "kappa"))
    names = ("one", "two")
    running = {name: spiders.start(name) for name in names}
    moments = []
    for number in range(4):
        parts.until_asked(len(parts.web.log()) + 60)
        name = names[number % 2]
        moments += [parts.frontier.kill(), running[name].kill()]
        parts.start_frontier()
        running[name] = spiders.start(name)
    spiders.until_finished(*running.values())
    assert spiders.complaints(again=in_flight(parts.web.log(), *moments)) == []
    soak.count(faults=len(moments), checked=len(parts.pages))


def _has_reported(parts: Parts, *programs: Program) -> bool:
    return all(len(parts.pages_of(program.name)) >= 10 for program in programs)
