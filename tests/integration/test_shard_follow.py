"""What a front hears of a shard whose log is slow: that it is there, and nothing that may be lost."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.calls import spec
from frontier_harness.held_store import HeldStore
from frontier_harness.in_process import config, opened
from frontier_harness.waiting import PATIENCE_S, soon

from frontier_server.core.state.order import Order, digest_of
from frontier_server.logs.job_feed import JobFeed
from frontier_server.logs.job_log import JobLogs
from frontier_server.service import shard
from frontier_server.service.shard import ShardService
from frontier_server.shell.exchange import Exchange
from frontier_server.shell.runner import Runner
from toehold.shard.v1 import shard_pb2

INCARNATION = 7
NOBODY: Any = None  # what these calls have no use for
SHORT_S = 0.02


class SlowLog:
    """A log that this process owns, as far as a flush has looked."""

    is_current = False
    waits_for = ""

    def abandon(self) -> None:
        """Nothing waits."""


@pytest.fixture
def store() -> Iterator[HeldStore]:
    """Lets all flushes go at the end."""
    store = HeldStore()
    yield store
    store.release()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life come soon."""
    monkeypatch.setattr(shard, "KEEPALIVE_S", SHORT_S)


@asynccontextmanager
async def a_shard(store: HeldStore, data: Path) -> AsyncIterator[tuple[Runner, ShardService]]:
    settings = config(data)
    core, clock = opened(store, settings)
    feed = JobFeed(JobLogs(data), core)
    runner = Runner(core, store, clock, data, 0, settings.heartbeat_ms, feed, ownership=SlowLog())
    try:
        yield runner, ShardService(Exchange(runner), INCARNATION, NOBODY, NOBODY, NOBODY)
    finally:
        store.release()
        await asyncio.wait_for(runner.close(), PATIENCE_S)


async def make_part(runner: Runner, crawl: str) -> None:
    """Make the part of a crawl, of which nothing is durable yet."""
    said = spec().SerializeToString()
    order = Order(crawl, 1, 1, digest_of(said, ()), said)
    await runner.apply(lambda core, now_ms: core.orders.obey(order, now_ms))


def follow(service: ShardService) -> Any:
    """The messages of a stream, which is closed in time."""
    return aclosing(service.Follow(shard_pb2.FollowRequest(), NOBODY))


async def test_a_shard_tells_that_it_is_there_and_nothing_more_until_what_it_has_is_durable(
    tmp_path: Path, store: HeldStore
) -> None:
    async with a_shard(store, tmp_path) as (runner, service):
        store.hold()
        await make_part(runner, "t")
        async with asyncio.timeout(PATIENCE_S), follow(service) as messages:
            for _ in range(5):
                message = await anext(messages)
                assert message == shard_pb2.FollowResponse(incarnation=INCARNATION)
            store.release()
            while not (message := await anext(messages)).progress:
                pass
            assert [each.crawl for each in message.progress] == ["t"]
            assert message.change > 0


async def test_a_stream_that_ends_while_its_shard_waits_leaves_nothing_behind(
    tmp_path: Path, store: HeldStore
) -> None:
    async with a_shard(store, tmp_path) as (runner, service):
        store.hold()
        await make_part(runner, "t")
        before = asyncio.all_tasks()
        async with asyncio.timeout(PATIENCE_S), follow(service) as messages:
            await anext(messages)
            assert len(asyncio.all_tasks() - before) == 1
        assert not asyncio.all_tasks() - before
        store.release()
        await runner.read(lambda core, now_ms: None)


async def test_a_stream_that_is_cancelled_while_its_shard_waits_leaves_nothing_behind(
    tmp_path: Path, store: HeldStore
) -> None:
    heard: list[object] = []

    async def listen(service: ShardService) -> None:
        async with follow(service) as messages:
            async for message in messages:
                heard.append(message)

    async with a_shard(store, tmp_path) as (runner, service):
        store.hold()
        await make_part(runner, "t")
        before = asyncio.all_tasks()
        listening = asyncio.create_task(listen(service))
        await soon(lambda: len(heard) > 2)
        listening.cancel()
        await asyncio.wait((listening,))
        assert not asyncio.all_tasks() - before


async def test_a_shard_that_has_waited_for_very_long_says_nothing_until_it_goes_on(
    tmp_path: Path, store: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard, "AWAY_S", 5 * SHORT_S)
    async with a_shard(store, tmp_path) as (runner, service):
        store.hold()
        await make_part(runner, "t")
        async with asyncio.timeout(PATIENCE_S), follow(service) as messages:
            with pytest.raises(TimeoutError):
                while True:
                    async with asyncio.timeout(20 * SHORT_S):
                        message = await anext(messages)
                        assert not message.progress


async def test_a_shard_that_waits_for_its_log_answers_a_look_at_none_of_its_crawls(
    tmp_path: Path, store: HeldStore
) -> None:
    async with a_shard(store, tmp_path) as (runner, service):
        store.hold()
        await make_part(runner, "t")
        async with asyncio.timeout(PATIENCE_S):
            answer = await service.Look(shard_pb2.LookRequest(), NOBODY)
        assert answer == shard_pb2.LookResponse(incarnation=INCARNATION)
        looking = asyncio.create_task(service.Look(shard_pb2.LookRequest(crawls=["t"]), NOBODY))
        await soon(lambda: runner.awaiting_flush)
        assert not looking.done()
        store.release()
        assert [each.crawl for each in (await looking).progress] == ["t"]
