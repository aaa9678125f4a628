"""A frontier of three shards for the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from core_doubles.placing import PLACES
from frontier_harness.calls import Stubs, fresh_name
from frontier_harness.process import ServerProcess

from frontier_server.program.shard_map import ShardMap

SHARDS = 3
_MAP = ShardMap(Path(), SHARDS, b"")


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The frontier."""
    with ServerProcess(tmp_path_factory.mktemp("divided") / "data", "--shards", str(SHARDS)) as server:
        yield server


@pytest.fixture
def stubs(divided: ServerProcess) -> Stubs:
    """Both its services."""
    return divided.stubs


@pytest.fixture
def sites() -> list[str]:
    """The first pages of twelve sites of a test's own. A site is in one shard as a whole, and each shard has
    some of them, also without the first."""
    while True:
        test = fresh_name()
        hosts = [f"{test}-{number}.example" for number in range(12)]
        if len({_MAP.shard_of(PLACES.of_host(host)) for host in hosts[1:]}) == SHARDS:
            return [f"http://{host}/" for host in hosts]
