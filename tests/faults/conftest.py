"""The fixtures of tests with whole programs."""

from pathlib import Path

import pytest
from acceptance.fixtures import parts as parts
from acceptance.fixtures import programs as programs
from acceptance.fixtures import web as web
from faults.power import campaign


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that journals what programs do to files, and lets such calls fail."""
    if campaign.compiler() is None:
        pytest.skip("there is no C compiler (cc): without it no call can be journaled, or made to fail")
    return campaign.build(tmp_path_factory.mktemp("library"))
