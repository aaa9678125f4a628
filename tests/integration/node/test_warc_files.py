"""WARC files: their names, when they are closed, and who may write to them."""

import gzip
import os
import random
import re
import tempfile
import threading
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from node_doubles.leases import lease
from node_doubles.warcs import START_MS, check, fetch, files, read, visit
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from crawler_node.output.open_file import OutputError
from crawler_node.output.rotation import Rotation, utc_text
from crawler_node.output.visit import PageVisit
from crawler_node.output.warc import WarcWriter


def test_a_file_is_open_by_name_until_it_is_closed(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "rack 7/\u00e9", process_id=42, clock_ms=lambda: START_MS)
    writer.append(visit())
    name = "toehold-crawl-20231114221320123-00000-rack_7_~42.warc.gz"
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
    writer = WarcWriter(tmp_path, "node", rotation=Rotation(max_bytes=10_000))
    for _ in range(7):
        writer.append(visit(body=os.urandom(3000)))
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert len(sizes) == 4
    assert max(sizes) <= 10_000
    assert [path.suffix for path in files(tmp_path)] == [".gz", ".gz", ".gz", ".open"]
    writer.append(visit(body=os.urandom(50_000)))  # longer than a file may be: alone in one
    writer.close()
    names = [path.name for path in files(tmp_path)]
    assert [re.split("[-~]", name)[3] for name in names] == [f"{n:05}" for n in range(5)]
    for path in files(tmp_path):
        assert read(path)[0].headers["WARC-Filename"] == path.name
        check(path)


def test_every_visit_replays_byte_for_byte_from_rolled_files_with_revisits(tmp_path: Path) -> None:
    """As warcio reads it: the body decoded, and that of a revisit found by its URI and digest."""
    served = {}
    writer = WarcWriter(tmp_path, "node", rotation=Rotation(max_bytes=20_000))
    digests: dict[str, str] = {}
    captures: dict[tuple[str, str], int] = {}  # the first of each URI and digest
    for round_number in range(3):
        for n in range(12):
            uri = f"http://a.example/{n}"
            text = b"<p>page %d</p>" % n * 100 + random.Random(n + 100 * (round_number * n % 2)).randbytes(
                3000
            )
            last = digests.get(uri, "")
            body = gzip.compress(text, mtime=0)
            made = visit(uri, body, last_digest=last, capture_ms=captures.get((uri, last), 0))
            made.fetch.response_head = made.fetch.response_head[:-2] + b"Content-Encoding: gzip\r\n\r\n"
            made.fetch.start_time_ms += round_number * 60_000
            writer.append(made)
            digests[uri] = made.fetch.digest
            captures.setdefault((uri, made.fetch.digest), made.fetch.start_time_ms)
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
        tmp_path, "node", rotation=Rotation(max_age_s=60, prefix="x_1"), clock_ms=lambda: now_ms
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
    with pytest.raises(ValueError, match="the prefix of file names must have"):
        Rotation(prefix=prefix)


@pytest.mark.parametrize("more", [{"max_bytes": 0}, {"max_age_s": 0}])
def test_files_of_no_size_or_age_are_refused(more: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        Rotation(**more)  # type: ignore[arg-type]


def test_threads_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    writer = WarcWriter(tmp_path, "node", rotation=Rotation(max_bytes=200_000))

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
        writer.append(PageVisit(lease(large.uri), large))
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
