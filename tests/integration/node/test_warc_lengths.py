"""Answers whose heads say something false of their bodies, as readers of WARC files find them."""

import http.client
import re
from io import BytesIO
from pathlib import Path
from socket import socket
from typing import cast

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from node_doubles.leases import lease
from node_doubles.loopback import Fetching, Site, policy
from node_doubles.warcs import check, files, read
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from crawler_node.fetching.fetch import FetchPolicy, FetchResult
from crawler_node.fetching.outcome import Truncation
from crawler_node.output.visit import PageVisit
from crawler_node.output.warc import WarcWriter, stored_head

HELLO = b"hello, world"
CHUNKS = b"5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
POLICY = policy()
SHORT = policy(max_bytes=5)
SELECTIVE = policy(reject_media_types=("text/html",))
SOME = policy(max_content_length=5)


class Played:
    """The connection of a client that is sent a record's block."""

    def __init__(self, block: bytes) -> None:
        self._block = block

    def makefile(self, mode: str) -> BytesIO:
        """See socket."""
        return BytesIO(self._block)


def as_a_client_reads_it(block: bytes) -> bytes:
    """The body that an HTTP client takes, when a replay tool sends it a record's block and hangs up."""
    answer = http.client.HTTPResponse(cast(socket, Played(block)))
    answer.begin()
    return answer.read()


def stored(directory: Path, fetch: FetchResult) -> tuple[bytes, bytes]:
    """The head and the body of a fetch's record, for whose body all readers agree."""
    writer = WarcWriter(directory, "node")
    assert writer.append(PageVisit(lease(fetch.uri), fetch))
    writer.close()
    (path,) = files(directory)
    check(path)
    (block,) = (record.block for record in read(path) if record.kind == "response")
    head, _, body = block.partition(b"\n\r\n")
    with path.open("rb") as file:
        (fast,) = (each.reader.read() for each in ArchiveIterator(file, record_types=WarcRecordType.response))
    with path.open("rb") as file:
        (slow,) = (
            each.content_stream().read() for each in WarcioIterator(file) if each.rec_type == "response"
        )
    assert fast == slow == body
    assert as_a_client_reads_it(block) == body
    assert body == b"" or re.search(rb"(?im)^Transfer-Encoding[ \t]*:[ \t\r\n]*chunked", head) is None
    return head, body


@pytest.mark.parametrize(
    ("headers", "sent", "under", "body", "kept"),
    [
        (b"Content-Length: 12\r\n", HELLO, POLICY, HELLO, [b"12"]),
        (b"", HELLO, POLICY, HELLO, []),
        (b"Content-Length: 5\r\n" + CHUNKED, CHUNKS, POLICY, HELLO, []),
        (CHUNKED + b"content-length :\r\n 5\r\n", CHUNKS, POLICY, HELLO, []),
        (b"Content-Length: 408\r\n" + CHUNKED, CHUNKS, POLICY, HELLO, []),
        (b"Content-Length: 12\r\n" + CHUNKED, CHUNKS, POLICY, HELLO, [b"12"]),
        (b"Content-Length: many\r\n" + CHUNKED, CHUNKS, POLICY, HELLO, []),
        (b"Content-Length: 5\r\nContent-Length: 12\r\n", HELLO, POLICY, HELLO, [b"12"]),
        (b"Content-Length: 12\r\nContent-Length: 5\r\n", HELLO, POLICY, HELLO, [b"12"]),
        (b"Content-Length: 5, 12\r\n", HELLO, POLICY, HELLO, []),
        (b"Content-Length: 12\r\nContent-Length: 99\r\n", HELLO, POLICY, HELLO, [b"12"]),
        (b"Content-Length: 5\r\n", HELLO, POLICY, b"hello", [b"5"]),
        (b"Content-Length: 5;x\r\n", HELLO, POLICY, HELLO, []),
        (b"Content-Length: +5\r\n", HELLO, POLICY, HELLO, []),
        (b"Content-Length: 0012\r\n", HELLO, POLICY, HELLO, [b"0012"]),
        (b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n", HELLO, POLICY, b"hello", [b"5"]),
        (b"Content-Length: 5\r\nTransfer-Encoding: UTF-8\r\n", HELLO, POLICY, b"hello", [b"5"]),
        (b"Content-Length: 12\r\n", HELLO, SHORT, b"hello", []),
        (b"Content-Length: 12\r\n" + CHUNKED, CHUNKS, SHORT, b"hello", []),
        (b"Content-Length: 99\r\n", HELLO, POLICY, HELLO, []),
        (b"Content-Length: %d\r\n" % 10**30, HELLO, POLICY, HELLO, []),
        (b"Content-Length: 99\r\n" + CHUNKED, CHUNKS[:-5], POLICY, HELLO, []),
        (b"Content-Length: 12\r\n", HELLO, SELECTIVE, b"", []),
        (b"Content-Length: 12\r\n" + CHUNKED, CHUNKS, SELECTIVE, b"", []),
        (CHUNKED, CHUNKS, SELECTIVE, b"", []),
        (b"Content-Length: 12\r\n", HELLO, SOME, b"", []),
    ],
)
def test_readers_find_what_came_whatever_length_was_said(
    tmp_path: Path,
    site: Site,
    fetcher: Fetching,
    headers: bytes,
    sent: bytes,
    under: FetchPolicy,
    body: bytes,
    kept: list[bytes],
) -> None:
    site.answers["/"] = b"HTTP/1.1 200 OK\r\nX:  y\r\n" + headers + b"Content-Type: text/html\r\n\r\n" + sent
    head, found = stored(tmp_path, fetcher.fetch(site.url("/"), under))
    assert found == body
    assert re.findall(rb"(?im)^Content-Length\s*:\s*([^\r\n]*)", head) == kept
    assert head.startswith(b"HTTP/1.1 200 OK\r\nX:  y\r\n"), "other headers are as they came"


@pytest.mark.parametrize(
    ("status", "headers"),
    [(204, b"Content-Length: 5\r\n"), (204, CHUNKED), (205, b"Content-Length: 5\r\n"), (304, CHUNKED)],
)
def test_an_answer_without_a_body_has_none_for_readers(
    tmp_path: Path, site: Site, fetcher: Fetching, status: int, headers: bytes
) -> None:
    site.answers["/"] = b"HTTP/1.1 %d X\r\n" % status + headers + b"\r\n"
    assert stored(tmp_path, fetcher.fetch(site.url("/"), POLICY))[1] == b""


def test_the_length_in_a_304_is_that_of_the_page(tmp_path: Path, site: Site, fetcher: Fetching) -> None:
    site.answers["/"] = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 408\r\n\r\n"
    head, body = stored(tmp_path, fetcher.fetch(site.url("/"), POLICY))
    assert (head, body) == (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 408\r", b"")


def test_a_false_header_keeps_its_bytes_under_another_name() -> None:
    fetch = FetchResult("http://h/", status=200, body_bytes=6, truncation=Truncation.TIME)
    fetch.response_head = (
        b"HTTP/1.1 200\tOK\nContent-length : 5\r\nX:a\r\n\tContent-Length: 5\r\nContent-Length:\r\n  7\r\n"
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\n"
    )
    assert stored_head(fetch) == (
        b"HTTP/1.1 200\tOK\nX-Archive-Orig-Content-length : 5\r\nX:a\r\n\tContent-Length: 5\r\n"
        b"X-Archive-Orig-Content-Length:\r\n  7\r\nContent-Length: 6\r\n"
        b"X-Archive-Orig-Transfer-Encoding: chunked\r\n\n"
    )


@pytest.mark.parametrize(
    ("sent", "status", "body", "kept"),
    [
        (b"\r\n\nHTTP/1.1 200 OK\r\n\r\nhello", 200, b"hello", b"HTTP/1.1 200 OK\r"),
        (b"HTTP/1.0 200 OK\r\n" + CHUNKED + b"\r\n<p>", 200, b"<p>", b"HTTP/1.0 200 OK\r"),
        (
            b"HTTP/1.0 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n<p>",
            200,
            b"<p>",
            b"HTTP/1.0 200 OK\r\nX-Archive-Orig-Transfer-Encoding: gzip\r",
        ),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nX", 302, b"", b"HTTP/1.1 302 Found\r\nLocation: /\r"),
    ],
)
def test_readers_can_read_the_record_of_a_sloppy_head(
    tmp_path: Path, site: Site, fetcher: Fetching, sent: bytes, status: int, body: bytes, kept: bytes
) -> None:
    site.answers["/"] = sent
    fetch = fetcher.fetch(site.url("/"), POLICY)
    assert (fetch.status, fetch.truncation) == (status, Truncation.NONE)
    assert stored(tmp_path, fetch) == (kept, body)
    assert fetch.redirect_target == (site.url("/") if status == 302 else None)
    assert ("headTrunc" in fetch.annotations) == (status == 302)
