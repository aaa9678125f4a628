"""The wheel, installed with each extra into a clean environment, as a user's pip does it."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from frontier_harness.soaking import Soak

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "toehold": "cli",
    "toehold-frontier": "frontier",
    "toehold-node": "node",
    "toehold-urlfrontier": "urlfrontier",
}
"""The extra of each program."""
IMPORTED = {
    "client": "from toehold_client import AsyncCrawlController, CrawlController, crawl_spec",
    "scrapy": "import toehold_scrapy.scheduler",
}

pytestmark = [pytest.mark.soak("installs"), pytest.mark.timeout(1800)]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = run(
        *(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", folder, ROOT),
    )
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.parametrize("extra", ["client", "cli", "frontier", "node", "urlfrontier", "scrapy", "all"])
def test_an_extra_installs_what_its_program_needs(
    extra: str, wheel: Path, tmp_path: Path, soak: Soak
) -> None:
    venv.EnvBuilder(with_pip=True, symlinks=True).create(tmp_path / "environment")
    there = tmp_path / "environment" / "bin"
    done = run(there / "pip", "install", "--quiet", "--only-binary", ":all:", f"{wheel}[{extra}]")
    assert done.returncode == 0, done.stderr
    assert run(there / "pip", "check").returncode == 0
    for program, its in PROGRAMS.items():
        help_ = run(there / program, "--help")
        if extra in ("all", its):
            assert (help_.returncode, help_.stderr) == (0, "")
        elif extra in ("client", "cli"):  # other extras have parts of what another program needs
            assert (help_.returncode, help_.stdout) == (1, "")
            assert (
                f'{program} needs further packages; install them with: pip install "toehold' in help_.stderr
            )
        soak.count(checked=1)
    for its, code in IMPORTED.items():
        if extra in ("all", its):
            done = run(there / "python", "-c", code)
            assert (done.returncode, done.stderr) == (0, "")
    if extra == "cli":
        crawl = run(there / "toehold", "crawl", "http://www.example.com/")
        assert crawl.returncode == 1 and 'pip install "toehold-crawler[all]"' in crawl.stderr
