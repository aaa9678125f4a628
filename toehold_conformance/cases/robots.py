"""robots.txt: its redirects, and its failures."""

from toehold.frontier.v1.crawl_pb2 import FetchSpec, OverrideSettings
from toehold.frontier.v1.frontier_pb2 import PURPOSE_PAGE
from toehold_client.rpc.contract import duration
from toehold_conformance.answers import (
    LEAF,
    drip,
    head,
    page,
    redirect,
    robots,
    says,
    silence,
    stalls,
    text,
    zipped,
)
from toehold_conformance.case import Cases, Level
from toehold_conformance.evidence import ROBOTS, Evidence, Fails, origin_of

from .site import SITE

CASES = Cases("robots.txt", SITE)

_NO = "although the robots.txt there forbids it"
_FORBIDS = ("User-agent: *", "Disallow: /no")
_TWO = {"/": page("/no", "/yes"), "/no": LEAF, "/yes": LEAF}
_MOST_BYTES = 500 * 1024
_IMPATIENT = OverrideSettings(fetch=FetchSpec(read_timeout=duration(1), timeout=duration(4)))


@CASES.add("Fetch the robots.txt of a host before any page, as its lease comes first.", "PURPOSE_ROBOTS")
def robots_first(seen: Evidence) -> None:
    hosts = {origin_of(given.lease.uri) for given in seen.leases if given.lease.purpose == PURPOSE_PAGE}
    begun: set[str] = set()
    for request in seen.requests:
        origin = origin_of(seen.uri_of(request))
        if origin in hosts and origin not in begun and request.path != ROBOTS:
            raise Fails(f"The fetcher requested {seen.uri_of(request)} before the robots.txt there.")
        begun.add(origin)
    if not begun:
        raise Fails("The fetcher made no request at all.")


@CASES.add(
    "Report the body of a robots.txt.",
    "PURPOSE_ROBOTS, Report.robots_body",
    hosts={"": {ROBOTS: robots(*_FORBIDS), **_TWO}},
)
def robots_body(seen: Evidence) -> None:
    _must_have_body(seen)
    seen.must_ask("/yes")
    seen.must_not_ask("/no", why=_NO)


@CASES.add(
    "Follow up to five redirects of a robots.txt, also to another host, and report the body.",
    "PURPOSE_ROBOTS",
    hosts={
        "": {
            ROBOTS: redirect("/robots/1", "301 Moved Permanently"),
            "/robots/1": redirect("2", "307 Temporary Redirect"),
            "/robots/2": redirect("{own}/robots/3", "308 Permanent Redirect"),
            "/robots/3": redirect("/robots/4"),
            "/robots/4": redirect("{elsewhere}/robots/5"),
            **_TWO,
        },
        "elsewhere": {"/robots/5": robots(*_FORBIDS)},
    },
)
def robots_redirects(seen: Evidence) -> None:
    _must_have_body(seen)
    seen.must_ask("/robots/1", "/robots/2", "/robots/3", "/robots/4", "/yes")
    seen.must_ask("/robots/5", host="elsewhere")
    seen.must_not_ask("/no", why=_NO)


@CASES.add(
    "Report -404 for a robots.txt with more than five redirects, and do not follow the sixth.",
    "PURPOSE_ROBOTS",
    hosts={
        "": {
            ROBOTS: redirect("/robots/1"),
            **{f"/robots/{number}": redirect(f"/robots/{number + 1}") for number in range(1, 6)},
            "/robots/6": robots(*_FORBIDS),
            "/": LEAF,
        }
    },
)
def robots_six_redirects(seen: Evidence) -> None:
    seen.must_report(-404, path=ROBOTS)
    seen.must_not_ask("/robots/6", why="the sixth redirect of its robots.txt")


@CASES.add(
    "Report -404 for a robots.txt whose redirect has no target.",
    "PURPOSE_ROBOTS",
    hosts={"": {ROBOTS: text("", status="302 Found"), "/": LEAF}},
)
def robots_redirect_without_target(seen: Evidence) -> None:
    seen.must_report(-404, path=ROBOTS)


@CASES.add(
    "Report the status of a missing robots.txt.",
    "Report.fetch_status",
    hosts={"": {ROBOTS: text("Gone", status="404 Not Found"), "/": LEAF}},
)
def robots_missing(seen: Evidence) -> None:
    seen.must_report(404, path=ROBOTS)
    seen.must_ask("/")


@CASES.add(
    "Report the status of an unreachable robots.txt.",
    "Report.fetch_status, RobotsSpec.unreachable",
    hosts={"": {ROBOTS: text("Later", status="503 Service Unavailable"), "/": LEAF}},
)
def robots_unavailable(seen: Evidence) -> None:
    seen.must_report(503, path=ROBOTS)
    seen.must_not_ask("/", why="although its robots.txt is unreachable")


@CASES.add(
    "Report -4 for a robots.txt that is never answered.",
    "FETCH_STATUS_TIMEOUT",
    hosts={"": {ROBOTS: silence, "/": LEAF}},
    settings=_IMPATIENT,
)
def robots_silence(seen: Evidence) -> None:
    seen.must_report(-4, path=ROBOTS)
    seen.must_not_ask("/", why="although its robots.txt is unreachable")


@CASES.add(
    "Report what came of a robots.txt that broke off, or a status below zero.",
    "Report.robots_body",
    hosts={"": {ROBOTS: says(head(length=500), b"User-agent: *\nDisallow: /no\nDisall"), **_TWO}},
)
def robots_cut(seen: Evidence) -> None:
    report = seen.robots()
    if report.fetch_status >= 0 and b"Disallow: /no" not in report.robots_body:
        raise Fails(f"The fetcher lost the received part of {seen.uri(ROBOTS)}: {_told(seen)}.")
    seen.must_not_ask("/no", why=_NO)


@CASES.add(
    "Report a status below zero for a robots.txt that broke off before its first byte: it is not empty.",
    "Report.robots_body: a body that was lost on the way must not allow everything",
    hosts={"": {ROBOTS: says(head(length=500)), "/": LEAF}},
)
def robots_lost(seen: Evidence) -> None:
    if seen.robots().fetch_status >= 0:
        raise Fails(f"The fetcher took {seen.uri(ROBOTS)}, whose body was lost, for a file: {_told(seen)}.")
    seen.must_not_ask("/", why="although its robots.txt is unreachable")


@CASES.add(
    "Report a status below zero for a robots.txt whose body drips until the deadline.",
    "FETCH_STATUS_TIMEOUT",
    hosts={"": {ROBOTS: drip(head(length=5000, media_type="text/plain"), seconds=20), "/": LEAF}},
    settings=OverrideSettings(fetch=FetchSpec(timeout=duration(2))),
    level=Level.ADVISED,
)
def robots_drip(seen: Evidence) -> None:
    seen.must_report(-4, path=ROBOTS)


@CASES.add(
    "Report a status below zero for a robots.txt whose server falls silent within it: rules may be missing.",
    "PURPOSE_ROBOTS, FETCH_STATUS_TIMEOUT",
    hosts={"": {ROBOTS: stalls(head(media_type="text/plain"), b"User-agent: *\nDisallow: /no\n"), **_TWO}},
    settings=_IMPATIENT,
)
def robots_silent_body(seen: Evidence) -> None:
    if seen.robots().fetch_status >= 0:
        raise Fails(f"The fetcher took {seen.uri(ROBOTS)}, which fell silent, for a file: {_told(seen)}.")
    seen.must_not_ask("/", "/no", "/yes", why="although its robots.txt is unreachable")


@CASES.add(
    "Report an empty robots.txt with robots_empty.",
    "Report.robots_empty",
    hosts={"": {ROBOTS: robots(), "/": LEAF}},
)
def robots_empty(seen: Evidence) -> None:
    report = seen.must_report(200, path=ROBOTS)
    if not report.robots_empty or report.robots_body:
        raise Fails(f"The fetcher reported the empty {seen.uri(ROBOTS)} without robots_empty.")
    seen.must_ask("/")


@CASES.add(
    "Cut the body of a huge robots.txt at 500 KiB.",
    "Report.robots_body",
    hosts={"": {ROBOTS: robots(*_FORBIDS, *(f"# {'x' * 60}" for _ in range(12_000))), **_TWO}},
)
def robots_huge(seen: Evidence) -> None:
    length = len(seen.must_report(200, path=ROBOTS).robots_body)
    if not 500_000 <= length <= _MOST_BYTES:
        raise Fails(
            f"The fetcher reported {length} bytes of the huge {seen.uri(ROBOTS)}; {_MOST_BYTES} is right."
        )
    seen.must_ask("/yes")
    seen.must_not_ask("/no", why=_NO)


@CASES.add(
    "Read a robots.txt to its end or to 500 KiB, whatever max_bytes is: that is for pages.",
    "Report.robots_body",
    hosts={"": {ROBOTS: robots(*(f"# {'x' * 60}" for _ in range(40)), *_FORBIDS), **_TWO}},
    settings=OverrideSettings(fetch=FetchSpec(max_bytes=1000)),
)
def robots_beyond_max_bytes(seen: Evidence) -> None:
    _must_have_body(seen)
    seen.must_not_ask("/no", why=_NO)


@CASES.add(
    "Report the body of the robots.txt alone, whatever bodies the redirects to it have.",
    "PURPOSE_ROBOTS",
    hosts={
        "": {
            ROBOTS: text("x" * _MOST_BYTES, "Location: /robots/1", status="302 Found"),
            "/robots/1": says(head("Location: /robots/2", status="302 Found", length=500), b"It is at"),
            "/robots/2": robots(*_FORBIDS),
            **_TWO,
        },
    },
)
def robots_redirects_with_bodies(seen: Evidence) -> None:
    _must_have_body(seen)
    seen.must_not_ask("/no", why=_NO)


@CASES.add(
    "Decode the body of a robots.txt that is sent in gzip.",
    "Report.robots_body",
    hosts={"": {ROBOTS: zipped("User-agent: *\nDisallow: /no\n", media_type="text/plain"), **_TWO}},
)
def robots_gzip(seen: Evidence) -> None:
    _must_have_body(seen)
    seen.must_not_ask("/no", why=_NO)


@CASES.add(
    "Report -10 for a robots.txt in a coding that cannot be undone.",
    "FETCH_STATUS_PROTOCOL_ERROR",
    hosts={
        "": {
            ROBOTS: says(
                head("Content-Encoding: gzip", length=6, media_type="text/plain"), b"\x00\xff\x01\xfe\x02\xfd"
            ),
            "/": LEAF,
        }
    },
    level=Level.ADVISED,
)
def robots_garbage(seen: Evidence) -> None:
    seen.must_report(-10, path=ROBOTS)


def _must_have_body(seen: Evidence) -> None:
    if b"Disallow: /no" not in seen.must_report(200, path=ROBOTS).robots_body:
        raise Fails(f"The fetcher reported {seen.uri(ROBOTS)} without its body: {_told(seen)}.")


def _told(seen: Evidence) -> str:
    report = seen.robots()
    empty = " and robots_empty" if report.robots_empty else ""
    return f"status {report.fetch_status} with {len(report.robots_body)} bytes{empty}"
