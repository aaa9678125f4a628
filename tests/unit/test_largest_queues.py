"""The largest queues of a crawl, also of one that ended, or waits, in an earlier run of the server."""

from typing import Any

import pytest
from core_doubles.lives import NAME, launched
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.operators.listing import ROWS_PER_READ
from frontier_server.core.spec.settings import RobotsSettings
from frontier_server.core.state.model import Report

IGNORED = RobotsSettings(policy="ignore")


def largest(shell: Shell) -> list[tuple[str, int]]:
    """Their keys and how many URIs they have."""
    return [(view.key, view.queued) for view in shell.core.administration.largest_queues(NAME)]


def filled(hosts: int, **settings: Any) -> Shell:
    """A crawl with 1 URI of the first host, 2 of the second, and so on, 9 at most."""
    shell = launched(
        *(f"http://h{number:02}.example/" for number in range(hosts)), robots=IGNORED, **settings
    )
    for number in range(1, hosts):
        shell.schedule(NAME, *(f"http://h{number:02}.example/{page}" for page in range(min(number, 8))))
    return shell


@pytest.mark.parametrize(
    "ends",
    [(), (Input.PAUSE,), (Input.STOP,), (Input.HOLD,)],
    ids=["running", "paused", "finished", "held"],
)
def test_the_largest_queues_are_the_same_after_a_restart(ends: tuple[Input, ...]) -> None:
    shell = filled(5)
    for end in ends:
        shell.request(NAME, end)
    before = [("example,h04,", 5), ("example,h03,", 4), ("example,h02,", 3), ("example,h01,", 2)]
    assert largest(shell)[:4] == before
    shell.restart()
    assert largest(shell)[:4] == before
    assert largest(shell)[:4] == before


def test_the_largest_queues_of_a_crawl_that_was_torn_down_are_still_listed() -> None:
    shell = filled(3)
    shell.do(lambda core, now: core.control.tear_down(NAME, now))
    assert shell.state(NAME) is CrawlState.FINISHED
    shell.restart()
    assert largest(shell)[:2] == [("example,h02,", 3), ("example,h01,", 2)]


def test_largest_queues_reads_many_queues_over_several_calls() -> None:
    shell = filled(2 * ROWS_PER_READ + 10)
    shell.schedule(NAME, *(f"http://h07.example/more/{page}" for page in range(12)))
    shell.restart()
    seen = [largest(shell) for _ in range(3)]
    assert seen[-1][0] == ("example,h07,", 20) and len(seen[-1]) == 20
    assert {count for _, count in seen[-1][1:]} == {9}


def test_largest_queues_leaves_out_queues_that_were_emptied_since_the_last_call() -> None:
    shell = filled(4)
    shell.restart()
    assert ("example,h03,", 4) in largest(shell)
    while shell.state(NAME) is not CrawlState.FINISHED:
        shell.finish(*(Report(grant.token, fetch_status=200) for grant in shell.grants(NAME)))
        shell.now_ms += 60_000
        shell.tick()
    assert {count for _, count in largest(shell)} <= {0}
