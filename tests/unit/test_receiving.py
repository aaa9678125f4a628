"""Places for messages that are being received: connections take turns, and slow ones are hurried."""

import asyncio

import pytest
from frontier_harness.waiting import PATIENCE_S, soon, turns

from toehold_base.serving.places import Places


class Senders:
    """Calls that ask for a place and keep it until they are let go."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.got: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def send(self, name: str) -> asyncio.Task[None]:
        """A call by its connection and number, such as a1."""
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._one(name))
        return self._tasks[name]

    async def _one(self, name: str) -> None:
        async with self._places.one(lambda: name[0], PATIENCE_S):
            self.got.append(name)
            await self._ends[name].wait()

    async def arrive(self, name: str) -> None:
        """Its message is there."""
        self._ends[name].set()
        await self._tasks[name]


async def test_places_go_to_connections_in_turn() -> None:
    senders = Senders(Places(1, PATIENCE_S))
    for name in ("a1", "a2", "a3", "a4", "b1", "c1"):
        senders.send(name)
        await asyncio.sleep(0)
    for name in ("a1", "a2", "b1", "c1", "a3", "a4"):
        await soon(lambda name=name: senders.got[-1:] == [name], name)  # type: ignore[misc]
        await senders.arrive(name)
    assert senders.got == ["a1", "a2", "b1", "c1", "a3", "a4"]


async def test_a_slow_message_is_cut_off_only_while_others_wait() -> None:
    senders = Senders(Places(1, 0.0))
    first = senders.send("a1")
    await turns()
    assert not first.done()
    senders.send("b1")
    with pytest.raises(TimeoutError):
        await first
    await soon(lambda: senders.got == ["a1", "b1"])
    await senders.arrive("b1")


async def test_a_call_cancelled_while_it_waits_leaves_its_turn_to_the_next_call() -> None:
    places = Places(1, PATIENCE_S)
    senders = Senders(places)
    for name in ("a1", "a2", "b1"):
        task = senders.send(name)
        await asyncio.sleep(0)
        if name == "a2":
            leaving = task
    leaving.cancel()
    await senders.arrive("a1")
    await soon(lambda: senders.got == ["a1", "b1"])
    await senders.arrive("b1")
    assert not places.all_taken


async def test_a_call_cancelled_as_it_gets_a_place_passes_the_place_on() -> None:
    places = Places(1, PATIENCE_S)
    senders = Senders(places)
    waiting = [senders.send(name) for name in ("a1", "a2", "b1")]
    await asyncio.sleep(0)
    senders._ends["a1"].set()
    await asyncio.wait(waiting[:1])
    waiting[1].cancel()
    await soon(lambda: senders.got[-1] == "b1")
    await senders.arrive("b1")
    assert not places.all_taken


async def test_a_call_that_gets_no_place_in_time_raises_timeout_error() -> None:
    places = Places(1, PATIENCE_S)
    async with places.one(lambda: "a", PATIENCE_S):
        with pytest.raises(TimeoutError):
            async with places.one(lambda: "b", 0.0):
                raise AssertionError("there was no place")
    assert not places.all_taken
