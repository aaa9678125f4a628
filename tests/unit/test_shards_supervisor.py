"""The supervisor of shards: what it says once all members serve."""

from pathlib import Path
from typing import Never

import pytest

from frontier_server.config import ServerFile, usable
from frontier_server.program.shard_map import ShardMap, read_map
from frontier_server.program.supervisor import Supervisor
from toehold_base.process.service_manager import ServiceManager


@pytest.fixture
def shard_map(tmp_path: Path) -> ShardMap:
    found = ShardMap(tmp_path / "data", 2, bytes(16))
    found.write()
    return found


def serve(shard_map: ShardMap) -> None:
    """Let all members say that they serve."""
    settings = ServerFile(shards=2)
    config = usable(shard_map.data, settings)
    supervisor = Supervisor(config, shard_map, settings, ServiceManager(), shard_map.data / "sockets")
    for member in supervisor._members:
        member.address = "127.0.0.1:7707"
        member._take("READY=1")


def test_a_frontier_announces_that_it_serves_and_that_its_map_is_complete(
    shard_map: ShardMap, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(shard_map)
    assert capsys.readouterr().out == "toehold-frontier serving on 127.0.0.1:7707\n"
    assert (found := read_map(shard_map.data)) is not None and found.complete


def test_a_frontier_announces_that_it_serves_although_its_map_cannot_be_written(
    shard_map: ShardMap, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ShardMap) -> Never:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ShardMap, "write", full)
    serve(shard_map)
    told = capsys.readouterr()
    assert "toehold-frontier serving on 127.0.0.1:7707\n" in told.out
    assert (found := read_map(shard_map.data)) is not None and not found.complete
