"""A frontier server for the tests that only talk to one, and one whose parts a test has in its hands."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from frontier_harness.calls import Stubs, fresh_name, seed_of
from frontier_harness.command_line import Toehold, toehold_of
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.process import ServerProcess
from frontier_harness.shared import SharedServer


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    """A server process for all tests. Crawls share their hosts' rests: use hosts of your own."""
    server = SharedServer(tmp_path_factory.mktemp("server"))
    yield server
    server.close()


@pytest.fixture
def server(shared_server: SharedServer) -> Iterator[ServerProcess]:
    """The server, which must still serve after the test."""
    yield shared_server.running
    shared_server.check()


@pytest.fixture
def stubs(server: ServerProcess) -> Stubs:
    """Both its services."""
    return server.stubs


@pytest.fixture
def crawl(stubs: Stubs) -> str:
    """The name of a crawl that runs, with one seed on a host of its own."""
    name = fresh_name()
    stubs.launch(name, seed_of(name))
    return name


@pytest.fixture
def toehold_at(
    server: ServerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Toehold:
    """Runs `toehold` on the server: exit code, output, errors. Never a traceback."""
    monkeypatch.setenv("TOEHOLD_FRONTIER", server.address)
    return toehold_of(capsys)


@pytest.fixture
def store() -> HeldStore:
    """A store in memory, whose writes can be held up and looked at."""
    return HeldStore()


@pytest.fixture
def at(store: HeldStore, tmp_path: Path) -> Iterator[Hosted]:
    """A frontier in the test's process, over that store."""
    with hosted(store, tmp_path) as made:
        yield made
