"""Lock files pin packages by version and hash, and leave the place to get them from to each machine."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRITTEN_BY = {
    "requirements/dev.txt": "make lock",
    "examples/go/go.sum": "go mod tidy",
    "examples/typescript/package-lock.json": "make -C examples/typescript lock",
}


@pytest.mark.parametrize(("file", "command"), WRITTEN_BY.items(), ids=list(WRITTEN_BY))
def test_a_lock_file_has_no_address(file: str, command: str) -> None:
    addresses = re.findall(r"\w+://[^\s\"]+", (ROOT / file).read_text())
    assert not addresses, f"{file} must be written by `{command}`, which leaves addresses out"
