"""Listeners, in a thread and in a task: what they hear, how they end, and who is told."""

import asyncio
import gc
import subprocess
import sys
import threading
from typing import Any

import grpc
import pytest
from client_doubles.blocking import Connect, controller_of, of_both_clients
from client_doubles.fake_frontier import SILENCE, UNAVAILABLE, Answer, FakeFrontier, Refusal
from client_doubles.told import FINISHED, PAUSED, RUNNING, became, present, seeded, torn_down
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold.frontier.v1.frontier_pb2 import StateEventsResponse
from toehold_client import AsyncCrawlController, AsyncFrontierClient, CrawlController, FrontierClient
from toehold_client.aio.listener import AsyncListener
from toehold_client.errors import CursorTooOld, UnknownCrawl
from toehold_client.events import Event
from toehold_client.rpc.listeners import Listeners

UNKNOWN = Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL")
TOO_OLD = Refusal(grpc.StatusCode.OUT_OF_RANGE, "events 1 to 7 are no longer kept", "CURSOR_TOO_OLD")
ALIVE = StateEventsResponse(cursor="e2")


class Heard:
    """A listener that notes the numbers of events, and raises at one of them."""

    def __init__(self, bad: int = 0) -> None:
        self.numbers: list[int] = []
        self._bad = bad

    def __call__(self, event: Event) -> None:
        if event.sequence == self._bad:
            raise LookupError(f"event {event.sequence} is not to be heard")
        self.numbers.append(event.sequence)


@of_both_clients
def test_a_listener_may_print_and_prints_a_sentence_for_each_event(
    frontier: FakeFrontier, controller: CrawlController, capsys: pytest.CaptureFixture[str]
) -> None:
    frontier.will("StateEvents", [present(RUNNING), seeded(1), became(2, FINISHED), torn_down(3)])
    assert controller.listen(print, "start").join(PATIENCE_S)
    assert capsys.readouterr().out == "1 seed announced, 0 queued\nFinished\ntorn down\n"


@of_both_clients
def test_a_listener_hears_each_event_once_and_in_order_whatever_the_connection_does(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will(
        "StateEvents",
        [present(RUNNING), seeded(1), became(2, PAUSED), ALIVE, UNAVAILABLE],
        UNAVAILABLE,
        [present(RUNNING, "e2"), became(3, FINISHED), torn_down(4)],
    )
    heard = Heard()
    listener = controller.listen(heard, "start")
    assert listener.join(PATIENCE_S)
    assert heard.numbers == [1, 2, 3, 4]
    assert [asked.cursor for asked in frontier.asked["StateEvents"]] == ["start", "e2", "e2"]
    assert listener.cursor == "e4"


@of_both_clients
def test_a_listener_hears_from_the_moment_that_it_was_asked_for(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    """So what is done next cannot be missed."""
    frontier.will("StateEvents", [present(RUNNING, "e7"), SILENCE])
    listener = controller.listen(Heard())
    assert len(frontier.asked["StateEvents"]) == 1
    assert listener.cursor == "e7"
    listener.close()


@of_both_clients
def test_a_listener_of_a_crawl_that_is_not_there_never_begins(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will("StateEvents", UNKNOWN)
    with pytest.raises(UnknownCrawl):
        controller.listen(Heard())


@of_both_clients
def test_a_listener_that_is_closed_hears_no_more(frontier: FakeFrontier, controller: CrawlController) -> None:
    frontier.will("StateEvents", [present(RUNNING), seeded(1), SILENCE])
    heard = Heard()
    listener = controller.listen(heard)
    eventually(lambda: heard.numbers)
    assert listener.join(0.05) is False
    listener.close()
    listener.close()
    assert listener.join(0) is True
    assert (heard.numbers, listener.cursor) == ([1], "e1")


def test_closing_waits_until_the_listener_has_returned(frontier: FakeFrontier, address: str) -> None:
    frontier.will("StateEvents", [present(RUNNING), seeded(1), SILENCE])
    entered, leave, left = threading.Event(), threading.Event(), threading.Event()

    def slow(event: Event) -> None:
        entered.set()
        leave.wait(PATIENCE_S)
        left.set()

    with FrontierClient(address) as client:
        listener = CrawlController(client, "c").listen(slow)
        assert entered.wait(PATIENCE_S)
        closing = threading.Thread(target=listener.close)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
        leave.set()
        closing.join(PATIENCE_S)
        assert left.is_set() and listener.cursor == "e1"


@of_both_clients
@pytest.mark.parametrize("end", ["close", "join"])
def test_what_a_listener_raises_ends_it_and_is_raised_once(
    frontier: FakeFrontier, controller: CrawlController, end: str
) -> None:
    line: list[Answer] = [present(RUNNING), seeded(1), became(2, PAUSED), became(3, RUNNING), SILENCE]
    frontier.will("StateEvents", line)
    heard = Heard(bad=2)
    listener = controller.listen(heard, "start")
    eventually(lambda: len(heard.numbers) == 1 and ended(listener))
    with pytest.raises(LookupError, match="event 2 is not to be heard"):
        getattr(listener, end)()
    listener.close()
    assert listener.join(PATIENCE_S) is True
    assert heard.numbers == [1]


@of_both_clients
def test_a_listener_goes_on_after_the_last_event_that_was_taken(
    frontier: FakeFrontier, controller: CrawlController
) -> None:
    frontier.will(
        "StateEvents",
        [present(RUNNING), seeded(1), became(2, PAUSED), SILENCE],
        [present(PAUSED, "e1"), became(2, PAUSED), became(3, FINISHED)],
    )
    failing = controller.listen(Heard(bad=2), "start")
    with pytest.raises(LookupError):
        failing.join(PATIENCE_S)
    assert failing.cursor == "e1"
    heard = Heard()
    assert controller.listen(heard, failing.cursor).join(PATIENCE_S)
    assert heard.numbers == [2, 3]
    assert frontier.asked["StateEvents"][1].cursor == "e1"


@of_both_clients
def test_a_listener_that_comes_too_late_is_told(frontier: FakeFrontier, controller: CrawlController) -> None:
    frontier.will("StateEvents", [present(RUNNING, "e9"), TOO_OLD])
    with pytest.raises(CursorTooOld, match="events 1 to 7 are no longer kept"):
        controller.listen(Heard(), "e0").join(PATIENCE_S)


@of_both_clients
def test_a_listener_ends_with_the_client(frontier: FakeFrontier, address: str, connect: Connect) -> None:
    frontier.will("StateEvents", [present(RUNNING), SILENCE])
    client = connect(address)
    listener = controller_of(client, "c").listen(Heard())
    client.close()
    assert listener.join(PATIENCE_S) is True


@of_both_clients
def test_several_listeners_hear_all(frontier: FakeFrontier, controller: CrawlController) -> None:
    frontier.will("StateEvents", *[[present(RUNNING), seeded(1), became(2, FINISHED)]] * 3)
    heard = [Heard() for _ in range(3)]
    for listener in [controller.listen(each, "start") for each in heard]:
        assert listener.join(PATIENCE_S)
    assert [each.numbers for each in heard] == [[1, 2]] * 3


@of_both_clients
def test_leaving_a_controller_closes_its_listeners(frontier: FakeFrontier, controller: Any) -> None:
    silent: list[Answer] = [present(RUNNING), SILENCE]
    frontier.will("StateEvents", silent, silent)
    with controller as entered:
        listeners = [entered.listen(Heard()) for _ in range(2)]
    assert [listener.join(0) for listener in listeners] == [True, True]
    assert set(frontier.asked) == {"StateEvents"}


@of_both_clients
def test_leaving_a_controller_raises_what_a_listener_raised_and_closes_the_others(
    frontier: FakeFrontier, controller: Any
) -> None:
    frontier.will("StateEvents", [present(RUNNING), SILENCE], [present(RUNNING), seeded(1), SILENCE])
    frontier.will("StateEvents", [present(RUNNING), SILENCE])
    with pytest.raises(LookupError, match="event 1 is not to be heard"), controller as entered:
        listeners = [entered.listen(each) for each in (Heard(), Heard(bad=1), Heard())]
        eventually(lambda: ended(listeners[1]))
    assert [listener.join(0) for listener in listeners] == [True] * 3


def ended(listener: Any) -> bool:
    """Whether it hears no more, without asking what it ended with."""
    inner = getattr(listener, "inner", listener)
    return inner._task.done() if isinstance(inner, AsyncListener) else not inner._thread.is_alive()


def test_a_listener_may_close_itself(frontier: FakeFrontier, address: str) -> None:
    frontier.will("StateEvents", [present(RUNNING), seeded(1), seeded(2), SILENCE])
    heard: list[int] = []
    begun = threading.Event()

    def once(event: Event) -> None:
        begun.wait(PATIENCE_S)
        heard.append(event.sequence)
        listener.close()

    with FrontierClient(address) as client:
        listener = CrawlController(client, "c").listen(once, "start")
        begun.set()
        assert listener.join(PATIENCE_S)
    assert heard == [1]


async def test_a_listener_in_a_task_may_close_itself_but_not_wait_for_its_end(
    frontier: FakeFrontier, address: str
) -> None:
    line: list[Answer] = [present(RUNNING), seeded(1), seeded(2), SILENCE]
    frontier.will("StateEvents", line, line)
    heard: list[int] = []

    async def once(event: Event) -> None:
        heard.append(event.sequence)
        await listener.close()

    async def forever(_: Event) -> None:
        await listener.join()

    async with AsyncFrontierClient(address) as client:
        controller = AsyncCrawlController(client, "c")
        listener = await controller.listen(once, "start")
        assert await listener.join(PATIENCE_S)
        assert heard == [1]
        listener = await controller.listen(forever, "start")
        with pytest.raises(RuntimeError, match="cannot wait for its own end"):
            await listener.join(PATIENCE_S)


async def test_a_listener_in_a_task_is_awaited_before_the_next_event(
    frontier: FakeFrontier, address: str
) -> None:
    frontier.will("StateEvents", [present(RUNNING), seeded(1), became(2, FINISHED)])
    steps: list[str] = []

    async def slow(event: Event) -> None:
        steps.append(f"begins {event.sequence}")
        await asyncio.sleep(0)
        steps.append(f"ends {event.sequence}")

    async with AsyncFrontierClient(address) as client, AsyncCrawlController(client, "c") as controller:
        assert await (await controller.listen(slow, "start")).join(PATIENCE_S)
    assert steps == ["begins 1", "ends 1", "begins 2", "ends 2"]


async def test_a_task_that_listens_can_be_cancelled_with_its_loop(
    frontier: FakeFrontier, address: str
) -> None:
    frontier.will("StateEvents", [present(RUNNING), SILENCE])
    async with AsyncFrontierClient(address) as client:
        listener = await AsyncCrawlController(client, "c").listen(Heard())
        (task,) = [each for each in asyncio.all_tasks() if each.get_name() == "toehold-listener"]
        task.cancel()
        assert await listener.join(PATIENCE_S)


async def test_a_task_listens_although_nobody_keeps_it(frontier: FakeFrontier, address: str) -> None:
    frontier.will("StateEvents", [present(RUNNING), UNAVAILABLE], [present(RUNNING), seeded(1), SILENCE])
    heard: asyncio.Queue[int] = asyncio.Queue()
    async with AsyncFrontierClient(address) as client:
        await AsyncCrawlController(client, "c").listen(lambda event: heard.put(event.sequence))
        await asyncio.sleep(0)
        gc.collect()
        assert await asyncio.wait_for(heard.get(), PATIENCE_S) == 1


def test_a_program_that_ends_does_not_wait_for_its_listeners(frontier: FakeFrontier, address: str) -> None:
    frontier.will("StateEvents", [present(RUNNING), seeded(1), SILENCE])
    program = (
        "import sys, threading\n"
        "from toehold_client import CrawlController, FrontierClient\n"
        "heard = threading.Event()\n"
        "crawl = CrawlController(FrontierClient(sys.argv[1]), 'c')\n"
        "crawl.listen(lambda event: heard.set(), 'start')\n"
        "sys.exit(0 if heard.wait(60) else 'nothing was heard')\n"
    )
    command = (sys.executable, "-c", program, address)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_listeners_that_are_over_are_noted_no_more() -> None:
    class Ending:
        over = False

        def close(self) -> None:
            raise AssertionError("nobody closes it here")

    listeners: Listeners[Ending] = Listeners()
    first, second, third = Ending(), Ending(), Ending()
    listeners.add(first)
    listeners.add(second)
    first.over = True
    listeners.add(third)
    assert listeners.take() == [second, third]
    assert listeners.take() == []
