"""Fixtures: the practice web, and programs that are cleared away."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.parts import Parts
from acceptance.programs import Programs

from practice_web.practice import PracticeWeb


@pytest.fixture
def web(tmp_path: Path) -> Iterator[PracticeWeb]:
    """A practice web of the test's own: its log begins with the test."""
    with PracticeWeb(tmp_path / "web") as served:
        yield served


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Starts programs, whose output goes into files in the test's folder; none outlives the test."""
    folder = tmp_path / "programs"
    folder.mkdir()
    with Programs(folder) as started:
        yield started


@pytest.fixture
def parts(web: PracticeWeb, programs: Programs, tmp_path: Path) -> Parts:
    """A frontier that serves, with short leases, and ways to start the rest."""
    return Parts(web, programs, tmp_path)
