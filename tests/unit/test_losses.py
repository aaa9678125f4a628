"""A store that has lost something, as logs show: every crawl waits for an operator, whatever it was at."""

import pytest
from core_doubles.lives import NAME, in_state, launched, quick
from core_doubles.shell import Shell

from frontier_server.core.machines.lifecycle import CrawlState, Input

S = CrawlState
OTHER = "other"
WORDS = "the store has lost outcomes"


def lose(shell: Shell, *crawls: str) -> None:
    """Logs of these crawls show a loss."""
    shell.do(lambda core, now: core.upkeep.record_lost(dict.fromkeys(crawls, WORDS), now))


def problems(shell: Shell, crawl: str = NAME) -> list[tuple[object, object]]:
    rows = [row.fields for row in shell.events(crawl) if row.kind == "problem"]
    return [(fields["kind"], fields["detail"]) for fields in rows]


def reason(shell: Shell, crawl: str = NAME) -> str:
    return shell.core.views.crawl(crawl).reason


def test_all_crawls_that_run_are_paused_until_somebody_resumes_them() -> None:
    shell = launched()
    shell.create(OTHER, quick())
    shell.launch(OTHER, "http://other.example/")
    lose(shell, OTHER)
    assert (shell.state(NAME), shell.state(OTHER)) == (S.PAUSED, S.PAUSED)
    assert (reason(shell), reason(shell, OTHER)) == (f"crawl other: {WORDS}", WORDS)
    assert problems(shell) == [("log-ahead", f"crawl other: {WORDS}")]
    assert problems(shell, OTHER) == [("log-ahead", WORDS)]
    shell.request(NAME, Input.RESUME)
    assert (shell.state(NAME), shell.state(OTHER), reason(shell)) == (S.RUNNING, S.PAUSED, "")


def test_a_crawl_that_would_go_on_by_itself_does_not() -> None:
    shell = launched(resume_after_trouble=True)
    shell.do(lambda core, now: core.upkeep.record_trouble(("disk-reserve", "no room"), now))
    lose(shell, NAME)
    shell.do(lambda core, now: core.upkeep.record_trouble(None, now))
    assert (shell.state(NAME), reason(shell)) == (S.PAUSED, WORDS)


def test_leases_that_are_out_are_waited_for() -> None:
    shell = launched()
    (grant,) = shell.grants(most=1)
    lose(shell, NAME)
    assert (shell.state(NAME), reason(shell)) == (S.PAUSING, WORDS)
    shell.take_back([grant.token])
    assert (shell.state(NAME), reason(shell)) == (S.PAUSED, WORDS)


@pytest.mark.parametrize("starts", [False, True])
def test_a_crawl_whose_seeds_are_being_announced_is_paused_when_they_are(starts: bool) -> None:
    shell = in_state(S.PREPARING)
    lose(shell, NAME)
    if starts:
        shell.restart()
    assert shell.state(NAME) is S.PREPARING
    shell.work()
    assert (shell.state(NAME), reason(shell)) == (S.PAUSED, WORDS)
    shell.request(NAME, Input.RESUME)
    assert shell.state(NAME) is S.RUNNING


@pytest.mark.parametrize("ended", [False, True])
def test_a_crawl_that_does_not_run_is_told_and_stays_as_it_is(ended: bool) -> None:
    state = S.FINISHED if ended else S.NASCENT
    shell = in_state(state)
    lose(shell, NAME)
    assert shell.state(NAME) is state and problems(shell) == [("log-ahead", WORDS)]
