"""The records of WARC files, as independent readers find them."""

import base64
import hashlib
from pathlib import Path

import pytest
from node_doubles.leases import lease
from node_doubles.warcs import (
    BODY,
    CAPTURE_DATE,
    CAPTURE_MS,
    START_MS,
    check,
    digest_of,
    fetch,
    files,
    read,
    visit,
)

from crawler_node.extraction.links import Hop, Outlink
from crawler_node.fetching.outcome import Status, Truncation
from crawler_node.output.visit import PageVisit
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
    assert writer.append(PageVisit(lease(gone.uri), gone)) is not None
    writer.close()
    records = read(files(tmp_path)[0])
    responses = [record.uri for record in records if record.kind == "response"]
    assert responses == [f"http://a.example/{name}" for name in ("0", "1", "end", "2")]
    assert [record.uri for record in records if record.kind == "metadata"] == ["http://a.example/end"]


def test_a_page_that_has_not_changed_is_a_revisit_of_its_own_kind(tmp_path: Path) -> None:
    """WARC 1.1, 6.7: profile server-not-modified, which names the capture. The block is empty: replay tools
    would show the head of a 304 as an empty page."""
    writer = WarcWriter(tmp_path, "node")
    unchanged = visit(
        body=b"", status=304, conditional=True, last_digest=digest_of(BODY), capture_ms=CAPTURE_MS
    )
    writer.append(unchanged)
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
    assert revisit.block == b""
    assert revisit.headers["WARC-Payload-Digest"] == digest_of(BODY)
    assert revisit.headers["WARC-Refers-To-Target-URI"] == revisit.uri
    assert revisit.headers["WARC-Refers-To-Date"] == CAPTURE_DATE
    told = metadata.block.decode().splitlines()
    assert [line.partition(": ")[2] for line in told if line.startswith("responseHead")] == [
        "HTTP/1.1 304 All is well",
        "content-TYPE: text/html",
        "X-Odd: caf\xe9",
    ]
    assert revisit.headers["WARC-IP-Address"] == "192.0.2.1"
    assert request.headers["WARC-Concurrent-To"] == revisit.headers["WARC-Record-ID"]
    check(path)


def test_a_body_that_is_that_of_the_last_visit_is_not_stored_again(tmp_path: Path) -> None:
    """WARC 1.1, 6.7: profile identical-payload-digest; the block is the answer's head."""
    writer = WarcWriter(tmp_path, "node")
    writer.append(visit(last_digest=digest_of(BODY), capture_ms=CAPTURE_MS))
    writer.close()
    (path,) = files(tmp_path)
    _, revisit, request, metadata = read(path)
    assert (revisit.kind, request.kind, metadata.kind) == ("revisit", "request", "metadata")
    profile = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert revisit.headers["WARC-Profile"] == profile
    assert revisit.headers["WARC-Payload-Digest"] == digest_of(BODY)
    assert revisit.headers["WARC-Refers-To-Target-URI"] == revisit.uri == "http://a.example/x?y=z"
    assert revisit.headers["WARC-Refers-To-Date"] == CAPTURE_DATE
    assert revisit.block == b"HTTP/1.1 200 All  is well\r\ncontent-TYPE: text/html\r\nX-Odd: caf\xe9\r\n\r\n"
    assert request.headers["WARC-Concurrent-To"] == revisit.headers["WARC-Record-ID"]
    check(path)


@pytest.mark.parametrize(
    "now",
    [
        visit(body=b"new", last_digest=digest_of(BODY), capture_ms=CAPTURE_MS),
        visit(truncation=Truncation.LENGTH, last_digest=digest_of(BODY), capture_ms=CAPTURE_MS),
        visit(body=b"", last_digest=digest_of(b""), capture_ms=CAPTURE_MS),
        visit(last_digest=digest_of(BODY)),
        visit(body=b"", status=304, conditional=True, last_digest=digest_of(BODY)),
        visit(),
    ],
    ids=["another body", "a cut body", "an empty body", "no capture", "no capture, 304", "a first visit"],
)
def test_any_other_answer_is_stored_whole(tmp_path: Path, now: PageVisit) -> None:
    writer = WarcWriter(tmp_path, "node")
    writer.append(now)
    writer.close()
    assert read(files(tmp_path)[0])[1].kind == "response"
    check(files(tmp_path)[0])


def found_visit() -> PageVisit:
    made = visit()
    made.fetch.duration_ms = 17
    found = lease(made.fetch.uri, path="LE", source="http://seed.example/")
    found.via = "http://a.example/\r\nevil: 1"
    links = [
        Outlink("http://b.example/", Hop.LINK, "a/@href"),
        Outlink("http://c.example/", Hop.EMBED, "x\ny"),
    ]
    return PageVisit(found, made.fetch, links)


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
