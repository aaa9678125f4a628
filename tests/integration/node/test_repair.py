"""Files that a dead process left behind: a repair keeps their whole records, for independent readers."""

import fcntl
import gzip
import os
import threading
import tracemalloc
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from node_doubles.warcs import bodies, check, files, left_behind, mend, read, visit

from crawler_node.output import repair as repairing
from crawler_node.output.repair import FilePart, State, parts_of_lines, parts_of_records, repair
from crawler_node.output.warc import WarcWriter


def boundaries(path: Path) -> list[int]:
    """Where the records of a file begin."""
    return [record.offset for record in read(path)]


def test_a_file_that_ends_with_a_whole_record_is_closed_as_it_is(tmp_path: Path) -> None:
    path = left_behind(tmp_path)
    content = path.read_bytes()
    mend(tmp_path)
    assert files(tmp_path) == [path.with_suffix("")]
    assert path.with_suffix("").read_bytes() == content
    check(path.with_suffix(""))


def test_wherever_a_file_was_torn_its_whole_records_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power is cut here, thousands of times
    path = left_behind(tmp_path)
    content = path.read_bytes()
    starts = [*boundaries(path), len(content)]
    path.unlink()
    for length in range(starts[1] + 1, len(content)):
        path.write_bytes(content[:length])
        mend(tmp_path)
        whole = max(start for start in starts if start <= length)
        kept = path.with_suffix("").read_bytes() if whole > starts[1] else b""
        assert kept == (content[:whole] if whole > starts[1] else b""), length
        for left in files(tmp_path):
            left.unlink()


@pytest.mark.parametrize("pages", [0, 1])
def test_a_file_with_no_whole_page_is_removed(tmp_path: Path, pages: int) -> None:
    """Of size 0; and with nothing whole but its own head."""
    path = left_behind(tmp_path, 1)
    start = boundaries(path)[1]
    os.truncate(path, (start + 20) * pages)
    mend(tmp_path)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "content",
    [
        b"\x1f",
        b"no gzip at all" * 100,
        gzip.compress(b"no WARC record" * 10_000),
        gzip.compress(b"WARC/1.1\r\n" + b"a: b\r\n" * 100_000),
        gzip.compress(b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 5\r\n\r\nabc\r\n\r\n"),
        gzip.compress(b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 3\r\n\r\nabc\r\n\r\nm\r\n\r\n"),
        gzip.compress(b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 3\r\n\r\nabcdefg"),
        gzip.compress(b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: -3\r\n\r\nabc\r\n\r\n"),
        gzip.compress(b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: " + b"9" * 9999 + b"\r\n\r\n"),
        gzip.compress(b""),
        bytes(5000),
    ],
    ids=[
        *("one byte", "no gzip", "no record", "endless header", "too short", "too long", "not ended"),
        *("negative", "absurd", "nothing", "zeros"),
    ],
)
def test_a_file_in_which_nothing_is_whole_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.warc.gz.open").write_bytes(content)
    mend(tmp_path)
    assert [path.name for path in files(tmp_path)] == ["x.warc.gz.torn"]
    assert files(tmp_path)[0].read_bytes() == content
    mend(tmp_path)
    assert [path.name for path in files(tmp_path)] == ["x.warc.gz.torn"]


def torn_of(path: Path) -> Path:
    """Where a repair keeps what is damaged of a file that was left behind."""
    return path.with_name(path.name.removesuffix(".open") + ".torn")


@pytest.mark.parametrize("damage", [b"\x00" * 64, b"\xff" * 64])
def test_damage_costs_the_record_that_it_is_in_and_no_other(tmp_path: Path, damage: bytes) -> None:
    path = left_behind(tmp_path, 30)
    starts = boundaries(path)
    content = path.read_bytes()
    for broken in (0, 1, 4, 40, len(starts) - 2):
        begin, end = starts[broken], starts[broken + 1]
        path.write_bytes(content[: begin + 30] + damage + content[begin + 94 :])
        mend(tmp_path)
        kept, torn = files(tmp_path)
        assert kept.read_bytes() == content[:begin] + content[end:], broken
        assert torn == torn_of(path) and len(torn.read_bytes()) == end - begin
        check(kept)
        kept.unlink()
        torn.unlink()


def test_after_one_flipped_bit_of_245_pages_all_but_one_are_left(tmp_path: Path) -> None:
    path = left_behind(tmp_path, 245)
    content = bytearray(path.read_bytes())
    content[boundaries(path)[3 * 30 + 1] + 40] ^= 1  # the response of page 30
    path.write_bytes(content)
    mend(tmp_path)
    found = bodies(tmp_path)
    assert found == {f"http://a.example/{n}": b"page %d" % n for n in range(245) if n != 30}


def test_several_damages_and_an_unfinished_end_leave_all_that_is_whole(tmp_path: Path) -> None:
    path = left_behind(tmp_path, 50)
    starts = [*boundaries(path), path.stat().st_size]
    content = bytearray(path.read_bytes())
    hit = [7, 8, 9, 70, 100]
    for broken in hit:
        content[starts[broken] + 30] ^= 0x55
    path.write_bytes(content[: starts[-2] + 25])
    whole = b"".join(
        bytes(content[starts[n] : starts[n + 1]]) for n in range(len(starts) - 2) if n not in hit
    )
    mend(tmp_path)
    kept, torn = files(tmp_path)
    assert kept.read_bytes() == whole
    assert torn.read_bytes() == b"".join(bytes(content[starts[n] : starts[n + 1]]) for n in hit)
    check(kept)


def test_damage_behind_all_that_is_whole_is_kept_apart(tmp_path: Path) -> None:
    """After a loss of power the end of a file may be anything; a turned bit in it may have been a page."""
    path = left_behind(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content + b"\x1f\x8b\x08 no member" + bytes(5000))
    mend(tmp_path)
    kept, torn = files(tmp_path)
    assert kept.read_bytes() == content and torn.read_bytes() == b"\x1f\x8b\x08 no member" + bytes(5000)


def test_a_file_whose_only_pages_are_damaged_is_set_aside_as_it_is(tmp_path: Path) -> None:
    path = left_behind(tmp_path, 1)
    content = bytearray(path.read_bytes())
    for start in boundaries(path)[1:]:
        content[start + 30] ^= 1
    path.write_bytes(content)
    mend(tmp_path)
    assert files(tmp_path) == [torn_of(path)] and torn_of(path).read_bytes() == content


def test_a_repair_that_was_cut_short_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that finds no room leaves the file for the next start."""
    path = left_behind(tmp_path, 9)
    starts = boundaries(path)
    content = bytearray(path.read_bytes())
    content[starts[4] + 30] ^= 1
    path.write_bytes(content)
    with monkeypatch.context() as patched:

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(os, "fsync", full)
        mend(tmp_path)
    assert files(tmp_path) == [path] and path.read_bytes() == content
    (tmp_path / f"{path.stem}.part").write_bytes(b"left by a repair that was killed")
    mend(tmp_path)
    assert sorted(files(tmp_path)) == [path.with_suffix(""), torn_of(path)]
    assert path.with_suffix("").read_bytes() == content[: starts[4]] + content[starts[5] :]


class Counting(BytesIO):
    """A file that counts what is read of it."""

    read_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        piece = super().read(size)
        self.read_bytes += len(piece)
        return piece


def test_what_is_at_once_seen_to_be_no_member_costs_little_however_often_it_comes() -> None:
    head = bytes.fromhex("1f8b0800000000000003")
    file = Counting((head + b"\xff" * 110) * 4_000)
    (part,) = parts_of_records(file)
    assert (part.begin, part.end, part.state) == (0, len(file.getvalue()), State.DAMAGED)
    assert file.read_bytes < 25 * part.end


def test_looking_for_where_it_goes_on_takes_time_in_proportion_to_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page may hold what looks like the beginnings of a million members, each of which goes on for long."""
    monkeypatch.setattr(repairing, "MAX_WASTED_BYTES", 4 * 1024 * 1024)
    head = bytes.fromhex("1f8b0800000000000003")
    stored = b"\x00" + (65000).to_bytes(2, "little") + (65000 ^ 0xFFFF).to_bytes(2, "little")
    hostile = (head + stored) * 60_000
    file = Counting(hostile)
    (part,) = parts_of_records(file)
    assert (part.begin, part.end) == (0, len(hostile))
    assert file.read_bytes < 40 * len(hostile) + 100_000_000


def test_beginnings_that_a_page_holds_are_no_records(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node")
    false = bytes.fromhex("1f8b0800000000000003") + os.urandom(50)
    for n in range(3):
        writer.append(visit(f"http://a.example/{n}", os.urandom(1000) + false * 20 + os.urandom(1000)))
    (path,) = tmp_path.glob("*.open")
    content = bytearray(path.read_bytes())
    writer.close()
    path.with_suffix("").unlink()
    starts = [4, 5]
    path.write_bytes(content)
    starts = boundaries(path)[4:6]
    content[starts[0] + 30] ^= 1
    path.write_bytes(content)
    mend(tmp_path)
    assert torn_of(path).read_bytes() == content[starts[0] : starts[1]]
    check(path.with_suffix(""))


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    path = left_behind(tmp_path)
    path.with_suffix("").write_bytes(b"another")
    mend(tmp_path)
    assert path.with_suffix("").read_bytes() == b"another"
    assert [each.suffix for each in files(tmp_path)] == [".gz", ".torn"]


def test_files_of_other_kinds_and_closed_ones_are_left_alone(tmp_path: Path) -> None:
    for name in ("a.warc.gz", "a.warc.gz.torn", "a.jsonl.open", "a.open"):
        (tmp_path / name).write_bytes(b"torn")
    mend(tmp_path)
    assert [path.name for path in files(tmp_path)] == [
        "a.jsonl.open",
        "a.open",
        "a.warc.gz",
        "a.warc.gz.torn",
    ]


def test_a_directory_that_is_not_there_has_nothing_to_repair(tmp_path: Path) -> None:
    mend(tmp_path / "none")


def test_the_file_of_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node")
    writer.append(visit())
    mend(tmp_path)
    assert [path.suffix for path in files(tmp_path)] == [".open"]
    writer.append(visit())
    writer.close()
    check(files(tmp_path)[0])


def test_a_new_file_that_a_repair_takes_for_an_empty_one_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making of a file and its lock somebody else may start."""
    flock, repairs = fcntl.flock, 0

    def repaired_first(file: int, how: int) -> None:
        nonlocal repairs
        if how == fcntl.LOCK_EX and not repairs:
            repairs += 1
            mend(tmp_path)
            assert files(tmp_path) == []
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", repaired_first)
    writer = WarcWriter(tmp_path, "node")
    writer.append(visit())
    writer.close()
    assert repairs == 1
    check(files(tmp_path)[0])


def test_many_repairs_at_once_do_each_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The processes of a node start together."""
    contents = set()
    for n in range(6):
        path = left_behind(tmp_path / str(n))
        contents.add(path.read_bytes())
        path.rename(tmp_path / f"{n}.warc.gz.open")
        path.parent.rmdir()
    threads = [threading.Thread(target=mend, args=(tmp_path,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in files(tmp_path)] == [f"{n}.warc.gz" for n in range(6)]
    assert {path.read_bytes() for path in files(tmp_path)} == contents
    said = capsys.readouterr().out
    assert said.count("file_repaired") == 6 and "error" not in said


def test_a_file_that_another_repair_has_just_done_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left_behind(tmp_path)
    flock, repairs = fcntl.flock, 0

    def repaired_first(file: int, how: int) -> None:
        nonlocal repairs
        repairs += 1
        if repairs == 1:
            mend(tmp_path)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", repaired_first)
    mend(tmp_path)
    assert repairs == 2 and [path.suffix for path in files(tmp_path)] == [".gz"]
    said = capsys.readouterr().out
    assert said.count("file_repaired") == 1 and "error" not in said


def test_a_header_without_an_end_costs_no_memory() -> None:
    member = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS + 16)
    pieces = [member.compress(b"WARC/1.1\r\n"), *(member.compress(b"a: b\r\n" * 10_000) for _ in range(500))]
    endless = b"".join(pieces) + member.flush()
    tracemalloc.start()
    (part,) = parts_of_records(BytesIO(endless))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert part == FilePart(0, len(endless), State.DAMAGED)
    assert peak < 2_000_000


def test_a_bomb_costs_no_memory(tmp_path: Path) -> None:
    """A page of zeros is small in the file; nobody has to hold it whole."""
    length = 200 * 1024 * 1024
    member = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS + 16)
    pieces = [member.compress(b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: %d\r\n\r\n" % length)]
    pieces.extend(member.compress(bytes(1024 * 1024)) for _ in range(200))
    pieces.append(member.compress(b"\r\n\r\n") + member.flush())
    bomb = b"".join(pieces)
    tracemalloc.start()
    (part,) = parts_of_records(BytesIO(bomb))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert part == FilePart(0, len(bomb), State.WHOLE)
    assert peak < 2_000_000


W, D, U = State.WHOLE, State.DAMAGED, State.UNFINISHED


PIECE = 64 * 1024


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", []),
        (b"torn", [FilePart(0, 4, U)]),
        (b"{}\n", [FilePart(0, 3, W)]),
        (b"{}\n{}\n", [FilePart(0, 6, W)]),
        (b"{}\n{to", [FilePart(0, 3, W), FilePart(3, 6, U)]),
        (b"{}\n\x00\x00\n", [FilePart(0, 3, W), FilePart(3, 6, D)]),
        (b"{}\n\x00}\n{}\n", [FilePart(0, 3, W), FilePart(3, 6, D), FilePart(6, 9, W)]),
        (b"\x00\n\x00\n{}\n\x00", [FilePart(0, 4, D), FilePart(4, 7, W), FilePart(7, 8, D)]),
        (
            b"x" * 200_000 + b"\n" + b"y" * 200_000,
            [FilePart(0, 200_001, W), FilePart(200_001, 400_001, U)],
        ),
        (
            b"{}\n" + bytes(200_000) + b"\n{}\n",
            [FilePart(0, 3, W), FilePart(3, 200_004, D), FilePart(200_004, 200_007, W)],
        ),
        (b"{}\n" + bytes(PIECE - 3) + b"{}\n", [FilePart(0, 3, W), FilePart(3, PIECE + 3, D)]),
        (b"x" * (PIECE - 1) + b"\n{}\n", [FilePart(0, PIECE + 3, W)]),
    ],
)
def test_a_file_of_lines_keeps_its_whole_lines(content: bytes, parts: list[FilePart]) -> None:
    assert list(parts_of_lines(BytesIO(content))) == parts


def test_lines_behind_a_hole_are_kept_and_the_hole_is_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.open").write_bytes(b"{}\n" * 50_000 + b'{"a":' + bytes(100_000) + b"1}\n[]\n")
    repair(tmp_path, ".jsonl", parts_of_lines)
    assert (tmp_path / "x.jsonl").read_bytes() == b"{}\n" * 50_000 + b"[]\n"
    assert (tmp_path / "x.jsonl.torn").read_bytes() == b'{"a":' + bytes(100_000) + b"1}\n"
