"""Many readers of a crawl's events in one process: `readers.py ADDRESS CRAWL COUNT`.

It prints a line when each of them has heard where the crawl is; then, for every line on its standard input,
how many events all of them have heard together.
"""

import asyncio
import sys

import grpc

from toehold.frontier.v1 import frontier_pb2, frontier_pb2_grpc

STREAMS_A_CONNECTION = 500
AT_ONCE = 50
TRIES, REST_S = 30, 0.5


class Readers:
    """All of them."""

    def __init__(self) -> None:
        self.heard = 0
        self._opening = asyncio.Semaphore(AT_ONCE)
        self._reading: set[asyncio.Task[None]] = set()

    async def open(self, stub: "frontier_pb2_grpc.FrontierServiceAsyncStub", crawl: str) -> None:
        """One more, which has heard where the crawl is."""
        async with self._opening:
            for tries_left in reversed(range(TRIES)):
                stream = stub.StateEvents(frontier_pb2.StateEventsRequest(crawl=crawl))
                try:
                    await stream.read()
                    break
                except grpc.aio.AioRpcError:  # a server that is busy with others may turn one away
                    if not tries_left:
                        raise
                    await asyncio.sleep(REST_S)
        self._reading.add(asyncio.create_task(self._read(stream)))

    async def _read(
        self,
        stream: "grpc.aio.UnaryStreamCall[frontier_pb2.StateEventsRequest, frontier_pb2.StateEventsResponse]",
    ) -> None:
        while isinstance(message := await stream.read(), frontier_pb2.StateEventsResponse):
            self.heard += message.HasField("event")


async def main(address: str, crawl: str, count: int) -> None:
    """Until its standard input ends."""
    readers = Readers()
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(address, options) for _ in range(-(-count // STREAMS_A_CONNECTION))]
    stubs = [frontier_pb2_grpc.FrontierServiceStub(channel) for channel in channels]
    await asyncio.gather(*(readers.open(stubs[number % len(stubs)], crawl) for number in range(count)))
    print(readers.heard, flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(readers.heard, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
