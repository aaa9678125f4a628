"""The leader of the shards, when a shard refuses what it is asked."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.calls import spec
from frontier_harness.held_store import HeldStore
from frontier_harness.in_process import config, running
from frontier_harness.waiting import soon

from frontier_server import wire
from frontier_server.coordinator.coordinator import Announcement, Coordinator
from frontier_server.coordinator.leader import Leader
from frontier_server.coordinator.parking import Parked, Parking
from frontier_server.coordinator.whole import whole_crawls
from frontier_server.core.rows.errors import CursorTooOld, FrontierError, UnknownCrawl
from frontier_server.core.rows.records import EventRow, encode
from frontier_server.core.state.model import Verdict
from frontier_server.shards.links import Link, Relayed
from frontier_server.shell.runner import Runner
from frontier_server.wire.status import of_error
from toehold.frontier.v1 import frontier_pb2
from toehold.shard.v1 import shard_pb2

PROBLEM = EventRow(1, "problem", {"kind": "trouble", "detail": "a thing went wrong"})


class Shard(Link):
    """A shard that has one event to tell of a crawl, and refuses some methods for a while."""

    def __init__(self, crawl: str, number: int, refused: dict[str, FrontierError]) -> None:
        super().__init__(0, None)
        self._progress = shard_pb2.Progress(
            crawl=crawl, number=number, moment=1, state="RUNNING", last_event=1
        )
        self._refused = dict(refused)

    async def call(
        self,
        method: str,
        request: Any,
        kind: Any,
        timeout_s: float = 0,
        metadata: Any = (),
        is_deadline: bool = False,
    ) -> Any:
        asked = method.rpartition("/")[2]
        if (refusal := self._refused.pop(asked, None)) is not None:
            code, details, trailer = of_error(refusal)
            raise Relayed(code, details, trailer)
        if asked == "Look":
            told = [self._progress] if list(request.crawls) else []
            return shard_pb2.LookResponse(incarnation=1, progress=told)
        if asked == "ListEvents":
            row = shard_pb2.StoredEvent(number=1, row=encode(PROBLEM))
            return shard_pb2.ListEventsResponse(events=[row] if request.after < 1 else [])
        return shard_pb2.ObeyResponse(incarnation=1)

    async def messages(
        self, method: str, request: Any, kind: Any, silent_s: float
    ) -> AsyncGenerator[Any, None]:
        yield shard_pb2.FollowResponse(incarnation=1, progress=[self._progress])
        await asyncio.Event().wait()


async def announce(announcement: Announcement) -> Sequence[Verdict]:
    raise AssertionError("no seeds were added")


async def deliver(parked: Parked) -> None:
    raise AssertionError("no links were parked")


def problems(runner: Runner) -> list[object]:
    events = runner.core.history.events_after("t", 0)
    return [row.fields["detail"] for _, row in events if row.kind == "problem"]


async def create(runner: Runner, crawl: str) -> None:
    plain = spec()
    made, said = wire.settings_of(plain), plain.SerializeToString()
    await runner.run(lambda core, now: core.control.create_crawl(crawl, made, said, now))


async def park(runner: Runner, parking: Parking, crawl: str) -> None:
    """Park a link of a crawl for its only part."""
    link = wire.candidate(frontier_pb2.Candidate(uri="http://a.example/"))
    await runner.run(lambda core, now: parking.park(crawl, 0, [link], now))


@pytest.mark.parametrize(
    "refused",
    [
        {"ListEvents": UnknownCrawl("there is no crawl t")},
        {"ListEvents": CursorTooOld("events after 0 are no longer kept", oldest="5")},
        {"Obey": UnknownCrawl("there is no crawl t")},
        {"Look": UnknownCrawl("there is no crawl t")},
    ],
    ids=lambda refused: " ".join(f"{method}-{type(error).__name__}" for method, error in refused.items()),
)
def test_a_refusal_of_a_shard_does_not_end_its_leading(
    tmp_path: Path, refused: dict[str, FrontierError]
) -> None:
    async def lead() -> None:
        async with running(HeldStore(), config(tmp_path), make=whole_crawls(1)) as runner:
            await create(runner, "t")
            shard = Shard("t", runner.core.views.crawl("t").number, refused)
            core = runner.core.shard
            await Leader(Coordinator(core, 1), Parking(core), runner, [shard], announce, deliver).begin()
            failed = runner.failed
            await soon(lambda: failed.done() or (not shard.away and problems(runner)), "the shard's event")
            assert not failed.done(), failed.result()
            assert problems(runner) == ["shard 0: a thing went wrong"]

    asyncio.run(lead())


def test_links_that_a_shard_refuses_do_not_hold_up_those_of_other_crawls(tmp_path: Path) -> None:
    delivered: list[str] = []

    async def deliver_to_one(parked: Parked) -> None:
        if parked.crawl == "t":
            raise UnknownCrawl("there is no crawl t")
        delivered.append(parked.crawl)

    async def lead() -> None:
        async with running(HeldStore(), config(tmp_path), make=whole_crawls(1)) as runner:
            shard, core = runner.core.shard, runner.core
            parking = Parking(shard)
            for name in ("t", "u"):
                await create(runner, name)
                await park(runner, parking, name)
            absent = Shard("t", core.views.crawl("t").number, {})
            await Leader(Coordinator(shard, 1), parking, runner, [absent], announce, deliver_to_one).begin()
            await soon(lambda: not parking.counts("u"), "the links of the other crawl")
            assert parking.counts("t") == {0: 1}

    asyncio.run(lead())
    assert delivered == ["u"]
