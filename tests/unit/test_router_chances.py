"""What waits for shards in the background: no more than somebody waits for."""

import asyncio
from typing import Any, cast

from frontier_harness.waiting import soon

from frontier_server.router.chances import MAX_KNOWN, Chances, Wish
from frontier_server.shards.links import Link, Links
from frontier_server.shell.tasks import Tasks


class AbsentLink:
    """The way to a shard that is away."""

    number, away = 0, True

    def __init__(self) -> None:
        self.is_present = asyncio.Event()


def made() -> tuple[Chances, Link, Tasks]:
    link = cast(Link, AbsentLink())
    tasks = Tasks(lambda *_: None)
    return Chances(Links([link], lambda _: 0), tasks), link, tasks


def in_background() -> int:
    return sum(task.get_name().startswith("wait for shard") for task in asyncio.all_tasks())


async def test_callers_who_do_not_wait_leave_nothing_behind_that_waits() -> None:
    chances, link, tasks = made()
    for number in range(MAX_KNOWN + 10):
        chances.is_away(chances.of(Wish("c", (), (f"queue {number}",))), link)
    assert in_background() == 0
    await tasks.end()


async def test_a_wait_ends_with_its_last_caller_once_other_wishes_have_come(monkeypatch: Any) -> None:
    monkeypatch.setattr("frontier_server.router.chances.AWAIT_S", 0.0)
    chances, link, tasks = made()
    chance = chances.of(Wish("c", ()))
    with chance.waiter():
        chances.is_away(chance, link)
        assert in_background() == 1
        for number in range(MAX_KNOWN + 1):
            chances.of(Wish("c", (), (f"queue {number}",)))
        for _ in range(10):
            await asyncio.sleep(0)
        assert in_background() == 1
    await soon(lambda: not in_background(), "the end of the wait")
    await tasks.end()
