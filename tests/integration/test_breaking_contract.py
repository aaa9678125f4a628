"""`make check` refuses a contract that breaks the one of the last release."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kept_releases.keep import CONTRACT, ROOT

BUF = Path(sys.executable).parent / "buf"
FRONTIER = "toehold/frontier/v1/frontier.proto"


def compared(copy: Path) -> subprocess.CompletedProcess[str]:
    """What `make check` says of a contract, compared with the last release."""
    made = subprocess.run(["make", "-n", "check"], cwd=ROOT, capture_output=True, text=True, check=True)
    (command,) = re.findall(r"^\S+buf (breaking .*)", made.stdout, re.MULTILINE)
    *words, image = command.split()
    assert image.endswith(CONTRACT)
    return subprocess.run(
        [BUF, *words, str(ROOT / image)], cwd=copy, capture_output=True, text=True, check=False
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    shutil.copytree(ROOT / "protos", tmp_path / "protos", ignore=shutil.ignore_patterns("*.py", "*.pyi"))
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            r"\n  string media_type = 8;",
            "",
            'field "8" with name "media_type" on message "Report" was deleted',
        ),
        (r"string media_type = 8;", "string media_type = 108;", 'field "8" with name "media_type"'),
        (r"\n  rpc Heartbeat\(.*", "", 'RPC "Heartbeat" on service "FrontierService" was deleted'),
    ],
    ids=["a removed field", "a renumbered field", "a removed RPC"],
)
def test_a_change_that_breaks_clients_is_refused(copy: Path, old: str, new: str, told: str) -> None:
    proto = copy / "protos" / FRONTIER
    text, changes = re.subn(old, new, proto.read_text())
    assert changes == 1
    proto.write_text(text)
    done = compared(copy)
    assert (done.returncode, done.stderr) == (100, "")
    assert told in done.stdout


def test_a_new_field_breaks_nobody(copy: Path) -> None:
    proto = copy / "protos" / FRONTIER
    text = proto.read_text().replace("string media_type = 8;", "string media_type = 8; string new = 999;")
    proto.write_text(text)
    done = compared(copy)
    assert (done.returncode, done.stdout) == (0, "")
