"""A frontier of three shards for the tests of a module."""

from collections.abc import Iterator

import pytest
from frontier_harness.calls import Stubs, fresh_name
from frontier_harness.process import ServerProcess


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The frontier."""
    with ServerProcess(tmp_path_factory.mktemp("divided") / "data", "--shards", "3") as server:
        yield server


@pytest.fixture
def stubs(divided: ServerProcess) -> Stubs:
    """Both its services."""
    return divided.stubs


@pytest.fixture
def sites() -> list[str]:
    """The first pages of twelve sites of a test's own. A site is in one shard as a whole, and each shard has
    some of them."""
    test = fresh_name()
    return [f"http://{test}-{number}.example/" for number in range(12)]
