"""One exchange over a connection that plays back an answer, as sloppy or broken as servers send them."""

from typing import cast

import pytest

from crawler_node.fetching.answer_head import ProtocolError
from crawler_node.fetching.connection import ConnectionLost, SiteConnection
from crawler_node.fetching.exchange import GET, Answer, ask


class Played:
    """A connection whose other end sends `data` and hangs up."""

    def __init__(self, data: bytes, piece_bytes: int) -> None:
        self._pieces = [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]
        self.received = 0

    def read(self) -> bytes:
        piece = self._pieces.pop(0) if self._pieces else b""
        self.received += len(piece)
        return piece

    def write(self, data: bytes) -> None:
        assert data.startswith(b"GET / HTTP/1.1\r\n")


def asked(sent: bytes, piece_bytes: int = 65536) -> Answer:
    return ask(cast(SiteConnection, Played(sent, piece_bytes)), GET, b"/", [])


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"<html>HTTP/0.9 has no head",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 99 OK\r\n\r\n",
        b"HTTP/1.1 -200 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        b"HTTP/1.1 200 O\0K\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX\0: b\r\n\r\n",
        b"\0" * 1000,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<p>no chunk",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\nx",
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n!",
        b"\x15\x03\x01\x00\x02\x02\x0a",
    ],
    ids=lambda sent: repr(sent[:70]),
)
def test_bytes_that_are_no_http_are_a_protocol_error(sent: bytes) -> None:
    with pytest.raises(ProtocolError):
        b"".join(asked(sent).body())


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!!\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" + b"f" * 30 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nhello",
    ],
    ids=lambda sent: repr(sent[17:70]),
)
def test_a_body_that_breaks_off_has_all_that_came_before(sent: bytes) -> None:
    answer = asked(sent)
    came = b""
    with pytest.raises((ConnectionLost, ProtocolError)):
        for piece in answer.body():
            came += piece
    assert (answer.status, came) == (200, b"hello")


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/0.9 200 OK\r\n\r\nhello",
        b"HTTP/2.0 200 OK\r\n\r\nhello",
        b"HTTP/2 200 \r\n\r\nhello",
        b"http/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1  200  All  is  well\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1\t200\tOK\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more than was said",
        b"HTTP/1.1 200 OK\r\nX: caf\xe9 \x01\r\n folded\r\n\r\nhello",
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n000\r\nT: \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: nameless\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nno colon here\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\n folded at once\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\n\xc3\x9cber: sch\xc3\xb6n\r\nX [1]@: y\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nX: a\rContent-Length: 3\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\nContent-Length:\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n 5 \r\nhello\r\n0 \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nno trailer\r\n\r\n",
        b"\r\nHTTP/1.1 200 OK\r\n\r\nhello",
        b"\nHTTP/1.1 200 OK\n\nhello",
        b"\r\n\r\n\n\rHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!",
        b"\r\n" * 40_000 + b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"\r\nHTTP/1.1 103 Early Hints\r\n\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhello",
    ],
    ids=lambda sent: repr(sent[:80]),
)
def test_harmless_nonsense_is_overlooked(sent: bytes) -> None:
    """curl and http.client take these answers, too."""
    answer = asked(sent)
    assert (answer.status, b"".join(answer.body()), answer.has_ambiguous_length) == (200, b"hello", False)


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        (b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
        (b"Content-Length: many\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
        (b"Content-Length: 5\r\nContent-Length: 3", b"hello!"),
        (b"Content-Length: 5\r\nContent-Length: 9", b"hello"),
        (b"Content-Length: 3, 5", b"hello!"),
        (b"Content-Length: +5", b"hello"),
        (b"Content-Length: 5;", b"hello"),
        (b"Content-Length: 0x10", b"hello"),
        (b"Transfer-Encoding: binary\r\nContent-Length: 5", b"hello!"),
        (b"Transfer-Encoding: UTF-8", b"hello"),
    ],
)
def test_an_ambiguous_length_is_noted(headers: bytes, sent: bytes) -> None:
    answer = asked(b"HTTP/1.1 200 OK\r\n%s\r\nConnection: keep-alive\r\n\r\n%s" % (headers, sent))
    assert (answer.status, b"".join(answer.body()), answer.has_ambiguous_length) == (200, b"hello", True)


@pytest.mark.parametrize(
    ("headers", "sent", "body"),
    [
        (b"Transfer-Encoding: chunked", b"<p>plain", b"<p>plain"),
        (b"Transfer-Encoding: chunked", b"", b""),
        (b"Transfer-Encoding: chunked", b"42", b"42"),
        (b"Transfer-Encoding: chunked", b"\r\n<p>plain\n", b"\r\n<p>plain\n"),
        (b"Transfer-Encoding: chunked", b"beads\r\n"[:5], b"beads"),
        (b"Transfer-Encoding: chunked", b"f" * 20 + b"\n<p>", b"f" * 20 + b"\n<p>"),
        (b"Transfer-Encoding: chunked", b"5;" + b"x" * 20_000, b"5;" + b"x" * 20_000),
        (b"Transfer-Encoding: chunked", b"5;" + b"x" * 20_000 + b"\n", b"5;" + b"x" * 20_000 + b"\n"),
        (b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"Transfer-Encoding: chunked", b"0005;x\nhello\n0\n\n!", b"hello"),
        (b"Transfer-Encoding: chunked", b"0\r\n\r\n", b""),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5", b"hello!", b"hello"),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5", b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"Transfer-Encoding: chunked\r\nContent-Length: many", b"hello!", b"hello!"),
        (b"Transfer-Encoding: gzip", b"<p>plain", b"<p>plain"),
        (b"Transfer-Encoding: gzip, chunked", b"<p>plain", b"<p>plain"),
        (b"Transfer-Encoding: binary\r\nContent-Length: 5", b"hello!", b"hello"),
    ],
)
def test_http_1_0_has_chunks_only_if_they_come(headers: bytes, sent: bytes, body: bytes) -> None:
    """RFC 9112 6.1; browsers overlook the header there."""
    for version, piece_bytes in ((b"1.0", 1), (b"0.9", 7), (b"1", 65536)):
        answer = asked(b"HTTP/%s 200 OK\r\n%s\r\n\r\n%s" % (version, headers, sent), piece_bytes)
        assert (answer.status, b"".join(answer.body()), answer.has_ambiguous_length) == (200, body, True)


def test_chunks_of_http_1_0_that_break_off_are_cut() -> None:
    answer = asked(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello")
    with pytest.raises(ConnectionLost):
        b"".join(answer.body())


@pytest.mark.sampled(
    ("sent", "raw"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\n", b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n"),
        (b"HTTP/1.0 301\nlocation:/x\n", b"HTTP/1.0 301\nlocation:/x\n\r\n"),
        (b"\r\nHTTP/1.1 307 X\r\nLocation: /x\r\nContent-Le", b"HTTP/1.1 307 X\r\nLocation: /x\r\n\r\n"),
        (
            b"HTTP/1.1 303 X\r\nContent-Length: 0\r\nLocation: /x\r\n\r",
            b"HTTP/1.1 303 X\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n",
        ),
    ],
)
@pytest.mark.sampled("piece_bytes", [1, 65536])
def test_a_redirect_is_taken_that_lacks_the_end_of_its_head(
    sent: bytes, raw: bytes, piece_bytes: int
) -> None:
    answer = asked(sent, piece_bytes)
    assert (answer.head.raw, answer.head.is_whole) == (raw, False)
    assert b"".join(answer.body()) == b""
    assert answer.head.listed(b"location") == [b"/x"]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n\r\n",
        b"HTTP/1.1 302 Found\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /x",
        b"HTTP/1.1 302 Found\r\nX: y\r\nLocation: http://h/ha",
        b"HTTP/1.1 200 OK\r\nLocation: /x\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
        b"HTTP/1.1 3\r\nLocation: /x\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\nX: \0\r\n",
    ],
)
def test_any_other_head_without_its_end_is_lost(sent: bytes) -> None:
    with pytest.raises(ConnectionLost):
        asked(sent)
