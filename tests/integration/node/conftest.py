"""A site, a fetcher, a frontier and a node, for the tests of the crawler node."""

from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from node_doubles.frontier import FakeFrontier
from node_doubles.loopback import Fetching, Site
from node_doubles.node import Run

from crawler_node.fetching.addresses import Resolver


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture
def resolver() -> Resolver:
    """Every name leads to loopback."""
    return Resolver(lookup=lambda host: [IPv4Address("127.0.0.1")])


@pytest.fixture
def fetcher(resolver: Resolver) -> Iterator[Fetching]:
    fetcher = Fetching(resolver)
    yield fetcher
    fetcher.close()


@pytest.fixture
def frontier() -> Iterator[FakeFrontier]:
    frontier = FakeFrontier()
    yield frontier
    frontier.stop()


@pytest.fixture
def run(frontier: FakeFrontier, tmp_path: Path) -> Iterator[Run]:
    run = Run(frontier, tmp_path)
    yield run
    run.end()
