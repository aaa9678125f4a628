"""Who on the machine may read what the programs write: the store has the passwords of sites."""

import os
import stat
from pathlib import Path

import pytest
from frontier_harness.access import Installation
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually

from toehold.frontier.v1 import admin_pb2
from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_cli.embedded.crawl_file import CrawlFile, store

OPEN = '"event": "open_to_others"'


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_data_directory_is_open_to_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "above" / "data"
    before = os.umask(0)
    try:
        with ServerProcess(data) as server:
            assert OPEN not in server.errors.read_text()
    finally:
        os.umask(before)
    assert mode_of(data) == 0o700
    assert mode_of(data.parent) == 0o777, "those above it are as the umask says"


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o751, 0o704])
def test_a_server_in_a_directory_open_to_others_warns_and_closes_all_files_to_them(
    tmp_path: Path, mode: int
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(mode)
    with ServerProcess(data) as server:
        server.stubs.admin.CreateCheckpoint(admin_pb2.CreateCheckpointRequest(), timeout=30)
        eventually(lambda: OPEN in server.errors.read_text())
        assert f"chmod o-rwx {data}" in server.errors.read_text()
    assert mode_of(data) == mode, "it is its owner's to change"
    inside = [path for path in data.rglob("*") if not path.is_symlink()]
    assert len(inside) > 10
    assert not [path for path in inside if mode_of(path) & 0o007]


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o2770])
def test_a_server_accepts_a_directory_that_is_closed_to_others_without_a_warning(
    tmp_path: Path, mode: int
) -> None:
    """As systemd makes it (StateDirectoryMode), or Kubernetes (fsGroup)."""
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(mode)
    with ServerProcess(data) as server:
        assert OPEN not in server.errors.read_text()
    assert mode_of(data) == mode


def test_the_log_warns_of_keys_and_callers_files_that_others_may_read(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    _, key = installation.cert("frontier", "localhost")
    installation.caller("alice", "admin")
    for mode, is_told in ((0o640, False), (0o644, True)):
        for file in (key, installation.callers):
            file.chmod(mode)
        with ServerProcess(tmp_path / f"data-{mode}", *installation.flags()) as server:
            told = server.errors.read_text()
        for file in (key, installation.callers):
            assert (f'"path": "{file}"' in told) is is_told


def test_the_crawl_file_of_a_crawl_directory_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    """Its spec may have passwords. The file of a former version is replaced, too."""
    store(tmp_path, CrawlFile("crawl", CrawlSpec(), ()))
    (tmp_path / "crawl.json").chmod(0o644)
    (tmp_path / "crawl.json.tmp").touch(0o644)  # left by a crash
    store(tmp_path, CrawlFile("crawl", CrawlSpec(), ()))
    assert mode_of(tmp_path / "crawl.json") == 0o600
