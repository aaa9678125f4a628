"""Whether a frontier works, as its health and a service manager are told: it does while it answers."""

import asyncio

import pytest
from frontier_harness.waiting import soon

from frontier_server.program.pulse import Pulse
from toehold_base.process.service_manager import ServiceManager


class Watchdog(ServiceManager):
    def __init__(self) -> None:
        super().__init__()
        self.fed = 0

    def alive(self) -> None:
        self.fed += 1


class Frontier:
    """Answers while it is not stuck."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.asked = 0
        self.health: list[bool] = []

    async def ask(self) -> None:
        self.asked += 1
        await self.free.wait()

    def tell_health(self, serves: bool) -> None:
        self.health.append(serves)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontier_server.program.pulse.ASK_EVERY_S", 0.001)


async def test_a_frontier_that_answers_feeds_the_watchdog_and_keeps_its_health() -> None:
    frontier, watchdog = Frontier(), Watchdog()
    task = asyncio.create_task(Pulse(frontier.ask, frontier.tell_health, watchdog).run())
    await soon(lambda: watchdog.fed >= 3)
    task.cancel()
    assert frontier.health == []


async def test_a_frontier_that_is_stuck_feeds_no_watchdog_and_is_not_serving_until_it_answers() -> None:
    frontier, watchdog = Frontier(), Watchdog()
    frontier.free.clear()
    task = asyncio.create_task(Pulse(frontier.ask, frontier.tell_health, watchdog, patience_s=0.01).run())
    await soon(lambda: frontier.health == [False])
    assert (frontier.asked, watchdog.fed) == (1, 0)  # it does not pile questions up
    frontier.free.set()
    await soon(lambda: watchdog.fed >= 2)
    task.cancel()
    assert frontier.health == [False, True]


async def test_a_frontier_that_has_failed_ends_the_pulse_with_its_error() -> None:
    async def fail() -> None:
        raise ValueError("the store failed")

    watchdog = Watchdog()
    with pytest.raises(ValueError, match="the store failed"):
        await Pulse(fail, Frontier().tell_health, watchdog).run()
    assert watchdog.fed == 0


async def test_a_question_ends_with_the_pulse() -> None:
    frontier = Frontier()
    frontier.free.clear()
    task = asyncio.create_task(Pulse(frontier.ask, frontier.tell_health, Watchdog()).run())
    await soon(lambda: frontier.asked)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await soon(lambda: asyncio.all_tasks() == {asyncio.current_task()})


async def test_a_frontier_whose_answers_wait_for_a_log_is_not_serving_and_feeds_the_watchdog() -> None:
    frontier, watchdog, answers = Frontier(), Watchdog(), [False]
    task = asyncio.create_task(Pulse(frontier.ask, frontier.tell_health, watchdog, lambda: answers[0]).run())
    await soon(lambda: watchdog.fed >= 3)
    answers[0] = True
    await soon(lambda: len(frontier.health) > 1)
    task.cancel()
    assert frontier.health == [False, True]
