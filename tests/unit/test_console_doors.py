"""The console's doors to a frontier: one for each token, and few of them stay open."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from toehold_client.credentials import Credentials
from toehold_console import door
from toehold_console.door import Door, Doors


async def test_a_door_that_is_used_again_stays_open_while_others_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: asyncio.Queue[Door] = asyncio.Queue()
    go_on = asyncio.Event()

    async def close(self: Door) -> None:
        closed.put_nowait(self)
        await go_on.wait()

    monkeypatch.setattr(Door, "close", close)
    doors = Doors("127.0.0.1:1", Credentials())
    made = [await _passed(doors, f"token-{number}") for number in range(4)]
    monkeypatch.setattr(door, "MOST_DOORS", 1)
    async with AsyncExitStack() as stack:
        passing = asyncio.create_task(_passed(doors, "another"))
        assert await closed.get() is made[0]
        entering = asyncio.create_task(stack.enter_async_context(doors.to_frontier("token-1")))
        assert await closed.get() is made[2]
        go_on.set()
        assert await entering is made[1]
        await passing
        assert await closed.get() is made[3]
        assert made[1] not in [closed.get_nowait() for _ in range(closed.qsize())]


async def _passed(doors: Doors, token: str) -> Door:
    async with doors.to_frontier(token) as passed:
        return passed
