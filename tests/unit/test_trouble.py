"""Trouble that passes: what it has paused may go on by itself, and what an operator has paused may not."""

import pytest
from core_doubles.lives import NAME, fetching, launched
from core_doubles.mutators import BY
from core_doubles.shell import SECRET, Shell
from core_doubles.stillness import still

from frontier_server.core.machines.lifecycle import CrawlState, Input
from frontier_server.core.state.model import Grant

S = CrawlState
KINDS = ("disk", "node")


def trouble(shell: Shell, kind: str, there_is: bool) -> None:
    """The frontier's disk is nearly full, or a node's; or neither any more."""
    if kind == "disk":
        noted = ("disk-reserve", "no room") if there_is else None
        shell.do(lambda core, now: core.upkeep.record_trouble(noted, now))
    else:
        words = "disk low" if there_is else ""
        tokens = [lease.token(SECRET) for lease in shell.core.shard.leases]
        shell.do(lambda core, now: core.frontier.heartbeat("node", "1", tokens, [], now, trouble=words))


def ask(shell: Shell, wish: Input) -> None:
    """An operator asks for a state."""
    shell.do(lambda core, now: core.control.request_state(NAME, wish, now, BY))


def troubled(kind: str, out: bool) -> tuple[Shell, list[Grant]]:
    """A crawl that trouble has paused, or pauses while a lease is out."""
    shell, grants = fetching(most=1, resume_after_trouble=True)
    shell.log()
    if not out:
        shell.take_back([grant.token for grant in grants])
    trouble(shell, kind, True)
    assert shell.state(NAME) is (S.PAUSING if out else S.PAUSED)
    return shell, grants


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("out", [False, True])
def test_what_trouble_has_paused_goes_on_when_it_has_passed(kind: str, out: bool) -> None:
    shell, _ = troubled(kind, out)
    trouble(shell, kind, False)
    assert shell.state(NAME) is S.RUNNING


@pytest.mark.parametrize("wish", [Input.PAUSE, Input.HOLD])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_an_operator_pauses_or_holds_meanwhile_stays_so(
    wish: Input, kind: str, out: bool, restarts: bool
) -> None:
    """Somebody may be copying the directory just then."""
    shell, grants = troubled(kind, out)
    ask(shell, wish)
    shell.take_back([grant.token for grant in grants])
    if restarts:
        shell.restart()
    assert (shell.state(NAME), shell.core.views.crawl(NAME).held) == (S.PAUSED, wish is Input.HOLD)
    with still(shell, NAME):
        trouble(shell, kind, False)
    ask(shell, Input.RESUME)
    assert shell.state(NAME) is S.RUNNING


def test_the_pause_of_an_operator_is_told_though_the_crawl_is_paused_already() -> None:
    """It changes what comes: who wonders later why it does not go on finds who asked."""
    shell, _ = troubled("disk", False)
    ask(shell, Input.PAUSE)
    assert (shell.events(NAME)[-1].kind, shell.events(NAME)[-1].fields["action"]) == (
        "operator_acted",
        "pause",
    )
    with still(shell, NAME):
        ask(shell, Input.PAUSE)


def test_a_resume_in_spite_of_it_lets_it_go_on_when_it_has_passed() -> None:
    """Nobody wants the pause any more but the trouble itself."""
    shell, _ = troubled("disk", False)
    ask(shell, Input.PAUSE)
    ask(shell, Input.RESUME)
    assert shell.state(NAME) is S.PAUSED
    trouble(shell, "disk", False)
    assert shell.state(NAME) is S.RUNNING


def test_a_crawl_that_an_older_server_holds_in_trouble_is_held_on() -> None:
    """Its row says that it waits for the trouble's end; what it was asked for since says more."""
    shell = launched(resume_after_trouble=True)
    trouble(shell, "disk", True)
    ask(shell, Input.HOLD)
    shell.log()
    shell.core.shard.registry.named(NAME).state_row.trouble = "disk-reserve"
    trouble(shell, "disk", False)
    assert shell.core.views.crawl(NAME).held
