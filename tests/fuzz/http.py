"""What servers send to nodes: heads, bodies, codings, cookies, challenges, certificates; whole answers."""

import functools
import gzip
import socket
import ssl
import tempfile
import threading
import zlib
from collections.abc import Iterator
from io import BytesIO
from ipaddress import ip_address
from pathlib import Path
from typing import cast

import trustme
from frontier_harness.waiting import PATIENCE_S

from crawler_node.extraction.extract import outlinks
from crawler_node.fetching.addresses import Resolver
from crawler_node.fetching.answer_head import ProtocolError, parse_head
from crawler_node.fetching.authentication import authorization
from crawler_node.fetching.cancellation import Cancellation
from crawler_node.fetching.connection import ConnectFailed, ConnectionLost, HostLink, SiteConnection
from crawler_node.fetching.cookies import MAX_HEADER_BYTES, CookieJars
from crawler_node.fetching.decode import PIECE_BYTES, coding_note, decoded, decoding
from crawler_node.fetching.exchange import GET, ask
from crawler_node.fetching.fetch import ExtractSettings, FetchPolicy
from crawler_node.fetching.http_fetch import HttpFetcher
from crawler_node.fetching.outcome import Status, retry_after_ms
from crawler_node.fetching.proxy import Proxy
from crawler_node.fetching.trust import Trust
from toehold_client.worker.addresses import AddressRule, AddressSet

from .target import Said, Target

_NOW_MS = 1_700_000_000_000


class _Played:
    """A stream that brings an input, in pieces as long as its first byte says."""

    def __init__(self, data: bytes) -> None:
        self._left = BytesIO(data[1:])
        self._most = max(1, data[0]) if data else 1
        self.received = 0

    def read(self) -> bytes:
        """See SiteConnection."""
        piece = self._left.read(self._most)
        self.received += len(piece)
        return piece

    def write(self, data: bytes) -> None:
        """See SiteConnection."""


def _head(data: bytes) -> Said:
    head = parse_head(data)
    assert 100 <= head.status <= 999
    return head.status // 100, len(head.headers), len(head.raw_without(b"transfer-encoding")) == len(data)


def _answer(data: bytes) -> Said:
    """However an answer is cut into pieces, the same is read."""
    said: list[object] = []
    for most in (data[:1], b"\xff"):
        try:
            answer = ask(cast(SiteConnection, _Played(most + data[1:])), GET, b"/", [])
            said += [answer.status, answer.is_chunked, answer.announced, b"".join(answer.body())]
        except (ProtocolError, ConnectionLost) as problem:
            said.append(type(problem))
    half = len(said) // 2
    assert said[:half] == said[half:], said
    return tuple(type(each) if isinstance(each, bytes) else each for each in said[:half])


def _coded(data: bytes) -> Said:
    """The same comes whether it is asked for in pieces or as a whole, and no more than is wanted."""
    encoding, _, body = data.partition(b"\n")
    name = encoding.decode("latin-1")
    told = decoded(BytesIO(body), name, 100_000)
    pieces = decoding(BytesIO(body), name, 100_000)
    coding_note(BytesIO(body), name)
    if told is None or pieces is None:
        assert told is None and pieces is None
        return None
    found = list(pieces)
    assert b"".join(found) == told and len(told) <= 100_000
    assert all(len(piece) <= PIECE_BYTES for piece in found)
    return len(told) > len(body), told == body


def _cookies(data: bytes) -> Said:
    """What is sent back is what a header can carry."""
    jars = CookieJars(lambda: _NOW_MS / 1000)
    lines = data.split(b"\n")
    for https in (True, False):
        for host, path in (("www.a.example", "/d/e?f"), ("127.0.0.1", "/"), ("co.uk", "/")):
            jars.take("c", host, path, lines, https=https)
    sent = [
        jars.header("c", host, path, https=https).text
        for host in ("www.a.example", "a.example", "b.www.a.example", "127.0.0.1", "co.uk")
        for path in ("/", "/d/e", "/d/ef")
        for https in (True, False)
    ]
    assert all(len(header) <= MAX_HEADER_BYTES and not set(header) & set(b"\r\n\0") for header in sent)
    return tuple(header.count(b"=") for header in sent)


def _challenge(data: bytes) -> Said:
    told = authorization(data.split(b"\n"), "user", 'pass"word', "/a?b", "cnonce")
    assert told is None or not set(told) & set(b"\r\n\0"), told
    return told and told.partition(b" ")[0]


def _retry_after(data: bytes) -> Said:
    told = retry_after_ms(data.decode("latin-1"), _NOW_MS)
    assert told is None or told >= 0
    return told is None or told.bit_length()


MAX_SENT_BYTES = 64 * 1024
"""What a socket takes before anybody reads."""


class _Links:
    """Streams over sockets whose other end has said all that it will."""

    def __init__(self) -> None:
        self._resolver, self._rule = Resolver(), AddressRule(AddressSet.LOOPBACK)

    def _link(self) -> HostLink:
        return HostLink(
            self._resolver,
            self._rule,
            Cancellation(),
            deadline_s=float("inf"),
            timeout_s=float("inf"),
            connect_s=PATIENCE_S,
            read_s=PATIENCE_S,
            wire_limit=1 << 20,
        )

    def connection(self, data: bytes) -> tuple[SiteConnection, socket.socket]:
        """A stream that brings some bytes, and its other end, which takes what is written."""
        ours, theirs = socket.socketpair()
        theirs.sendall(data[:MAX_SENT_BYTES])
        theirs.shutdown(socket.SHUT_WR)
        return SiteConnection(ours, ip_address("127.0.0.1"), self._link()), theirs


_links = _Links()


def _tunnel(data: bytes) -> Said:
    """What a proxy answers to CONNECT."""
    stream, theirs = _links.connection(data)
    try:
        Proxy.parse("http://u:p@127.0.0.1:1").tunnel(stream, b"a.example", 443)
    finally:
        stream.close()
        theirs.close()
    return "open"


def _handshake(data: bytes) -> Said:
    """What a TLS server sends: a host that proves nothing is never talked to."""
    stream, theirs = _links.connection(data)
    try:
        stream.start_tls(_trust(), "a.example")
    except ConnectFailed as problem:
        return str(problem.__cause__)[:60]
    finally:
        stream.close()
        theirs.close()
    raise AssertionError("the handshake was completed by a recording")


@functools.cache
def _trust() -> Trust:
    trust = Trust(None)
    trust.context("a.example").minimum_version = ssl.TLSVersion.TLSv1_2
    return trust


def _authorities(data: bytes) -> Said:
    """A file of certificates that an operator names."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        Trust(Path(file.name))
    return "taken"


def _recorded_handshakes() -> Iterator[bytes]:
    """What TLS servers answer to a node, their certificates in plain text, as TLS 1.2 sends them."""
    authority = trustme.CA()
    for names in (("a.example",), ("*.example", "127.0.0.1", "bücher.example")):
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.maximum_version = ssl.TLSVersion.TLSv1_2
        authority.issue_cert(*names).configure_cert(server)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = _trust().context("a.example").wrap_bio(to_client, to_server, server_hostname="a.example")
        served = server.wrap_bio(to_server, to_client, server_side=True)
        for side in (client, served):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        yield to_client.read()


class _Echo:
    """A server on loopback that answers each request with what it was last told to, and hangs up."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.answer = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                try:
                    connection.recv(65536)
                    connection.sendall(self.answer)
                except OSError:
                    continue


@functools.cache
def _echo() -> _Echo:
    return _Echo()


@functools.cache
def _fetcher() -> HttpFetcher:
    return HttpFetcher(Resolver())


@functools.cache
def _policy() -> FetchPolicy:
    return FetchPolicy(
        "p",
        "toehold (+http://a.example/)",
        60_000,
        200_000,
        AddressRule(AddressSet.LOOPBACK),
        cookies=True,
        keep_alive=True,
        user="user",
        password="password",
        accept_media_types=("text/*", "application/*"),
        max_content_length=10**9,
    )


def _fetched(data: bytes) -> Said:
    """A whole fetch, as a toe thread makes it: it ends with a status, and its links can be looked for."""
    echo = _echo()
    echo.answer = data
    uri = f"http://127.0.0.1:{echo.port}/page"
    fetch = _fetcher().fetch(uri, _policy())
    try:
        if fetch.error is not None:
            raise fetch.error
        assert fetch.status != Status.RUNTIME_EXCEPTION
        assert all(note.isascii() and note.isprintable() and " " not in note for note in fetch.annotations)
        found = outlinks(fetch, ExtractSettings(javascript=True), "toehold")
        if found.error is not None:
            raise found.error
        retry_after_ms(fetch.retry_after, _NOW_MS)
        return fetch.status // 100, fetch.truncation, bool(found.links), fetch.redirect_target is None
    finally:
        fetch.close()


_OK = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 26\r\n\r\n"
    b"<a href=/x>link</a><img s=>"
)
_CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nA: b\r\n\r\n"
)
_MOVED = b"HTTP/1.1 301 Moved\r\nLocation: /\xc3\xa4?b\r\nSet-Cookie: a=b; Path=/; Max-Age=9\r\n\r\n"
_ASKS = (
    b'HTTP/1.1 401 No\r\nWWW-Authenticate: Digest realm="r", nonce="n", qop="auth,auth-int", '
    b"algorithm=SHA-256\r\n\r\n"
)
_BUSY = b"HTTP/1.0 503 Busy\nRetry-After: Wed, 15 Nov 2023 00:00:00 GMT\nX: y\n z\n\n"
_ZIPPED = (
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nLink: </n>; rel=next\r\nRefresh: 1;url=/r\r\n\r\n"
    + gzip.compress(b"<a href=y>", mtime=0)
)
_HEADS = (_OK, _CHUNKED, _MOVED, _ASKS, _BUSY, _ZIPPED, b"HTTP/1.1 100 Continue\r\n\r\n" + _OK)
_HEAD_WORDS = (
    *(
        b"HTTP/1.1 ",
        b"HTTP/1.1 200\r\n",
        b"\r\n\r\n",
        b"\n\n",
        b"\r\n ",
        b"\r\n\t",
        b"Content-Length: ",
        b"chunked",
    ),
    *(
        b"Transfer-Encoding: ",
        b"Content-Encoding: ",
        b"gzip",
        b"deflate",
        b"br",
        b"Content-Type: ",
        b"charset=",
        b"\0",
    ),
    *(
        b"0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"Location: ",
        b"Set-Cookie: ",
        b"Retry-After: ",
        b"identity",
        b"304",
        b"204",
    ),
    *(b"WWW-Authenticate: ", b"Content-Range: ", b"X-Robots-Tag: none\r\n", b"Connection: keep-alive\r\n"),
)
_DEFLATED = zlib.compress(b"text " * 50)
_BOMB = gzip.compress(gzip.compress(b"\0" * 3_000_000, mtime=0), mtime=0)
_PEM = trustme.CA().cert_pem.bytes()


TARGETS = (
    Target(
        "head",
        _head,
        tuple(each.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" for each in _HEADS),
        _HEAD_WORDS,
        (ProtocolError,),
    ),
    Target("answer", _answer, tuple(b"\3" + each for each in _HEADS), _HEAD_WORDS),
    Target(
        "coding",
        _coded,
        (
            b"gzip\n" + gzip.compress(b"a" * 99, mtime=0),
            b"deflate\n" + _DEFLATED,
            b"deflate\n" + _DEFLATED[2:-4],
            b"gzip, gzip\n" + _BOMB,
            b"br\nplain text",
        ),
        (b"gzip", b"x-gzip", b"deflate", b"identity", b",", b"\x1f\x8b\x08", b"\x78\x9c", b"aws-chunked,"),
    ),
    Target(
        "cookies",
        _cookies,
        (
            b"a=b; Domain=.a.example; Path=/d; Expires=Wed, 09 Jun 2027 10:18:14 GMT; Secure; HttpOnly\n"
            b"c=d; Max-Age=60",
            b"x=; domain=co.uk\ny=1;path=e",
        ),
        (
            b"; Domain=",
            b"; Path=",
            b"; Max-Age=",
            b"; Expires=",
            b"; Secure",
            b"a.example",
            b"Mon, 01-Jan-70 00:00:00 GMT",
            b"99999",
            b"GMT+9999",
            b"-0000",
        ),
    ),
    Target(
        "challenge",
        _challenge,
        (
            _ASKS.partition(b": ")[2].strip(),
            b'Basic realm="x", Digest realm="\\"", nonce=n\nNegotiate\nDigest qop=auth, nonce="a"',
        ),
        (
            b"Digest ",
            b"Basic ",
            b"nonce=",
            b"qop=",
            b"realm=",
            b"algorithm=MD5-sess",
            b"opaque=",
            b"userhash=true",
            b'"',
            b",",
            b"charset=UTF-8",
        ),
    ),
    Target(
        "retry-after",
        _retry_after,
        (
            b"120",
            b"Wed, 15 Nov 2023 00:00:00 GMT",
            b"Wed Nov 15 00:00:00 2023",
            b"15 Nov 23 00:00 -0000",
            b"Wednesday, 15-Nov-23 00:00:00 EST",
        ),
        (b"GMT", b"-0000", b"+9999", b":", b",", b"Feb 31", b"24:60:60", b"0000", b"99999", b"1 Jan 1"),
        sources=("/crawler_node/", "/email/"),
    ),
    Target(
        "proxy-answer",
        _tunnel,
        (b"HTTP/1.1 200 Connection established\r\n\r\n", b"HTTP/1.1 407 No\r\nContent-Length: 3\r\n\r\nabc"),
        _HEAD_WORDS,
        (ConnectFailed, ConnectionLost, ProtocolError),
    ),
    Target(
        "certificates",
        _handshake,
        tuple(_recorded_handshakes()),
        (
            b"\x16\x03\x03",
            b"\x30\x82",
            b"\x02\x01",
            b"\x06\x03\x55\x1d\x11",
            b"\x0b",
            b"\x15\x03\x03\0\2\2\x28",
        ),
    ),
    Target(
        "certificate-file",
        _authorities,
        (_PEM, _PEM * 2, b"# none\n"),
        (b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n", b"=", b"MII", b"\n"),
        (ValueError,),
    ),
    Target("fetch", _fetched, _HEADS, _HEAD_WORDS),
)
