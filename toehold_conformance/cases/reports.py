"""Reports of answers."""

import base64
import hashlib
import time
from email.utils import formatdate

from toehold_client.spec.plain import seconds_of
from toehold_conformance.answers import LEAF, Visit, head, later, page, redirect, says, text
from toehold_conformance.case import Cases, Level
from toehold_conformance.evidence import Evidence, Fails

from .site import REVISITED, SITE

CASES = Cases("Reports", SITE)

_BODY = "<!DOCTYPE html><p>A body of some bytes."
_DIGEST = "sha1:" + base64.b32encode(hashlib.sha1(_BODY.encode()).digest()).decode()
_ETAG = '"conformance-1"'
_MODIFIED = "Mon, 02 Mar 2026 10:00:00 GMT"
_THINK_S = 0.5


def _at(number: int) -> str:
    return f"/status-{number}"


_ODD = (206, 403, 404, 410, 418, 500, 501, 599)


@CASES.add(
    "Report the status of an answer as it is.",
    "Report.fetch_status",
    hosts={
        "": {
            "/": page(*map(_at, (204, *_ODD))),
            "/status-204": says(head(status="204 No Content", media_type="")),
            **{_at(number): text("Odd", status=f"{number} Odd") for number in _ODD},
        }
    },
)
def statuses(seen: Evidence) -> None:
    for number in (204, *_ODD):
        seen.must_report(number, path=_at(number))


@CASES.add(
    "Report a status from 600 to 999 as it is.",
    "Report.fetch_status",
    hosts={
        "": {
            "/": page(_at(600), _at(999)),
            **{_at(number): text("Odd", status=f"{number} Odd") for number in (600, 999)},
        }
    },
)
def statuses_beyond_599(seen: Evidence) -> None:
    for number in (600, 999):
        seen.must_report(number, path=_at(number))


@CASES.add(
    "Skip interim answers (1xx), and report the final one.",
    "Report.fetch_status, RFC 9110 15.2",
    hosts={
        "": {
            "/": page("/continue", "/hints"),
            "/continue": says(b"HTTP/1.1 100 Continue\r\n\r\n", head(length=2), b"ok"),
            "/hints": says(
                b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n",
                head(status="404 Not Found", length=2),
                b"no",
            ),
        }
    },
)
def interim_answers(seen: Evidence) -> None:
    seen.must_report(200, path="/continue")
    seen.must_report(404, path="/hints")


@CASES.add(
    "Report the media type without parameters.",
    "Report.media_type",
    hosts={"": {"/": text(_BODY, media_type="text/html; charset=utf-8; x=y")}},
)
def media_type(seen: Evidence) -> None:
    found = seen.must_report(200).media_type
    if found.lower() != "text/html":
        raise Fails(f"The fetcher reported the media type {found!r} for {seen.uri()}; 'text/html' is right.")


@CASES.add(
    "Send strings in UTF-8, also if a header has other bytes: otherwise the whole call fails.",
    "Report.etag, Candidate.uri",
    hosts={
        "": {
            "/": page("/tag", "/target"),
            "/tag": text(_BODY, 'ETag: "caf\xe9"'),
            "/target": redirect("/caf\xe9"),
        }
    },
)
def headers_in_latin_1(seen: Evidence) -> None:
    seen.must_report(200, path="/tag")
    seen.must_report(302, path="/target")


@CASES.add(
    "Report how many bytes the body has.",
    "Report.body_bytes",
    hosts={"": {"/": text(_BODY)}},
)
def body_bytes(seen: Evidence) -> None:
    found = seen.must_report(200).body_bytes
    if found != len(_BODY):
        raise Fails(f"The fetcher reported {found} bytes for {seen.uri()}; {len(_BODY)} is right.")


@CASES.add(
    "Report the digest of the body: sha1: and base 32.",
    "Report.digest",
    hosts={"": {"/": text(_BODY)}},
)
def digest(seen: Evidence) -> None:
    found = seen.must_report(200).digest
    if found != _DIGEST:
        raise Fails(f"The fetcher reported the digest {found!r} for {seen.uri()}; {_DIGEST!r} is right.")


@CASES.add(
    "Report the IP address that you connected to.",
    "Report.peer_address",
    hosts={"": {"/": LEAF}},
)
def peer_address(seen: Evidence) -> None:
    right = seen.uri().removeprefix("http://").partition(":")[0]
    found = seen.must_report(200).peer_address
    if found != right:
        raise Fails(f"The fetcher reported the peer address {found!r} for {seen.uri()}; {right!r} is right.")


@CASES.add(
    "Report when the fetch began, and how long it took.",
    "Report.fetch_duration, Report.start_time",
    hosts={"": {"/": later(_THINK_S)}},
)
def fetch_duration(seen: Evidence) -> None:
    report = seen.must_report(200)
    found_s = seconds_of(report.fetch_duration)
    if not _THINK_S - 0.05 <= found_s <= _THINK_S + 3:
        raise Fails(
            f"The fetcher reported a fetch of {found_s:.2f} s for {seen.uri()}; {_THINK_S:g} s is right."
        )
    age_s = time.time() - report.start_time.ToNanoseconds() / 1e9
    if not -60 < age_s < 3600:
        raise Fails(f"The fetcher reported a start that is {age_s:.0f} s ago for {seen.uri()}.")


@CASES.add(
    "Report the Retry-After of an answer.",
    "Report.retry_after_duration",
    hosts={"": {"/": text("Later", "Retry-After: 7", status="503 Service Unavailable")}},
)
def retry_after(seen: Evidence) -> None:
    found_s = seconds_of(seen.must_report(503).retry_after_duration)
    if found_s != 7:
        raise Fails(f"The fetcher reported a Retry-After of {found_s:g} s for {seen.uri()}; 7 s is right.")


def _later_by_date(visit: Visit) -> None:
    date = formatdate(time.time() + 100, usegmt=True)
    visit.send(head(f"Retry-After: {date}", status="429 Too Many Requests", length=0))


@CASES.add(
    "Report a Retry-After that is a date, counted from the end of the fetch.",
    "Report.retry_after_duration",
    hosts={"": {"/": _later_by_date}},
    level=Level.ADVISED,
)
def retry_after_date(seen: Evidence) -> None:
    found_s = seconds_of(seen.must_report(429).retry_after_duration)
    if not 90 <= found_s <= 101:
        raise Fails(
            f"The fetcher reported a Retry-After of {found_s:g} s for {seen.uri()}; about 100 s is right."
        )


def _revisited(visit: Visit) -> None:
    headers = visit.request.headers
    validators = (f"ETag: {_ETAG}", f"Last-Modified: {_MODIFIED}")
    if headers.get("if-none-match") == _ETAG or headers.get("if-modified-since") == _MODIFIED:
        visit.send(head(*validators, status="304 Not Modified", media_type=""))
    else:
        content = _BODY.encode()
        visit.send(head(*validators, length=len(content)) + content)


@CASES.add(
    "Ask for a page that was fetched before with its validators; report a 304 with the lease's last_digest.",
    "Lease.etag, Lease.last_modified, Report.digest",
    hosts={"": {"/": _revisited}},
)
def revisit(seen: Evidence) -> None:
    requests = seen.asked()
    if len(requests) < 2:
        raise Fails(f"The fetcher fetched {seen.uri()} {len(requests)} times; 2 times is right.")
    for name, right in (("if-none-match", _ETAG), ("if-modified-since", _MODIFIED)):
        found = requests[-1].headers.get(name, "")
        if found != right:
            raise Fails(f"The fetcher sent {name} {found!r} to revisit {seen.uri()}; {right!r} is right.")
    report = seen.must_report(304)
    lease = [given.lease for given in seen.leases if given.lease.uri == seen.uri()][-1]
    if report.digest != lease.last_digest:
        raise Fails(
            f"The fetcher reported the digest {report.digest!r} with the 304 of {seen.uri()}; "
            f"{lease.last_digest!r} is right."
        )


assert revisit.__name__ == REVISITED
