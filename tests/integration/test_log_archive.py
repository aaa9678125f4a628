"""Logs of crawls in a bucket, piece by piece."""

from pathlib import Path

import pytest

from frontier_server.logs.archive import LogArchive
from frontier_server.replicated.buckets import Bucket, open_bucket


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return open_bucket(f"file://{tmp_path}/bucket")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "one" / "crawl.log"


def written(log: Path, text: bytes) -> Path:
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(text)
    return log


def test_a_log_is_restored_from_its_pieces(bucket: Bucket, log: Path, tmp_path: Path) -> None:
    archive = LogArchive(bucket, "shard-0000", 3)
    written(log, b"first\nsecond\nthird\n")
    archive.keep("a", log, 0, 6)
    archive.keep("a", log, 6, 19)
    elsewhere = tmp_path / "two" / "crawl.log"
    LogArchive(bucket, "shard-0000", 4).restore("a", elsewhere, 19)
    assert elsewhere.read_bytes() == log.read_bytes()


def test_lines_that_the_store_does_not_know_are_not_restored(
    bucket: Bucket, log: Path, tmp_path: Path
) -> None:
    archive = LogArchive(bucket, "shard-0000", 3)
    archive.keep("a", written(log, b"first\nsecond\n"), 0, 13)
    elsewhere = tmp_path / "two" / "crawl.log"
    archive.restore("a", elsewhere, 6)
    assert elsewhere.read_bytes() == b"first\n"


def test_a_piece_of_a_fenced_writer_gives_way_to_its_successors(
    bucket: Bucket, log: Path, tmp_path: Path
) -> None:
    LogArchive(bucket, "shard-0000", 3).keep("a", written(log, b"first\nold\n"), 0, 6)
    LogArchive(bucket, "shard-0000", 3).keep("a", log, 6, 10)
    successor = LogArchive(bucket, "shard-0000", 12)
    successor.keep("a", written(log, b"first\nnewer\nlast\n"), 6, 17)
    elsewhere = tmp_path / "two" / "crawl.log"
    successor.restore("a", elsewhere, 17)
    assert elsewhere.read_bytes() == b"first\nnewer\nlast\n"


def test_a_log_that_has_all_is_left_alone(bucket: Bucket, log: Path) -> None:
    archive = LogArchive(bucket, "shard-0000", 3)
    archive.keep("a", written(log, b"kept\n"), 0, 5)
    written(log, b"mine\nand more\n")
    archive.restore("a", log, 5)
    assert log.read_bytes() == b"mine\nand more\n"


def test_a_log_that_lacks_a_piece_is_restored_up_to_there(bucket: Bucket, log: Path, tmp_path: Path) -> None:
    archive = LogArchive(bucket, "shard-0000", 3)
    archive.keep("a", written(log, b"first\nsecond\nthird\n"), 0, 6)
    archive.keep("a", log, 13, 19)
    elsewhere = tmp_path / "two" / "crawl.log"
    archive.restore("a", elsewhere, 19)
    assert elsewhere.read_bytes() == b"first\n"


def test_a_log_that_is_shorter_than_its_piece_is_refused(bucket: Bucket, log: Path) -> None:
    archive = LogArchive(bucket, "shard-0000", 3)
    with pytest.raises(OSError, match=r"crawl\.log lacks its last 4 bytes"):
        archive.keep("a", written(log, b"first\n"), 0, 10)
    assert not list(bucket.found("logs/"))


def test_a_forgotten_log_leaves_no_piece_and_no_other_crawl_loses_its_own(bucket: Bucket, log: Path) -> None:
    archive = LogArchive(bucket, "shard-0000", 3)
    written(log, b"first\n")
    for crawl in ("a", "ab"):
        archive.keep(crawl, log, 0, 6)
    archive.forget("a", log)
    assert [found.name.split("/")[2] for found in bucket.found("logs/")] == ["ab"]
