"""For tests of the client: a frontier that does as it is told, its address, both kinds of client, the
commands.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from client_doubles.blocking import BlockingAsyncClient, Connect, controller_of
from client_doubles.fake_frontier import FakeFrontier, serving
from frontier_harness.command_line import Toehold, toehold_of
from frontier_harness.waiting import PATIENCE_S


@pytest.fixture
def frontier() -> FakeFrontier:
    """Has nothing in line yet."""
    return FakeFrontier()


@pytest.fixture
def address(frontier: FakeFrontier) -> Iterator[str]:
    """Where `frontier` listens."""
    with serving(frontier) as bound:
        yield bound


@pytest.fixture
def toehold_at(address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Toehold:
    """Runs `toehold` on `frontier`: exit code, output, errors. Never a traceback."""
    monkeypatch.setenv("TOEHOLD_FRONTIER", address)
    return toehold_of(capsys)


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients, which are closed after the test: those for asyncio, of which the blocking ones are made.
    What each kind does in its own way is promised `of_both_clients`.
    """
    kind = getattr(request, "param", BlockingAsyncClient)
    with ExitStack() as clients:
        yield lambda address, **settings: clients.enter_context(kind(address, **settings))


@pytest.fixture
def controller(address: str, connect: Connect) -> Any:
    """The controller of the crawl `c`, with patience."""
    return controller_of(connect(address, patience_s=PATIENCE_S), "c")
