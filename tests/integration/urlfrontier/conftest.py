"""A frontier with a gateway, for the tests that only talk to one."""

from collections.abc import Iterator

import pytest
from frontier_harness.gateway import Client, GatewayProcess, fresh_id
from frontier_harness.process import ServerProcess


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway for all tests. Use crawls of your own."""
    folder = tmp_path_factory.mktemp("gateway")
    with (
        ServerProcess(folder / "data") as server,
        GatewayProcess(server.address, folder / "gateway.stderr") as made,
    ):
        yield made
        assert made.stop() == 0, made.errors.read_text()
        assert "Traceback" not in made.errors.read_text()


@pytest.fixture
def client(gateway: GatewayProcess) -> Client:
    """A client of it."""
    return gateway.client


@pytest.fixture
def crawl_id() -> str:
    """The id of a crawl of the test's own."""
    return fresh_id()
