"""The gateway in front of several shards, one of which stands still: the URLs of the others go on."""

import os
import signal
import time
from pathlib import Path

from frontier_harness.gateway import FAIL, OK, GatewayProcess, discovered, known
from frontier_harness.members import members
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2
from urlfrontier_gateway.frontier import PATIENCE_S


def test_urls_of_the_other_shards_are_put_given_and_completed(tmp_path: Path) -> None:
    urls = [f"http://site{number}.example/" for number in range(12)]
    with (
        ServerProcess(tmp_path / "data", "--shards", "2") as server,
        GatewayProcess(server.address, tmp_path / "gateway.stderr") as gateway,
    ):
        client, admin = gateway.client, server.stubs.admin
        assert client.put(*map(discovered, urls)) == [OK] * 12
        held: list[str] = []

        def all_held() -> bool:
            held.extend(client.get(delay_requestable=3))
            return len(held) == 12

        eventually(all_held, "all URLs")
        os.kill(members(server.child)["shard-1"], signal.SIGSTOP)
        try:

            def is_away() -> bool:
                shards = admin.GetFrontier(admin_pb2.GetFrontierRequest()).shards
                return not all(shard.present for shard in shards)

            eventually(is_away, "its absence to be noted")
            given: list[str] = []

            def some_given() -> bool:
                given.extend(client.get(delay_requestable=60))
                return bool(given)

            eventually(some_given, "URLs whose time is over")
            assert set(client.put(*(known(url) for url in given))) == {OK}
            lost = [url for url in urls if url not in given]
            assert set(client.put(*(known(url) for url in lost))) == {FAIL}
            assert client.put(*(discovered(f"{url}new") for url in urls)) == [OK] * 12
            began_s = time.monotonic()
            done = client.put(*(known(f"{url}done") for url in urls))  # of which the gateway has no leases
            assert time.monotonic() - began_s < PATIENCE_S, "nobody waits for the shard"
            assert done == [FAIL if url in lost else OK for url in urls]
        finally:
            os.kill(members(server.child)["shard-1"], signal.SIGCONT)
        rest: list[str] = []

        def the_rest() -> bool:
            rest.extend(client.get(delay_requestable=60))
            return set(rest) >= {*lost, *(f"{url}new" for url in urls)}

        eventually(the_rest, "all others")
        assert len(rest) == len(set(rest))
