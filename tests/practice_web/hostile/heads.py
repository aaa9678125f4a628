"""Answers whose heads are no heads."""

from practice_web.hostile.connections import PROTOCOL_ERROR, TIMEOUT
from practice_web.hostile.nastiness import (
    LEAF,
    Handler,
    Nastiness,
    Visit,
    answers,
    link,
    page,
    says,
    says_for_ever,
)

_OK = b"HTTP/1.1 200 OK\r\n"
_HTML = b"Content-Type: text/html\r\nContent-Length: %d\r\n\r\n"
_BODY = b"Content-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>"


def _head(name: str, does: str, status: int, handler: Handler, *notes: str) -> Nastiness:
    return Nastiness(name, does, {"/": status}, {"/": handler}, notes=notes)


def _sloppy(name: str, does: str, head: bytes) -> Nastiness:
    """A page whose head has its length at `%d`, with a link that shows whether it was read."""
    html = link("/behind").encode()
    return Nastiness(
        name, does, {"/": 200, "/behind": 200}, {"/": says(head % len(html), html), "/behind": LEAF}
    )


_MOST_COOKIES = 50
"""Of one host, as the contract has it."""


async def _next_with_few_cookies(visit: Visit) -> None:
    few = len(_cookies(visit)) <= _MOST_COOKIES
    await (LEAF if few else answers(b"", status="431 Too much"))(visit)


async def _next_with_own_cookies(visit: Visit) -> None:
    own = set(_cookies(visit)) <= {"mine=yes"}
    await (LEAF if own else answers(b"", status="400 Not mine"))(visit)


def _cookies(visit: Visit) -> list[str]:
    """The cookies that a request brings along."""
    lines = visit.head.decode("latin-1").split("\r\n")
    sent = [line.partition(":")[2] for line in lines if line.lower().startswith("cookie:")]
    return [cookie.strip() for line in sent for cookie in line.split(";")]


HEADS = (
    _head(
        "slow-head",
        "sends a byte of the head every quarter of a second",
        TIMEOUT,
        says_for_ever(_OK + b"X: ", b"x", pause_s=0.25),
    ),
    _head(
        "endless-head", "sends header after header", PROTOCOL_ERROR, says_for_ever(_OK, b"X: y\r\n" * 1000)
    ),
    _head(
        "endless-header",
        "sends one header that never ends",
        PROTOCOL_ERROR,
        says_for_ever(_OK + b"X: ", b"y" * 65536),
    ),
    _head("many-headers", "sends 100 000 headers", PROTOCOL_ERROR, says(_OK, b"X: y\r\n" * 100_000, _BODY)),
    _head(
        "interim-flood",
        "sends 100 Continue forever",
        PROTOCOL_ERROR,
        says_for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    ),
    _head(
        "unasked-upgrade",
        "switches protocols unasked",
        PROTOCOL_ERROR,
        says(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"),
    ),
    _head(
        "http-0-9", "sends a page without a head", PROTOCOL_ERROR, says(b"<!DOCTYPE html><p>Good old times.")
    ),
    _head(
        "http-2",
        "speaks HTTP/2 unasked",
        PROTOCOL_ERROR,
        says(
            b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64\x00\x04\x00\x01\x00\x00\x00\x05\x00\x00\x40\x00"
        ),
    ),
    _head("other-protocol", "answers as SSH does", PROTOCOL_ERROR, says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")),
    _head("binary-head", "sends 64 KiB of binary data", PROTOCOL_ERROR, says(bytes(range(256)) * 256)),
    _head(
        "status-words",
        "has a status that is not a number",
        PROTOCOL_ERROR,
        says(b"HTTP/1.1 OK fine\r\n" + _BODY),
    ),
    _head("status-99", "has the status 99", PROTOCOL_ERROR, says(b"HTTP/1.1 99 Balloons\r\n" + _BODY)),
    _head("status-000", "has the status 000", PROTOCOL_ERROR, says(b"HTTP/1.1 000 Nothing\r\n" + _BODY)),
    _head("status-999", "has the status 999", 999, says(b"HTTP/1.1 999 Go away\r\n" + _BODY)),
    _head(
        "status-20000", "has the status 20000", PROTOCOL_ERROR, says(b"HTTP/1.1 20000 Very well\r\n" + _BODY)
    ),
    _head(
        "long-reason",
        "has a reason phrase of 1 MB",
        PROTOCOL_ERROR,
        says(b"HTTP/1.1 200 ", b"O" * 1_000_000, b"\r\n" + _BODY),
    ),
    _head("nul-in-header", "has a NUL in a header", PROTOCOL_ERROR, says(_OK + b"X: a\0b\r\n" + _BODY)),
    _head(
        "cr-in-header",
        "has a lone CR in a header",
        200,
        says(_OK + b"X: a\rSet-Cookie: b=c\r\n" + _BODY),
    ),
    _head("no-colon", "has a header without a colon", 200, says(_OK + b"nothing to see\r\n" + _BODY)),
    _head(
        "blank-before-colon",
        "has a blank before a header's colon",
        200,
        says(_OK + b"X : y\r\n" + _BODY),
    ),
    _sloppy(
        "blank-before-length",
        "has a blank before the colon of its length",
        _OK + b"Content-Type: text/html\r\nContent-Length : %d\r\n\r\n",
    ),
    _sloppy("empty-name", "has a header without a name", _OK + b": y\r\n" + _HTML),
    _sloppy("utf-8-name", "has a header's name in UTF-8", _OK + "Über: schön\r\n".encode() + _HTML),
    _sloppy("odd-names", "has headers whose names are not tokens", _OK + b"X [1]: y\r\n@(=): z\r\n" + _HTML),
    _sloppy("two-blanks", "has two blanks in its status line", b"HTTP/1.1  200  OK\r\n" + _HTML),
    _sloppy("no-reason", "has no reason phrase", b"HTTP/1.1 200\r\n" + _HTML),
    _sloppy(
        "transfer-identity",
        "has the transfer coding `identity`",
        _OK + b"Transfer-Encoding: identity\r\n" + _HTML,
    ),
    _sloppy("blank-lines-first", "sends blank lines before its status line", b"\r\n\r\n" + _OK + _HTML),
    _sloppy(
        "needless-chunked",
        "speaks HTTP/1.0, and announces chunks and sends none",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n" + _HTML,
    ),
    Nastiness(
        "no-end-of-head",
        "redirects, and hangs up before the blank line",
        {"/": 302, "/behind": 200},
        {"/": says(b"HTTP/1.1 302 Found\r\nLocation: /behind\r\n"), "/behind": LEAF},
        notes=("headTrunc",),
    ),
    Nastiness(
        "one-sloppy-page",
        "answers one of several pages with something that is not HTTP",
        {"/": 200, "/sloppy": PROTOCOL_ERROR, "/next": 200, "/last": 200},
        {
            "/": page(link("/sloppy") + link("/next") + link("/last")),
            "/sloppy": says(b"500 Oops\n"),
            "/next": LEAF,
            "/last": LEAF,
        },
    ),
    _head("folded-header", "has a header in three lines", 200, says(_OK + b"X: a\r\n b\r\n\tc\r\n" + _BODY)),
    _head("lone-lf", "ends lines with LF alone", 200, says(b"HTTP/1.1 200 OK\nContent-Length: 3\n\n<p>")),
    _head("latin-1-header", "has a header in Latin-1", 200, says(_OK + b"X: caf\xe9 \xff\r\n" + _BODY)),
    _head("huge-etag", "has an ETag of 60 KB", 200, answers(b"<p>", 'ETag: "' + "e" * 60_000 + '"')),
    _head("control-etag", "has control characters in its ETag", 200, answers(b"<p>", 'ETag: "\x01\x02\x7f"')),
    _head(
        "odd-type",
        "has an invalid Content-Type",
        200,
        answers(b"<p>", media_type="text/" + "h" * 5000 + ';;;="'),
    ),
    Nastiness(
        "cookie-flood",
        "sets 3000 cookies in one answer, and counts those that come back",
        {"/": 200, "/next": 200},
        {
            "/": answers(link("/next").encode(), *(f"Set-Cookie: c{n}={'v' * 10}" for n in range(3000))),
            "/next": _next_with_few_cookies,
        },
    ),
    _head(
        "cookies-10000",
        "sets 10 000 cookies in one answer",
        200,
        answers(b"<p>", *(f"Set-Cookie: c{n}=v" for n in range(10_000))),
    ),
    _head(
        "huge-cookie",
        "sets a cookie of 1 MB",
        PROTOCOL_ERROR,
        answers(b"<p>", "Set-Cookie: c=" + "v" * 1_000_000),
    ),
    Nastiness(
        "odd-cookies",
        "sets cookies for other hosts, for a top level domain, without names, until impossible days",
        {"/": 200, "/next": 200},
        {
            "/": answers(
                link("/next").encode(),
                "Set-Cookie: a=b; Domain=example",
                "Set-Cookie: a=b; Domain=.com",
                "Set-Cookie: a=b; Domain=127.66.0.1",
                "Set-Cookie: =; Path=\x01; Max-Age=99999999999999999999",
                "Set-Cookie: mine=yes; Expires=Thu, 99 Foo 9999 99:99:99 GMT",
                "Set-Cookie:",
            ),
            "/next": _next_with_own_cookies,
        },
    ),
)
