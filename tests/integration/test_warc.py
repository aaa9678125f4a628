"""What is written to WARC files, read by two independent readers; and what a failing disk may not break."""

import base64
import errno
import gzip
import hashlib
import os
import random
import re
import tempfile
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from node_doubles.leases import lease
from node_doubles.warcs import BODY, START_MS, check, digest_of, fetch, files, read, visit
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from crawler_node.extraction.links import Hop, Outlink
from crawler_node.fetching.outcome import Status, Truncation
from crawler_node.output.rolling import OutputError, Rolling, utc_text
from crawler_node.output.visit import Visit
from crawler_node.output.warc import Metadata, WarcWriter


def test_a_fetch_becomes_a_request_and_a_response_that_others_can_read(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node", software="Toehold/0.1", clock_ms=lambda: START_MS)
    assert writer.append(visit())
    writer.close()
    (path,) = files(tmp_path)
    info, response, request, _ = read(path)
    assert (info.kind, response.kind, request.kind) == ("warcinfo", "response", "request")
    assert info.headers["WARC-Filename"] == path.name
    assert info.headers["WARC-Date"] == "2023-11-14T22:13:20.123Z"
    assert b"software: Toehold/0.1\r\nformat: WARC File Format 1.1\r\n" in info.block
    assert b"\r\nnode: node\r\n" in info.block and b"\r\nhostname: " in info.block
    assert (
        response.block
        == b"HTTP/1.1 200 All  is well\r\ncontent-TYPE: text/html\r\nX-Odd: caf\xe9\r\n\r\n" + BODY
    )
    assert request.block == b"GET /x?y=z HTTP/1.1\r\nHost: a.example\r\n\r\n"
    assert request.headers["WARC-Concurrent-To"] == response.headers["WARC-Record-ID"]
    for record, kind in ((request, "request"), (response, "response")):
        assert record.uri == "http://a.example/x?y=z"
        assert record.headers["WARC-Date"] == "2023-11-14T22:13:20.123Z"
        assert record.headers["WARC-IP-Address"] == "192.0.2.1"
        assert record.headers["Content-Type"] == f"application/http; msgtype={kind}"
        assert "WARC-Truncated" not in record.headers
    payload_digest = "sha1:" + base64.b32encode(hashlib.sha1(BODY).digest()).decode()
    assert response.headers["WARC-Payload-Digest"] == payload_digest
    with path.open("rb") as file:
        assert file.read(2) == b"\x1f\x8b"
        file.seek(response.offset)
        assert file.read(2) == b"\x1f\x8b"  # a member of its own
    check(path)


@pytest.mark.parametrize("truncation", [Truncation.LENGTH, Truncation.TIME])
def test_a_cut_body_is_marked_in_its_response(tmp_path: Path, truncation: Truncation) -> None:
    writer = WarcWriter(tmp_path, "node")
    writer.append(visit(truncation=truncation))
    writer.close()
    _, response, request, _ = read(files(tmp_path)[0])
    assert response.headers["WARC-Truncated"] == truncation.value
    assert "WARC-Truncated" not in request.headers


def test_the_redirects_of_a_fetch_are_stored_before_it(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node")
    hops = tuple(fetch(f"http://a.example/{n}", b"moved", status=301) for n in range(2))
    writer.append(visit("http://a.example/end", hops=hops))
    gone = fetch(
        "http://a.example/lost", status=Status.CONNECT_LOST, hops=(fetch("http://a.example/2", status=302),)
    )
    assert writer.append(Visit(lease(gone.uri), gone)) is not None
    writer.close()
    records = read(files(tmp_path)[0])
    responses = [record.uri for record in records if record.kind == "response"]
    assert responses == [f"http://a.example/{name}" for name in ("0", "1", "end", "2")]
    assert [record.uri for record in records if record.kind == "metadata"] == ["http://a.example/end"]


def test_a_page_that_has_not_changed_is_a_revisit_of_its_own_kind(tmp_path: Path) -> None:
    """WARC 1.1, 6.7: profile server-not-modified; the block is the answer's head, and no payload came."""
    writer = WarcWriter(tmp_path, "node")
    writer.append(visit(body=b"", status=304, conditional=True))
    writer.append(visit())
    writer.close()
    (path,) = files(tmp_path)
    _, revisit, request, metadata, response, *_ = read(path)
    assert (revisit.kind, request.kind, response.kind) == ("revisit", "request", "response")
    assert metadata.headers["WARC-Concurrent-To"] == revisit.headers["WARC-Record-ID"]
    profile = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
    assert revisit.headers["WARC-Profile"] == profile
    assert revisit.uri == "http://a.example/x?y=z"
    assert revisit.headers["Content-Type"] == "application/http; msgtype=response"
    assert revisit.block == b"HTTP/1.1 304 All  is well\r\ncontent-TYPE: text/html\r\nX-Odd: caf\xe9\r\n\r\n"
    assert "WARC-Payload-Digest" not in revisit.headers
    assert revisit.headers["WARC-IP-Address"] == "192.0.2.1"
    assert request.headers["WARC-Concurrent-To"] == revisit.headers["WARC-Record-ID"]
    check(path)


def test_a_body_that_is_that_of_the_last_visit_is_not_stored_again(tmp_path: Path) -> None:
    """WARC 1.1, 6.7: profile identical-payload-digest; the block is the answer's head."""
    writer = WarcWriter(tmp_path, "node")
    writer.append(visit(last_digest=digest_of(BODY)))
    writer.close()
    (path,) = files(tmp_path)
    _, revisit, request, metadata = read(path)
    assert (revisit.kind, request.kind, metadata.kind) == ("revisit", "request", "metadata")
    profile = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert revisit.headers["WARC-Profile"] == profile
    assert revisit.headers["WARC-Payload-Digest"] == digest_of(BODY)
    assert revisit.headers["WARC-Refers-To-Target-URI"] == revisit.uri == "http://a.example/x?y=z"
    assert revisit.block == b"HTTP/1.1 200 All  is well\r\ncontent-TYPE: text/html\r\nX-Odd: caf\xe9\r\n\r\n"
    assert request.headers["WARC-Concurrent-To"] == revisit.headers["WARC-Record-ID"]
    check(path)


@pytest.mark.parametrize(
    "now",
    [
        visit(body=b"new", last_digest=digest_of(BODY)),
        visit(truncation=Truncation.LENGTH, last_digest=digest_of(BODY)),
        visit(body=b"", last_digest=digest_of(b"")),
        visit(),
    ],
    ids=["another body", "a cut body", "an empty body", "a first visit"],
)
def test_any_other_answer_is_stored_whole(tmp_path: Path, now: Visit) -> None:
    writer = WarcWriter(tmp_path, "node")
    writer.append(now)
    writer.close()
    assert read(files(tmp_path)[0])[1].kind == "response"
    check(files(tmp_path)[0])


def found_visit() -> Visit:
    made = visit()
    made.fetch.duration_ms = 17
    found = lease(made.fetch.uri, path="LE", source="http://seed.example/")
    found.via = "http://a.example/\r\nevil: 1"
    links = [
        Outlink("http://b.example/", Hop.LINK, "a/@href"),
        Outlink("http://c.example/", Hop.EMBED, "x\ny"),
    ]
    return Visit(found, made.fetch, links)


TOLD = b"""\
via: http://a.example/ evil: 1\r
hopsFromSeed: LE\r
sourceTag: http://seed.example/\r
fetchTimeMs: 17\r
"""


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        (Metadata.VISIT, TOLD),
        (
            Metadata.OUTLINKS,
            TOLD + b"outlink: http://b.example/ L a/@href\r\noutlink: http://c.example/ E x y\r\n",
        ),
    ],
)
def test_how_a_page_was_found_is_told_beside_it(tmp_path: Path, metadata: Metadata, told: bytes) -> None:
    writer = WarcWriter(tmp_path, "node", metadata=metadata)
    writer.append(found_visit())
    writer.close()
    _, response, _, beside = read(files(tmp_path)[0])
    assert (beside.kind, beside.uri, beside.block) == ("metadata", response.uri, told)
    assert beside.headers["Content-Type"] == "application/warc-fields"
    assert beside.headers["WARC-Concurrent-To"] == response.headers["WARC-Record-ID"]
    assert beside.headers["WARC-Date"] == response.headers["WARC-Date"]
    assert "WARC-Payload-Digest" not in beside.headers
    check(files(tmp_path)[0])


def test_metadata_can_be_left_out(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node", metadata=Metadata.NONE)
    writer.append(found_visit())
    writer.close()
    assert [record.kind for record in read(files(tmp_path)[0])] == ["warcinfo", "response", "request"]


def test_a_file_is_compressed_as_hard_as_asked_for(tmp_path: Path) -> None:
    body = b" ".join(b"<p>page %d of %d</p>" % (n, n * n) for n in range(5000))
    sizes = []
    for level in (1, 9):
        writer = WarcWriter(tmp_path / str(level), "node", gzip_level=level)
        writer.append(visit(body=body))
        writer.close()
        (path,) = files(tmp_path / str(level))
        check(path)
        sizes.append(path.stat().st_size)
    assert sizes[1] < 0.95 * sizes[0]
    with pytest.raises(ValueError, match="must be between 1 and 9, got 0"):
        WarcWriter(tmp_path, "node", gzip_level=0)


def test_a_304_that_nobody_asked_for_is_a_response(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node")
    writer.append(visit(body=b"", status=304))
    writer.close()
    assert [record.kind for record in read(files(tmp_path)[0])][:3] == ["warcinfo", "response", "request"]


def test_what_was_not_answered_is_not_stored_and_begins_no_file(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path / "new" / "folder", "node")
    assert not writer.append(visit(status=Status.TIMEOUT))
    writer.sync()
    writer.close()
    assert files(tmp_path / "new" / "folder") == []


def test_a_body_may_be_empty_or_binary_and_a_uri_odd(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node")
    bodies = [b"", bytes(range(256)) * 100, b"\r\n\r\nWARC/1.1\r\n\r\n"]
    for body in bodies:
        writer.append(visit("http://a.example/\r\nWARC-Type: evil\r\n", body))
    writer.close()
    records = read(files(tmp_path)[0])
    assert [
        record.block.partition(b"\r\n\r\n")[2] for record in records if record.kind == "response"
    ] == bodies
    assert {record.uri for record in records[1:]} == {"http://a.example/WARC-Type:evil"}
    check(files(tmp_path)[0])


def test_a_file_is_open_by_name_until_it_is_closed(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "rack 7/\u00e9", process_id=42, clock_ms=lambda: START_MS)
    writer.append(visit())
    name = "toehold-20231114221320123-00000-rack_7_~42.warc.gz"
    assert [path.name for path in files(tmp_path)] == [f"{name}.open"]
    writer.sync()
    assert len(read(files(tmp_path)[0])) == 4
    writer.close()
    assert [path.name for path in files(tmp_path)] == [name]
    with pytest.raises(OutputError, match="closed"):
        writer.append(visit())
    writer.close()
    writer.sync()


def test_a_file_that_is_long_enough_is_followed_by_the_next(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node", rolling=Rolling(max_bytes=10_000))
    for _ in range(7):
        writer.append(visit(body=os.urandom(3000)))
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert len(sizes) == 4
    assert max(sizes) <= 10_000
    assert [path.suffix for path in files(tmp_path)] == [".gz", ".gz", ".gz", ".open"]
    writer.append(visit(body=os.urandom(50_000)))  # longer than a file may be: alone in one
    writer.close()
    names = [path.name for path in files(tmp_path)]
    assert [re.split("[-~]", name)[2] for name in names] == [f"{n:05}" for n in range(5)]
    for path in files(tmp_path):
        assert read(path)[0].headers["WARC-Filename"] == path.name
        check(path)


def test_every_visit_replays_byte_for_byte_from_rolled_files_with_revisits(tmp_path: Path) -> None:
    """As warcio reads it: the body decoded, and that of a revisit found by its URI and digest."""
    served = {}
    writer = WarcWriter(tmp_path, "node", rolling=Rolling(max_bytes=20_000))
    digests: dict[str, str] = {}
    for round_number in range(3):
        for n in range(12):
            uri = f"http://a.example/{n}"
            text = b"<p>page %d</p>" % n * 100 + random.Random(n + 100 * (round_number * n % 2)).randbytes(
                3000
            )
            made = visit(uri, gzip.compress(text, mtime=0), last_digest=digests.get(uri, ""))
            made.fetch.response_head = made.fetch.response_head[:-2] + b"Content-Encoding: gzip\r\n\r\n"
            made.fetch.start_time_ms += round_number * 60_000
            writer.append(made)
            digests[uri] = made.fetch.digest
            served[uri, utc_text(made.fetch.start_time_ms)] = text
    writer.close()
    assert len(files(tmp_path)) > 3
    check(*files(tmp_path))

    replayed, kept, kinds = {}, {}, Counter[str]()
    for path in files(tmp_path):
        with path.open("rb") as file:
            for record in WarcioIterator(file):
                headers = record.rec_headers
                uri, digest = headers.get_header("WARC-Target-URI"), headers.get_header("WARC-Payload-Digest")
                kinds[record.rec_type] += 1
                if record.rec_type == "response":
                    kept[uri, digest] = record.content_stream().read()
                if record.rec_type in ("response", "revisit"):
                    refers_to = headers.get_header("WARC-Refers-To-Target-URI") or uri
                    replayed[uri, headers.get_header("WARC-Date")] = kept[refers_to, digest]
    assert replayed == served
    assert kinds["response"] == 24 and kinds["revisit"] == 12


def test_a_file_that_is_old_enough_is_closed_by_the_next_page_or_without_one(tmp_path: Path) -> None:
    now_ms = START_MS
    writer = WarcWriter(
        tmp_path, "node", rolling=Rolling(max_age_s=60, prefix="x_1"), clock_ms=lambda: now_ms
    )
    writer.append(visit())
    now_ms += 59_999
    writer.roll_if_old()
    writer.append(visit())
    assert [path.suffix for path in files(tmp_path)] == [".open"]
    now_ms += 1
    writer.append(visit())
    assert [path.suffix for path in files(tmp_path)] == [".gz", ".open"]
    now_ms += 60_000
    writer.roll_if_old()
    writer.roll_if_old()
    assert [path.suffix for path in files(tmp_path)] == [".gz", ".gz"]
    assert [path.name.split("-")[0] for path in files(tmp_path)] == ["x_1", "x_1"]
    for path in files(tmp_path):
        check(path)
    writer.close()


@pytest.mark.parametrize("prefix", ["", "a/b", ".hidden", "x" * 65, "a b"])
def test_what_cannot_begin_a_file_name_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="the prefix of file names must be"):
        Rolling(prefix=prefix)


@pytest.mark.parametrize("more", [{"max_bytes": 0}, {"max_age_s": 0}])
def test_files_of_no_size_or_age_are_refused(more: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        Rolling(**more)  # type: ignore[arg-type]


def test_threads_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node", rolling=Rolling(max_bytes=200_000))

    def work(thread: int) -> None:
        for n in range(20):
            uri = f"http://a.example/{thread}/{n}"
            writer.append(visit(uri, os.urandom(3000)))
            writer.sync()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    found = [record.uri for path in files(tmp_path) for record in read(path) if record.kind == "response"]
    assert sorted(found) == sorted(f"http://a.example/{thread}/{n}" for thread in range(8) for n in range(20))
    assert len(files(tmp_path)) > 1


def test_a_large_body_is_not_read_into_memory(tmp_path: Path) -> None:
    with tempfile.TemporaryFile() as body:
        for _ in range(300):
            body.write(os.urandom(100_000))
        body.seek(0)
        large = fetch(body=cast(BinaryIO, body))
        writer = WarcWriter(tmp_path, "node")
        tracemalloc.start()
        writer.append(Visit(lease(large.uri), large))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        writer.close()
    assert peak < 5_000_000
    response = read(files(tmp_path)[0])[1]
    assert len(response.block) > 30_000_000


def test_a_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match=re.escape(str(directory))):
            WarcWriter(directory, "node")


def test_a_name_that_is_taken_is_not_overwritten(tmp_path: Path) -> None:
    first, second = (WarcWriter(tmp_path, "node", clock_ms=lambda: START_MS) for _ in range(2))
    first.append(visit())
    with pytest.raises(OutputError, match="cannot create"):
        second.append(visit())
    first.close()
    second.close()
    check(files(tmp_path)[0])


# A failing disk


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
    writer = WarcWriter(tmp_path, "node", rolling=Rolling(max_bytes=1500))
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
