"""The figures of docs/fetchers.md about keepalive: how often a client may ping."""

from frontier_harness.process import ServerProcess
from frontier_harness.raw_calls import ErrorCodes, Kind, frame, raw_client


async def test_the_fourth_ping_in_a_row_that_comes_too_early_ends_the_connection(
    server: ServerProcess,
) -> None:
    async with raw_client(int(server.address.rpartition(":")[2])) as client:
        for _ in range(3):
            await client.settled()
        assert client.gone_away is None
        client.send(frame(Kind.PING, 0, 0, b"8 bytes."))
        assert await client.until_closed() == ErrorCodes.ENHANCE_YOUR_CALM
        assert client.farewell == b"too_many_pings"
