"""An operator who types commands as the manuals have them."""

import re
import subprocess
from pathlib import Path

from acceptance.programs import script
from frontier_harness.waiting import PATIENCE_S

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, heading: str) -> list[list[str]]:
    """The commands of a section, block by block."""
    section = (DOCS / page).read_text().partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return [
        re.findall(r"^\s*\$ (.+)$", block, re.M)
        for block in re.findall(r"```console\n(.+?)```", section, re.S)
    ]


class Operator:
    """Types commands as they are written, with names of theirs for the words in capitals."""

    def __init__(self, frontier: str, **names: Path | str) -> None:
        self._frontier = frontier
        self.names = {word: str(name) for word, name in names.items()}

    def types(self, command: str) -> str:
        """What a command prints that succeeds."""
        for word, name in self.names.items():
            command = re.sub(rf"\b{word}\b", name, command)
        folder = Path(script("toehold")).parent
        done = subprocess.run(
            ["bash", "-c", command],
            env={"PATH": f"{folder}:/usr/bin:/bin", "TOEHOLD_FRONTIER": self._frontier},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout
