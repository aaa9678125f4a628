"""More callers than a frontier can serve, in a process: `crowd.py ADDRESS FOLDER` and how many of each kind.

Prints `all are there` when every stream is open and something was taken in; ends with its standard input, and
prints what became of it. What feeders were told was taken in is written to FOLDER/acknowledged, a URI on a
line.
"""

import argparse
import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
from frontier_harness.calls import Refusal, finished_request, next_request, report

from toehold.frontier.v1 import admin_pb2, admin_pb2_grpc, frontier_pb2, frontier_pb2_grpc
from toehold_client import AsyncFrontierClient
from toehold_client.errors import RefusedForNow, ToeholdError
from toehold_client.rpc.retry import Retries

CRAWL, WATCHED = "crowded", "watched"
FOLLOW_WORK = 20  # of so many streams one follows the crawl that the nodes work for: each of them joins it
HOSTS = 500
MIB = 1024 * 1024
ON_A_CHANNEL = 200
BATCH = 250
WAIT_S = 20.0
SLOW = 7  # of so many streams one is never read


class Crowd:
    """Callers of all kinds, and what they were told."""

    def __init__(self, address: str, folder: Path, batches: int) -> None:
        self._address = address
        self._batches = batches
        self._acknowledged = (folder / "acknowledged").open("a")
        self._channels: list[grpc.aio.Channel] = []
        self.told: Counter[str] = Counter()
        self.open_streams = 0

    def channel(self, number: int) -> grpc.aio.Channel:
        """The connection of a caller; some share one."""
        while len(self._channels) <= number // ON_A_CHANNEL:
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", 64 * MIB)]
            self._channels.append(grpc.aio.insecure_channel(self._address, options))
        return self._channels[number // ON_A_CHANNEL]

    async def follow(self, number: int) -> None:
        """Read the events of a crawl; or open a stream of them, and never read on."""
        stub: Any = frontier_pb2_grpc.FrontierServiceStub(self.channel(number))
        while True:
            is_open = False
            try:
                crawl = WATCHED if number % FOLLOW_WORK else CRAWL
                asked = frontier_pb2.StateEventsRequest(crawl=crawl, cursor="start")
                async for _ in stub.StateEvents(asked):
                    self.told["events"] += 1
                    self.open_streams += not is_open
                    is_open = True
                    if number % SLOW == 0:
                        await asyncio.Event().wait()
            except grpc.aio.AioRpcError as problem:
                await self._obey("StateEvents", problem)
            finally:
                self.open_streams -= is_open

    async def fetch(self, number: int) -> None:
        """Be a node: ask for leases, wait for them, report them."""
        stub: Any = frontier_pb2_grpc.FrontierServiceStub(self.channel(number))
        node = f"n{number}"
        while True:
            try:
                asked = next_request(CRAWL, 5, WAIT_S, node, node)
                leases = (await stub.Next(asked, timeout=WAIT_S + 60)).leases
                if leases:
                    reports = [report(lease) for lease in leases]
                    await stub.Finished(finished_request(*reports, node=node, session=node), timeout=60)
                    self.told["reported"] += len(leases)
            except grpc.aio.AioRpcError as problem:
                await self._obey("node", problem)

    async def send_much(self, number: int) -> None:
        """Send the largest request that there may be, again and again."""
        stub: Any = self.channel(number).unary_unary("/toehold.frontier.v1.FrontierService/Schedule")
        via = "x" * 8000
        candidates = [
            frontier_pb2.Candidate(
                uri=f"http://h{place % HOSTS}.example/large/{number}/{place}", path="L", via=via
            )
            for place in range(1000)
        ]
        data = frontier_pb2.ScheduleRequest(crawl=CRAWL, candidates=candidates).SerializeToString()
        while True:
            try:
                await stub(data, timeout=60)
                self.told["large ones taken"] += 1
            except grpc.aio.AioRpcError as problem:
                await self._obey("large", problem)

    async def never_end(self, number: int) -> None:
        """Open a stream of seeds that has no end."""
        stub: Any = admin_pb2_grpc.FrontierAdminServiceStub(self.channel(number))

        async def seeds() -> AsyncIterator[admin_pb2.AddSeedsRequest]:
            yield admin_pb2.AddSeedsRequest(crawl=CRAWL, uris=[f"http://endless{number}.example/"])
            await asyncio.Event().wait()

        while True:
            try:
                await stub.AddSeeds(seeds())
            except grpc.aio.AioRpcError as problem:
                await self._obey("endless", problem)

    async def feed(self, number: int) -> None:
        """Offer URIs by the client, which waits when it is told to; write down what was taken in."""
        async with AsyncFrontierClient(self._address, patience_s=3_600) as client:
            for batch in range(self._batches):
                uris = [
                    f"http://h{(number + place) % HOSTS}.example/{number}/{batch}/{place}"
                    for place in range(BATCH)
                ]
                offered = [frontier_pb2.Candidate(uri=uri, path="L") for uri in uris]
                try:
                    await client.schedule(CRAWL, offered)
                except ToeholdError as problem:
                    self.told[f"feeder {type(problem).__name__}"] += 1
                    continue
                self._acknowledged.write("".join(f"{uri}\n" for uri in uris))
                self.told["acknowledged"] += BATCH

    async def _obey(self, who: str, problem: grpc.aio.AioRpcError) -> None:
        """Wait as long as a refusal says."""
        refusal = Refusal.of(problem)
        self.told[f"{who} {refusal.code.name} {refusal.reason}"] += 1
        if refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED and refusal.reason and not refusal.retry_s:
            self.told["refused without a hint"] += 1
        await asyncio.sleep(refusal.retry_s or 1)

    def close(self) -> None:
        """All that was acknowledged is written down."""
        self._acknowledged.close()


def watch_hints(told: Counter[str]) -> None:
    """Count how often the client is told to come again later, and whether it rests as long as that."""
    judged: Callable[..., float | None] = Retries.rest_s

    def rest_s(self: Retries, error: ToeholdError, *, safe_to_repeat: bool) -> float | None:
        found = judged(self, error, safe_to_repeat=safe_to_repeat)
        if isinstance(error, RefusedForNow):
            told["hints"] += 1
            told["hints ignored"] += found is not None and found < error.retry_after_s
        return found

    Retries.rest_s = rest_s  # type: ignore[method-assign]  # to listen in


async def crowd(asked: argparse.Namespace) -> None:
    """Be there until nobody needs it any more."""
    made = Crowd(asked.address, Path(asked.folder), asked.batches)
    watch_hints(made.told)
    kinds: list[tuple[Callable[[int], Coroutine[Any, Any, None]], int]] = [
        (made.follow, asked.streams),
        (made.fetch, asked.nodes),
        (made.send_much, asked.large),
        (made.never_end, asked.endless),
        (made.feed, asked.feeders),
    ]
    tasks: list[asyncio.Task[None]] = []
    for kind, count in kinds:
        tasks += [asyncio.create_task(kind(number)) for number in range(count)]
        while made.open_streams < asked.streams:  # those who follow come first
            _fail_with(tasks)
            await asyncio.sleep(0.1)
    while asked.endless and not made.told["endless RESOURCE_EXHAUSTED OVERLOADED"]:  # more than are taken
        _fail_with(tasks)
        await asyncio.sleep(0.1)
    while asked.feeders and not made.told["acknowledged"]:
        _fail_with(tasks)
        await asyncio.sleep(0.1)
    print("all are there", flush=True)
    over: Awaitable[bytes] = asyncio.to_thread(sys.stdin.buffer.read)
    await over
    _fail_with(tasks)
    made.close()
    print(json.dumps(made.told), flush=True)
    os._exit(0)  # its calls are left to the server


def _fail_with(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done():
            task.result()  # what a caller failed with


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("folder")
    for name in ("streams", "nodes", "large", "endless", "feeders"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--batches", type=int, default=10**9, help="of each feeder")
    asyncio.run(crowd(parser.parse_args()))
