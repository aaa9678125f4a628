"""The gate to the frontier: one at a time, operators first."""

import asyncio

import pytest
from frontier_harness.waiting import turns

from frontier_server.shell.priority_lock import PriorityLock, go_first


class Visitors:
    """Those who go through a gate, in the order in which they do."""

    def __init__(self) -> None:
        self.gate = PriorityLock()
        self.entered: list[str] = []
        self.inside = 0

    def send(self, name: str, first: bool = False) -> asyncio.Task[None]:
        async def visit() -> None:
            if first:
                go_first()
            async with self.gate:
                self.inside += 1
                assert self.inside == 1
                self.entered.append(name)
                await asyncio.sleep(0)
                self.inside -= 1

        return asyncio.create_task(visit())


async def test_operators_go_before_all_that_wait_and_each_kind_in_its_order() -> None:
    visitors = Visitors()
    async with visitors.gate:
        tasks = [visitors.send("a"), visitors.send("b"), visitors.send("A", True), visitors.send("B", True)]
        await turns()
        assert visitors.entered == []
    await asyncio.wait_for(asyncio.gather(*tasks), 20)
    assert visitors.entered == ["A", "B", "a", "b"]


async def test_who_comes_while_somebody_waits_does_not_slip_through() -> None:
    visitors = Visitors()
    async with visitors.gate:
        tasks = [visitors.send("a")]
        await turns()
    tasks.append(visitors.send("b"))
    await asyncio.wait_for(asyncio.gather(*tasks), 20)
    assert visitors.entered == ["a", "b"]


@pytest.mark.parametrize("leaves", [0, 1, 2])
@pytest.mark.parametrize("late", [True, False], ids=["as its turn comes", "before"])
async def test_who_goes_away_keeps_nobody_waiting(leaves: int, late: bool) -> None:
    visitors = Visitors()
    async with visitors.gate:
        tasks = [visitors.send(name, name == "b") for name in "abc"]
        await turns()
        if not late:
            tasks[leaves].cancel()
            await turns()
    tasks[leaves].cancel()
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
    left = "abc"[leaves]
    assert visitors.entered == [name for name in "bac" if name != left]
    async with asyncio.timeout(20):
        async with visitors.gate:
            pass


async def test_an_operation_that_fails_lets_the_next_one_in() -> None:
    visitors = Visitors()

    async def fail() -> None:
        async with visitors.gate:
            raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        await fail()
    await asyncio.wait_for(visitors.send("a"), 20)
