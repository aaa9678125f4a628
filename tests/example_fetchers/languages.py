"""The fetchers in examples/: the toolchain that each needs, and how it is built.

Each folder's Makefile has the target `build`, which puts a program `fetcher` into build/examples/LANGUAGE.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TOOLCHAINS = {
    "go": ("go",),
    "java": ("java", "javac", "mvn"),
    "rust": ("cargo",),
    "typescript": ("node", "npm"),
}
"""The programs that building and running an example takes, by its folder."""


class NotBuilt(Exception):
    """The example could not be built."""


@dataclass(frozen=True, slots=True)
class Example:
    """One folder of examples/."""

    language: str

    @property
    def folder(self) -> Path:
        """Where its source is."""
        return ROOT / "examples" / self.language

    @property
    def program(self) -> Path:
        """What its build makes."""
        return ROOT / "build" / "examples" / self.language / "fetcher"

    @property
    def missing_tools(self) -> list[str]:
        """The programs of its toolchain that this machine lacks."""
        return [tool for tool in TOOLCHAINS.get(self.language, ()) if shutil.which(tool) is None]

    @property
    def is_built(self) -> bool:
        """Whether its program is there, and no older than its source."""
        return self.program.exists() and self._make("--question").returncode == 0

    def build(self) -> None:
        """Builds it. Raises NotBuilt, with what the build printed."""
        done = self._make()
        if done.returncode != 0:
            raise NotBuilt(done.stdout)
        if not self.program.exists():
            raise NotBuilt(f"make build must write {self.program.relative_to(ROOT)}, which is missing")

    def command(self, frontier: str, crawl: str, name: str, toes: int) -> list[str]:
        """How its program is started."""
        flags = ("--frontier", frontier, "--crawl", crawl, "--name", name, "--toes", str(toes))
        return [str(self.program), *flags]

    def _make(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "--no-print-directory", "-C", str(self.folder), *options, "build"]
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def examples() -> list[Example]:
    """All examples, by language."""
    return [Example(file.parent.name) for file in sorted((ROOT / "examples").glob("*/Makefile"))]
