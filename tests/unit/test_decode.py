"""Undoing Content-Encoding, within bounds."""

import gzip
import random
import time
import tracemalloc
import zlib
from collections.abc import Callable
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.fetching.decode import (
    MAX_MEMBERS,
    PIECE_BYTES,
    coding_note,
    decoded,
    decoding,
    holds_nothing,
    is_text,
)

LIMIT = 1_000_000


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def undo(body: bytes, encoding: str, limit: int = LIMIT) -> bytes | None:
    return decoded(BytesIO(body), encoding, limit)


@given(data=st.binary(max_size=300_000))
def test_every_coding_is_undone(data: bytes) -> None:
    for encoding, body in (
        ("", data),
        ("identity", data),
        ("gzip", gzip.compress(data)),
        (" GZip ", gzip.compress(data)),
        ("x-gzip", gzip.compress(data)),
        ("deflate", zlib.compress(data)),
        ("deflate", raw_deflate(data)),
        ("deflate, gzip", gzip.compress(zlib.compress(data))),
        ("gzip,gzip", gzip.compress(gzip.compress(data))),
        ("identity, gzip, identity", gzip.compress(data)),
    ):
        assert undo(body, encoding) == data, encoding


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "compress", "gzip, gzip, gzip", "nonsense"])
def test_codings_that_cannot_be_undone_are_told(encoding: str) -> None:
    assert undo(gzip.compress(b"hello"), encoding) is None


TEXTS = [
    b"User-agent: *\nDisallow: /closed\n",
    b"# a comment, which begins as a block of deflate does\nUser-agent: *\nDisallow: /\n",
    b"<!DOCTYPE html><p>on",
    "Straße, café, Москва".encode(),
    "Москва слезам не верит. ".encode("koi8-r") * 10,
    "<p>naïve façade</p>".encode("latin-1"),
    "User-agent: *".encode("utf-16"),
    b"x^2 + y^2",
    b"<",
]


@pytest.mark.sampled("text", TEXTS)
@pytest.mark.sampled(
    "encoding", ["aws-chunked", "UTF-8", "br", "zstd", "deflate", "gzip", "gzip, br", "gzip, gzip, gzip", "?"]
)
def test_text_is_taken_as_it_is_whatever_coding_it_is_said_to_have(text: bytes, encoding: str) -> None:
    assert undo(text, encoding) == text
    assert coding_note(BytesIO(text), encoding) == f"codingIgnored:{encoding}"


@given(data=st.binary(max_size=5000) | st.text(max_size=2000).map(str.encode))
def test_what_is_coded_is_never_taken_for_text(data: bytes) -> None:
    for encoding, body in (("gzip", gzip.compress(data)), ("deflate", zlib.compress(data))):
        assert undo(body, encoding) == data
        assert coding_note(BytesIO(body), encoding) == ""


@pytest.mark.parametrize("length", [20, 100, 1000, 100_000])
def test_hardly_any_bytes_of_chance_are_text(length: int) -> None:
    chance = random.Random(length)
    assert sum(is_text(chance.randbytes(length)) for _ in range(1000)) <= 20


def test_what_a_storage_says_of_an_upload_hides_no_other_coding() -> None:
    for encoding in ("gzip,aws-chunked", "aws-chunked, gzip"):
        assert undo(gzip.compress(b"hello"), encoding) == b"hello"


@pytest.mark.parametrize(
    ("body", "encoding", "note"),
    [
        (b"hello", "", ""),
        (b"hello", "identity", ""),
        (b"", "br", ""),
        (b"\x8b\0", "br", "unknownCoding:br"),
        (b"\x89PNG\r\n\x1a\n\0", "gzip", "codingIgnored:gzip"),
        (gzip.compress(b"hello", mtime=0), "gzip", ""),
    ],
)
def test_a_coding_that_was_ignored_or_is_unknown_is_noted(body: bytes, encoding: str, note: str) -> None:
    assert coding_note(BytesIO(body), encoding) == note


@pytest.mark.parametrize(
    ("body", "is_nothing"),
    [
        (b"", True),
        (gzip.compress(b"", mtime=0), True),
        (zlib.compress(b""), True),
        (raw_deflate(b""), True),
        (gzip.compress(b"", mtime=0)[:-3], False),
        (gzip.compress(b"x", mtime=0), False),
        (b"\x1f\x8bgarbage", False),
        (b"hello", False),
    ],
)
def test_a_stream_that_is_whole_and_empty_holds_nothing(body: bytes, is_nothing: bool) -> None:
    assert holds_nothing(BytesIO(body)) is is_nothing


def test_the_body_is_read_from_its_start() -> None:
    body = BytesIO(b"hello")
    body.seek(3)
    assert decoded(body, "", LIMIT) == b"hello"


def test_members_are_read_one_after_the_other_and_padding_is_not() -> None:
    assert undo(gzip.compress(b"one ") + gzip.compress(b"two") + bytes(100), "gzip") == b"one two"
    assert undo(gzip.compress(b"one ") + b"trailing words", "gzip") == b"one "


def test_a_member_may_begin_across_two_pieces() -> None:
    for length in range(PIECE_BYTES - 30, PIECE_BYTES + 5):
        data = random.Random(length).randbytes(length)
        assert undo(gzip.compress(data, 0) + gzip.compress(b"end"), "gzip") == data + b"end"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_broken_stream_gives_what_comes_before_the_break(encoding: str) -> None:
    data = random.Random(1).randbytes(200_000)
    packed = gzip.compress(data) if encoding == "gzip" else zlib.compress(data)
    cut = undo(packed[:100_000], encoding)
    assert cut is not None
    assert 50_000 < len(cut) < 200_000
    assert data.startswith(cut)
    garbled = undo(packed[:100_000] + bytes(1000) + packed[101_000:], encoding)
    assert garbled is not None
    assert garbled[:50_000] == data[:50_000]


def changed(data: bytes, at: int) -> bytes:
    """The data with one other byte."""
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at:][1:]


PAGE = b"<html><p>words " * 20_000
GZIP, ZLIB = gzip.compress(PAGE, mtime=0), zlib.compress(PAGE)


@pytest.mark.parametrize(
    ("body", "encoding", "kept", "breaks"),
    [
        (changed(GZIP, -8), "gzip", PAGE, ["checksum"]),
        (changed(GZIP, -5), "x-gzip", PAGE, ["checksum"]),
        (changed(GZIP, -4), "gzip", PAGE, ["length"]),
        (changed(GZIP, -1), "gzip", PAGE, ["length"]),
        (GZIP[:-8] + bytes(8), "gzip", PAGE, ["checksum"]),
        (changed(ZLIB, -1), "deflate", PAGE, ["checksum"]),
        (changed(GZIP, -8) + gzip.compress(b"next", mtime=0), "gzip", PAGE + b"next", ["checksum"]),
        (changed(GZIP, -1) + changed(GZIP, -8), "gzip", PAGE * 2, ["length", "checksum"]),
        (changed(GZIP, -8) + b"padding", "gzip", PAGE, ["checksum"]),
        (gzip.compress(changed(GZIP, -8), mtime=0), "gzip, gzip", PAGE, ["checksum"]),
        (changed(gzip.compress(ZLIB, mtime=0), -8), "deflate, gzip", PAGE, []),
        (GZIP[:-8], "gzip", PAGE, ["end"]),
        (GZIP[:-1], "gzip", PAGE, ["end"]),
        (ZLIB[:-4], "deflate", PAGE, ["end"]),
        (raw_deflate(PAGE)[:-1], "deflate", PAGE, ["end"]),
        (GZIP + changed(GZIP, 2), "gzip", PAGE, ["data"]),
        (changed(GZIP, 2), "gzip", b"", ["data"]),
        (GZIP, "gzip", PAGE, []),
        (GZIP + bytes(100), "gzip", PAGE, []),
        (b"", "gzip", b"", []),
        (PAGE, "gzip", PAGE, []),
    ],
)
def test_broken_body_is_kept_up_to_its_break_which_is_told(
    body: bytes, encoding: str, kept: bytes, breaks: list[str]
) -> None:
    told: list[str] = []
    assert decoded(BytesIO(body), encoding, LIMIT, told.append) == kept
    assert told == breaks


@pytest.mark.sampled("encoding", ["gzip", "deflate"])
@pytest.mark.sampled("stored_bytes", [0, 1, 100, 40_000, 65_530, 150_000])
def test_corruption_keeps_every_byte_before_it(encoding: str, stored_bytes: int) -> None:
    """A block that is stored as it is, and then a block of a kind that does not exist."""
    data = random.Random(2).randbytes(stored_bytes)
    packer = zlib.compressobj(0, wbits=31 if encoding == "gzip" else 15)
    body = packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH) + b"\x07" + data
    told: list[str] = []
    assert decoded(BytesIO(body), encoding, LIMIT, told.append) == data
    assert told == ["data"]


def test_many_broken_members_cost_no_more_than_whole_ones() -> None:
    member = changed(gzip.compress(random.Random(3).randbytes(40_000), mtime=0), -8)
    body = BytesIO(member * MAX_MEMBERS)
    started_s = time.thread_time()
    data = decoded(body, "gzip", 100 * LIMIT)
    assert data is not None and len(data) == 40_000 * MAX_MEMBERS
    assert time.thread_time() - started_s < 5  # it takes 0.3 s; byte by byte 20 s


def test_what_is_labelled_gzip_and_is_not_is_left_as_it_is() -> None:
    assert undo(b"<html>plain", "gzip") == b"<html>plain"
    assert undo(b"<", "gzip") == b"<"
    assert undo(b"", "gzip") == b""


@given(body=st.binary(max_size=2000), encoding=st.sampled_from(["gzip", "deflate", "deflate, gzip", ""]))
def test_nothing_that_is_sent_is_an_error(body: bytes, encoding: str) -> None:
    for each in (body, b"\x1f\x8b\x08" + body, b"\x78\x9c" + body, gzip.compress(body)[:-5]):
        undone = undo(each, encoding)
        assert undone is not None
        assert len(undone) <= LIMIT


@pytest.mark.parametrize("encoding", ["gzip", "deflate", ""])
def test_output_never_exceeds_the_limit(encoding: str) -> None:
    data = bytes(3_000_000)
    packed = {"gzip": gzip.compress(data), "deflate": zlib.compress(data), "": data}[encoding]
    for limit in (0, 1, 65_535, 65_536, 65_537, 2_999_999, 3_000_000, 3_000_001):
        assert undo(packed, encoding, limit) == data[:limit]
    pieces = decoding(BytesIO(packed), encoding, 1_000_000)
    assert pieces is not None
    assert max(len(piece) for piece in pieces) <= PIECE_BYTES


def test_a_bomb_costs_no_more_than_the_limit() -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1_000_000)) for _ in range(200)) + packer.flush()
    body = BytesIO(bomb)
    assert decoded(body, "gzip", LIMIT) == bytes(LIMIT)
    assert body.tell() <= PIECE_BYTES


def bomb(*codings: str, megabytes: int = 300) -> bytes:
    """Zeros, packed by one coding over the other."""
    data = [bytes(1_000_000)] * megabytes
    for coding in codings:
        packer = zlib.compressobj(9, wbits={"gzip": 31, "zlib": 15, "raw": -15}[coding])
        data = [*(packer.compress(piece) for piece in data), packer.flush()]
    return b"".join(data)


@pytest.mark.parametrize(
    ("made", "encoding"),
    [
        (lambda: bomb("gzip"), "gzip"),
        (lambda: bomb("zlib"), "deflate"),
        (lambda: bomb("raw"), "deflate"),
        (lambda: bomb("gzip", "gzip"), "gzip, gzip"),
        (lambda: bomb("raw", "gzip", megabytes=30), "deflate, gzip"),
        (lambda: gzip.compress(b"", mtime=0) * 1_000_000, "gzip"),
        (lambda: b"\0\0\0\xff\xff" * 4_000_000, "deflate"),
        (lambda: b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * 20_000_000, "gzip"),
    ],
    ids=["gzip", "zlib", "deflate", "twice", "two kinds", "empty members", "empty blocks", "endless name"],
)
def test_a_bomb_costs_no_more_memory_and_time_than_the_limit(
    made: Callable[[], bytes], encoding: str
) -> None:
    source = BytesIO(made())  # only here: each process of pytest-xdist would make all of them
    tracemalloc.start()
    started_s = time.thread_time()
    try:
        data = decoded(source, encoding, LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert data is not None and len(data) in (0, LIMIT)
    assert peak < 1.2 * LIMIT + 8 * PIECE_BYTES
    assert time.thread_time() - started_s < 2


def test_an_outer_coding_that_swells_without_end_is_bounded_too() -> None:
    """A gzip of a hundred thousand empty gzips: hardly any output, and yet work."""
    empty = gzip.compress(b"")
    assert undo(gzip.compress(empty * 100_000 + gzip.compress(b"end")), "gzip, gzip") == b""
    assert undo(empty * (MAX_MEMBERS - 1) + gzip.compress(b"end"), "gzip") == b"end"
    assert undo(empty * MAX_MEMBERS + gzip.compress(b"end"), "gzip") == b""
    nested = gzip.compress(bytes(2 * LIMIT) + b"end")
    assert undo(gzip.compress(nested), "gzip, gzip", LIMIT) == bytes(LIMIT)
