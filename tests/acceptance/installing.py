"""Releases of a folder's sources, installed into clean environments as a user's pip does it."""

import shutil
import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTALL_S = 900
SPEC = """
name = "{name}"
seeds = ["{seed}"]
allowed_addresses = ["loopback"]
[politeness]
delay_factor = 0.0
min_delay_seconds = 0
"""
"""A crawl of a site on this machine, by what was installed."""


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command, run to its end in a folder."""
    words = list(map(str, command))
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=INSTALL_S)


def sources(folder: Path) -> Path:
    """A copy of this project's sources, as a commit of them would be."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", folder=ROOT).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


class Environments:
    """Clean environments, each with one extra of an archive; made when they are first asked for."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self._archive = archive
        self._folder = folder
        self._made: dict[str, Path] = {}

    def __getitem__(self, extra: str) -> Path:
        """Where the programs of an extra are."""
        if extra not in self._made:
            venv.EnvBuilder(with_pip=True, symlinks=True).create(self._folder / extra)
            there = self._folder / extra / "bin"
            wanted = ("--only-binary", ":all:", f"{self._archive}[{extra}]")
            done = run(there / "pip", "install", "--quiet", *wanted, folder=self._folder)
            assert done.returncode == 0, done.stderr
            assert run(there / "pip", "check", folder=self._folder).returncode == 0
            self._made[extra] = there
        return self._made[extra]
