"""The fixtures of tests with whole programs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.fixtures import parts as parts
from acceptance.fixtures import programs as programs
from acceptance.fixtures import web as web
from faults import room
from faults.power import campaign


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that journals what programs do to files, and lets such calls fail."""
    if campaign.compiler() is None:
        pytest.skip("there is no C compiler (cc): without it no call can be journaled, or made to fail")
    return campaign.build(tmp_path_factory.mktemp("library"))


@pytest.fixture
def disk_to_fill(tmp_path: Path) -> Iterator[Path]:
    """A directory on a disk that no other test fills meanwhile."""
    with room.filling():
        yield tmp_path
