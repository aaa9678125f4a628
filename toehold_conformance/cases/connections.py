"""Fetches that bring no answer, and their fetch statuses."""

from toehold.frontier.v1.crawl_pb2 import FetchSpec, OverrideSettings
from toehold_client.rpc.contract import duration
from toehold_conformance.answers import drip, head, later, nothing, page, says, silence, stalls
from toehold_conformance.case import Cases, Level
from toehold_conformance.evidence import Evidence, Fails
from toehold_conformance.web import NOWHERE

from .site import SITE

CASES = Cases("Failed fetches", SITE)

_READ_TIMEOUT_S, _TIMEOUT_S = 1.0, 2.0
_ENDS_SILENCE = OverrideSettings(
    fetch=FetchSpec(read_timeout=duration(_READ_TIMEOUT_S), timeout=duration(_READ_TIMEOUT_S + 9))
)
_ENDS_ALL = OverrideSettings(fetch=FetchSpec(timeout=duration(_TIMEOUT_S)))


@CASES.add(
    "Report -2 when a connection is refused.",
    "FETCH_STATUS_CONNECT_FAILED",
    hosts={"": {"/": page("{closed}/")}},
)
def refused(seen: Evidence) -> None:
    uri = _linked(seen, "http://127.44.255.1:")
    seen.must_report(-2, path=uri)


@CASES.add(
    "Report -1 for a host name without an address.",
    "FETCH_STATUS_DOMAIN_UNRESOLVABLE",
    hosts={"": {"/": page("{nowhere}/")}},
)
def no_such_name(seen: Evidence) -> None:
    uri = _linked(seen, f"http://{NOWHERE}")
    seen.must_report(-1, path=uri)


@CASES.add(
    "Report -3 when the connection ends before the answer's head has come.",
    "FETCH_STATUS_CONNECT_LOST",
    hosts={
        "": {
            "/": page("/nothing", "/part", "/reset"),
            "/nothing": nothing,
            "/part": says(b"HTTP/1.1 200 OK\r\nContent-Ty"),
            "/reset": lambda visit: visit.reset(),
        }
    },
)
def hang_up(seen: Evidence) -> None:
    for path in ("/nothing", "/part", "/reset"):
        seen.must_report(-3, path=path)


@CASES.add(
    "Report -4 when the server falls silent for read_timeout: before the head, or within it.",
    "FETCH_STATUS_TIMEOUT, FetchPolicy.read_timeout",
    hosts={
        "": {
            "/": page("/silence", "/half-a-head"),
            "/silence": silence,
            "/half-a-head": stalls(b"HTTP/1.1 200 OK\r\nContent-Ty"),
        }
    },
    settings=_ENDS_SILENCE,
)
def no_answer(seen: Evidence) -> None:
    for path in ("/silence", "/half-a-head"):
        seen.must_report(-4, path=path)
        seen.must_end(_READ_TIMEOUT_S, path)


@CASES.add(
    "End a fetch at its deadline, also while the head drips.",
    "FetchPolicy.timeout, FETCH_STATUS_TIMEOUT",
    hosts={"": {"/": drip(b"HTTP/1.1 200 OK\r\nX-Slow: ", seconds=20)}},
    settings=_ENDS_ALL,
)
def slow_head(seen: Evidence) -> None:
    seen.must_report(-4)
    seen.must_end(_TIMEOUT_S)


@CASES.add(
    "Report -10 for an answer that is not HTTP.",
    "FETCH_STATUS_PROTOCOL_ERROR",
    hosts={
        "": {
            "/": page("/ssh", "/bare"),
            "/ssh": says(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
            "/bare": says(b"<!DOCTYPE html><p>A page without a head.\r\n\r\n"),
        }
    },
)
def not_http(seen: Evidence) -> None:
    for path in ("/ssh", "/bare"):
        seen.must_report(-10, path=path)


@CASES.add(
    "Report -10 for a Content-Length that is not a number, and for chunks that are invalid from the first.",
    "FETCH_STATUS_PROTOCOL_ERROR",
    hosts={
        "": {
            "/": page("/length", "/chunks"),
            "/length": says(head("Content-Length: many"), b"x"),
            "/chunks": says(head("Transfer-Encoding: chunked"), b"these are no chunks\r\n" * 3),
        }
    },
    level=Level.ADVISED,
)
def bad_framing(seen: Evidence) -> None:
    for path in ("/length", "/chunks"):
        seen.must_report(-10, path=path)


@CASES.add(
    "Go on after a fetch that failed: other pages of the host are fetched.",
    "RetrySpec",
    hosts={"": {"/": page("/broken", "/fine"), "/broken": nothing, "/fine": later(0.1)}},
)
def after_a_failure(seen: Evidence) -> None:
    seen.must_report(200, path="/fine")


def _linked(seen: Evidence, prefix: str) -> str:
    """The first lease of the host that the case's page links to. It is of the robots.txt there."""
    for given in seen.leases:
        if given.lease.uri.startswith(prefix):
            return given.lease.uri
    raise Fails(f"The fetcher did not offer the link of {seen.uri()} to {prefix}.")
