"""A power cut does not take the names of new files: the directories above them are synced."""

import os
from pathlib import Path

import pytest
from frontier_harness.in_process import config
from node_doubles.warcs import visit

from crawler_node.output.pages import PagesWriter
from crawler_node.output.warc import WarcWriter
from frontier_server.program import data_directory
from frontier_server.stores.checkpoints import Checkpoints
from frontier_server.stores.rocks import RocksStore
from toehold_base import durable
from toehold_cli.embedded.crawl_file import write_json


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that were synced, in order, each with the names that it had then behind it."""
    found: list[Path] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            found.append(path)
            found.extend(path.iterdir())

    monkeypatch.setattr(os, "fsync", noting)
    return found


def test_a_directory_is_made_with_all_above_it_that_are_missing(tmp_path: Path, synced: list[Path]) -> None:
    path = tmp_path / "a" / "b" / "c"
    durable.make_directory(path)
    assert {path, path.parent, path.parent.parent} <= set(synced)
    synced.clear()
    durable.make_directory(path)  # somebody may have made it, and have died before it was durable
    assert path in synced


def test_a_new_store_is_there_for_good_before_anybody_is_served(tmp_path: Path, synced: list[Path]) -> None:
    data = tmp_path / "a" / "data"
    store, _ = data_directory.open_data(config(data), b"s" * 16)
    store.close()
    assert {data / "store", data, data.parent} <= set(synced)


def test_a_checkpoint_that_was_made_is_there_for_good(tmp_path: Path, synced: list[Path]) -> None:
    store = RocksStore(tmp_path / "store")
    checkpoints = Checkpoints(tmp_path, store)
    kept = checkpoints.create(0)
    assert {kept.path, kept.path.parent} <= set(synced)
    store.close()


def test_a_checkpoint_loses_its_name_for_good_before_its_files(
    tmp_path: Path, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut might leave a part of one under the name of the whole."""
    store = RocksStore(tmp_path / "store")
    checkpoints = Checkpoints(tmp_path, store)
    kept = checkpoints.create(0)
    synced.clear()
    removed: list[Path] = []

    def remove(path: Path) -> None:
        assert path in synced and kept.path not in synced
        removed.append(path)

    monkeypatch.setattr("frontier_server.stores.checkpoints.shutil.rmtree", remove)
    checkpoints.delete(kept.name)
    assert len(removed) == 1
    store.close()


@pytest.mark.parametrize("writer", [WarcWriter, PagesWriter])
def test_a_file_of_pages_and_its_directory_are_there_for_good(
    tmp_path: Path, synced: list[Path], writer: "type[WarcWriter | PagesWriter]"
) -> None:
    directory = tmp_path / "a" / "pages"
    made = writer(directory, "node")
    made.append(visit())
    (path,) = directory.iterdir()
    assert {directory, directory.parent, path} <= set(synced)
    made.close()
    assert set(directory.iterdir()) <= set(synced)


def test_a_file_that_is_replaced_has_its_new_content_for_good(tmp_path: Path, synced: list[Path]) -> None:
    write_json(tmp_path / "crawl.json", {})
    assert synced == [tmp_path, tmp_path / "crawl.json"]
