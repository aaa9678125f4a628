"""Bodies: how they are framed, and where they are cut."""

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold_client.rpc.contract import duration
from toehold_conformance.answers import LEAF, chunked, drip, flood, head, page, says, stalls, zipped
from toehold_conformance.case import Cases, Level
from toehold_conformance.evidence import Evidence, Fails

from .site import SITE

CASES = Cases("Bodies", SITE)

_FLOOD_BYTES = 64 * 1024 * 1024
_MOST_READ_BYTES = 16 * 1024 * 1024  # sent although nobody reads: buffers of both ends
_MAX_BYTES = 100_000
_TIMEOUT_S, _READ_TIMEOUT_S = 2.0, 1.0
_CUT = b'<!DOCTYPE html><a href="/leaf">on</a><p>And then'
_KEPT_OPEN = b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "x"\r\nConnection: keep-alive\r\n\r\n'
_SILENT = ("/no-length", "/length", "/chunks", "/nothing")
_ENDS_SILENCE = crawl_pb2.OverrideSettings(
    fetch=crawl_pb2.FetchSpec(read_timeout=duration(_READ_TIMEOUT_S), timeout=duration(10))
)


@CASES.add(
    "Read bodies in chunks.",
    "Report.body_bytes",
    hosts={"": {"/": chunked("<!DOCTYPE html><p>One", '<a href="/le', 'af">on</a>'), "/leaf": LEAF}},
)
def chunks(seen: Evidence) -> None:
    seen.must_be_cut(frontier_pb2.TRUNCATION_UNSPECIFIED)
    seen.must_ask("/leaf")


@CASES.add(
    "Decode a page in gzip before you look for links, if you ask for gzip.",
    "PURPOSE_PAGE",
    hosts={"": {"/": zipped('<!DOCTYPE html><a href="/leaf">on</a>'), "/leaf": LEAF}},
)
def gzip_page(seen: Evidence) -> None:
    seen.must_be_cut(frontier_pb2.TRUNCATION_UNSPECIFIED)
    seen.must_ask("/leaf")


@CASES.add(
    "Report an answer whose body broke off with its own status, TRUNCATION_DISCONNECT and no validators.",
    "TRUNCATION_DISCONNECT, FETCH_STATUS_CONNECT_LOST, Report.etag",
    hosts={"": {"/": says(head('ETag: "x"', length=len(_CUT) + 100), _CUT), "/leaf": LEAF}},
)
def body_too_short(seen: Evidence) -> None:
    _must_have_no_validators(seen, seen.must_be_cut(frontier_pb2.TRUNCATION_DISCONNECT))


@CASES.add(
    "Offer the links in the received part of a body that broke off.",
    "FETCH_STATUS_CONNECT_LOST",
    hosts={"": {"/": says(head(length=len(_CUT) + 100), _CUT), "/leaf": LEAF}},
    level=Level.ADVISED,
)
def links_of_a_cut_body(seen: Evidence) -> None:
    seen.must_ask("/leaf")


@CASES.add(
    "Report chunks without an end with TRUNCATION_DISCONNECT.",
    "TRUNCATION_DISCONNECT",
    hosts={"": {"/": chunked("<!DOCTYPE html><p>One", last=False)}},
)
def chunks_cut(seen: Evidence) -> None:
    seen.must_be_cut(frontier_pb2.TRUNCATION_DISCONNECT)


@CASES.add(
    "Read as many bytes as Content-Length says, and leave the rest.",
    "Report.body_bytes",
    hosts={"": {"/": says(head(length=20), b"<!DOCTYPE html><p>On" + b"x" * 100)}},
)
def body_too_long(seen: Evidence) -> None:
    report = seen.must_be_cut(frontier_pb2.TRUNCATION_UNSPECIFIED)
    if report.body_bytes != 20:
        raise Fails(f"The fetcher reported {report.body_bytes} bytes for {seen.uri()}; 20 is right.")


@CASES.add(
    "Read at most max_bytes of a body, and report TRUNCATION_LENGTH.",
    "FetchPolicy.max_bytes, TRUNCATION_LENGTH",
    hosts={"": {"/": flood(head(), _FLOOD_BYTES)}},
    settings=crawl_pb2.OverrideSettings(fetch=crawl_pb2.FetchSpec(max_bytes=_MAX_BYTES)),
)
def max_bytes(seen: Evidence) -> None:
    report = seen.must_be_cut(frontier_pb2.TRUNCATION_LENGTH)
    if report.body_bytes != _MAX_BYTES:
        raise Fails(
            f"The fetcher reported {report.body_bytes} bytes for {seen.uri()}; {_MAX_BYTES} is right."
        )
    _must_hang_up(seen, "/")


@CASES.add(
    "Leave the body of an unwanted media type unread, and report TRUNCATION_FILTER.",
    "FetchPolicy.reject_media_types, TRUNCATION_FILTER",
    hosts={"": {"/": page("/archive"), "/archive": flood(head(media_type="application/zip"), _FLOOD_BYTES)}},
    settings=crawl_pb2.OverrideSettings(fetch=crawl_pb2.FetchSpec(reject_media_types=["application/*"])),
)
def media_type_filter(seen: Evidence) -> None:
    seen.must_be_cut(frontier_pb2.TRUNCATION_UNSPECIFIED)
    seen.must_be_cut(frontier_pb2.TRUNCATION_FILTER, "/archive")
    _must_hang_up(seen, "/archive")


@CASES.add(
    "Leave a body unread that is announced as longer than max_content_length.",
    "FetchPolicy.max_content_length, TRUNCATION_FILTER",
    hosts={"": {"/": flood(head(length=_FLOOD_BYTES), _FLOOD_BYTES)}},
    settings=crawl_pb2.OverrideSettings(fetch=crawl_pb2.FetchSpec(max_content_length=1000)),
)
def length_filter(seen: Evidence) -> None:
    seen.must_be_cut(frontier_pb2.TRUNCATION_FILTER)
    _must_hang_up(seen, "/")


@CASES.add(
    "End a fetch at its deadline, also while bytes keep coming, and report TRUNCATION_TIME.",
    "FetchPolicy.timeout, TRUNCATION_TIME",
    hosts={"": {"/": drip(head(), seconds=30)}},
    settings=crawl_pb2.OverrideSettings(fetch=crawl_pb2.FetchSpec(timeout=duration(_TIMEOUT_S))),
)
def slow_body(seen: Evidence) -> None:
    seen.must_be_cut(frontier_pb2.TRUNCATION_TIME)
    seen.must_end(_TIMEOUT_S)


@CASES.add(
    "Report an answer whose server falls silent within the body for read_timeout, or before its first byte, "
    "with its own status, TRUNCATION_TIME and no validators.",
    "TRUNCATION_TIME, FetchPolicy.read_timeout, Report.etag",
    hosts={
        "": {
            "/": page(*_SILENT),
            "/no-length": stalls(_KEPT_OPEN, _CUT),
            "/length": stalls(head('ETag: "x"', length=len(_CUT) + 100), _CUT),
            "/chunks": stalls(head('ETag: "x"', "Transfer-Encoding: chunked"), b"%x\r\n" % len(_CUT), _CUT),
            "/nothing": stalls(head('ETag: "x"', length=100)),
        }
    },
    settings=_ENDS_SILENCE,
)
def silent_body(seen: Evidence) -> None:
    for path in _SILENT:
        _must_have_no_validators(seen, seen.must_be_cut(frontier_pb2.TRUNCATION_TIME, path), path)
        seen.must_end(_READ_TIMEOUT_S, path)


@CASES.add(
    "Offer the links in the received part of a body whose server fell silent.",
    "TRUNCATION_TIME",
    hosts={"": {"/": stalls(_KEPT_OPEN, _CUT), "/leaf": LEAF}},
    settings=_ENDS_SILENCE,
    level=Level.ADVISED,
)
def links_of_a_silent_body(seen: Evidence) -> None:
    seen.must_ask("/leaf")


def _must_have_no_validators(seen: Evidence, report: frontier_pb2.Report, path: str = "/") -> None:
    if report.etag or report.last_modified:
        raise Fails(
            f"The fetcher reported the ETag of {seen.uri(path)}, whose body broke off; none is right."
        )


def _must_hang_up(seen: Evidence, path: str) -> None:
    for request in seen.asked(path):
        if request.sent_bytes > _MOST_READ_BYTES:
            raise Fails(
                f"The fetcher read {request.sent_bytes} bytes of {seen.uri(path)}; it should hang up at once."
            )
