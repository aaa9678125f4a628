"""Commands that tools run: to their end, silent unless they fail."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, folder: Path = ROOT, variables: Mapping[str, str] | None = None) -> str:
    """What a command prints. If it fails, this program ends with all that it said."""
    words = list(map(str, command))
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
