"""The waits of the shell end when they are cancelled, whenever that is."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from frontier_server.shell.runner import Runner


@pytest.mark.parametrize("turns", range(4))
async def test_a_wait_for_log_lines_that_is_cancelled_as_it_ends_is_cancelled(turns: int) -> None:
    wanted = asyncio.Event()
    runner = cast(Runner, SimpleNamespace(_log_wanted=wanted))

    async def for_ever() -> None:
        while True:
            await Runner.until_log_wanted(runner, 60)

    task = asyncio.create_task(for_ever())
    await asyncio.sleep(0)
    wanted.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=5)
    assert done and task.cancelled()
