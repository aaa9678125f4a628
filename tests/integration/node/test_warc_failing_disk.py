"""WARC files on a disk that fails."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from node_doubles.warcs import check, files, read, visit

from crawler_node.output.open_file import OutputError
from crawler_node.output.rotation import Rotation
from crawler_node.output.warc import WarcWriter


class FailingDisk:
    """Lets system calls of this module's writer fail, as a full or broken disk does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None  # bytes that may still be written
        self.broken: set[str] = set()
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)
        for name in ("fsync", "ftruncate"):
            monkeypatch.setattr(os, name, self._breaking(name, getattr(os, name)))

    def write(self, descriptor: int, data: memoryview) -> int:
        if self.room is None:
            return self._write(descriptor, data)
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written

    def _breaking(self, name: str, call: Callable[..., None]) -> Callable[..., None]:
        def attempt(*arguments: int) -> None:
            if name in self.broken:
                raise OSError(errno.EIO, "Input/output error")
            call(*arguments)

        return attempt


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    return FailingDisk(monkeypatch)


def test_a_write_that_fails_leaves_no_torn_record(tmp_path: Path, disk: FailingDisk) -> None:
    writer = WarcWriter(tmp_path, "node")
    writer.append(visit("http://a.example/1"))
    disk.room = 100
    with pytest.raises(OutputError, match="No space left"):
        writer.append(visit("http://a.example/2", os.urandom(1000)))
    disk.room = None
    writer.append(visit("http://a.example/3"))
    writer.sync()
    writer.close()
    (path,) = files(tmp_path)
    assert [record.uri for record in read(path) if record.kind == "response"] == [
        "http://a.example/1",
        "http://a.example/3",
    ]
    check(path)


@pytest.mark.parametrize("room", [0, 50])
def test_a_file_that_cannot_be_begun_is_not_left_behind(tmp_path: Path, disk: FailingDisk, room: int) -> None:
    writer = WarcWriter(tmp_path, "node")
    disk.room = room
    with pytest.raises(OutputError):
        writer.append(visit())
    assert files(tmp_path) == []
    disk.room = None
    writer.append(visit())
    writer.close()
    check(files(tmp_path)[0])


def test_a_file_in_which_nothing_could_be_stored_goes(tmp_path: Path, disk: FailingDisk) -> None:
    writer = WarcWriter(tmp_path, "node")
    disk.room = 600
    with pytest.raises(OutputError):
        writer.append(visit(body=os.urandom(5000)))
    assert [path.suffix for path in files(tmp_path)] == [".open"]
    writer.close()
    assert files(tmp_path) == []


def test_a_file_that_cannot_be_made_durable_is_given_up(tmp_path: Path, disk: FailingDisk) -> None:
    writer = WarcWriter(tmp_path, "node")
    writer.append(visit("http://a.example/1"))
    disk.broken = {"fsync"}
    with pytest.raises(OutputError, match="durable"):
        writer.sync()
    disk.broken = set()
    writer.append(visit("http://a.example/2"))
    writer.sync()
    writer.close()
    given_up, good = files(tmp_path)
    assert (given_up.suffix, good.suffix) == (".open", ".gz")
    assert [record.uri for record in read(good)[1:]] == ["http://a.example/2"] * 3


def test_a_record_that_cannot_be_cut_off_ends_its_file(tmp_path: Path, disk: FailingDisk) -> None:
    writer = WarcWriter(tmp_path, "node")
    writer.append(visit("http://a.example/1"))
    disk.room, disk.broken = 100, {"ftruncate"}
    with pytest.raises(OutputError, match="No space left"):
        writer.append(visit("http://a.example/2", os.urandom(1000)))
    disk.room, disk.broken = None, set()
    writer.append(visit("http://a.example/3"))
    with pytest.raises(OutputError, match="durable"):  # of http://a.example/1 nobody knows
        writer.sync()
    writer.sync()
    writer.close()
    given_up, good = files(tmp_path)
    assert given_up.suffix == ".open"
    assert [record.uri for record in read(good)[1:]] == ["http://a.example/3"] * 3


def test_a_failure_while_a_file_is_closed_is_told_by_the_next_sync(tmp_path: Path, disk: FailingDisk) -> None:
    writer = WarcWriter(tmp_path, "node", rotation=Rotation(max_bytes=1500))
    writer.append(visit("http://a.example/1", os.urandom(1000)))
    disk.broken = {"fsync"}
    with pytest.raises(OutputError, match="durable"):
        writer.append(visit("http://a.example/2", os.urandom(1000)))
    disk.broken = set()
    writer.append(visit("http://a.example/3", os.urandom(1000)))
    with pytest.raises(OutputError, match="durable"):
        writer.sync()
    writer.sync()
    disk.broken = {"fsync"}
    with pytest.raises(OutputError, match="durable"):
        writer.close()
    assert [path.suffix for path in files(tmp_path)] == [".open", ".open"]
