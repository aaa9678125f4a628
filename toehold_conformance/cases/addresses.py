"""Addresses that the crawl does not allow. The kit listens there and records every connection."""

from toehold_conformance.answers import LEAF, page, redirect
from toehold_conformance.case import Cases
from toehold_conformance.evidence import ROBOTS, Evidence, Fails

from .site import SITE

CASES = Cases("Addresses", SITE)


@CASES.add(
    "Never connect to an address outside allowed_addresses, whatever leads there.",
    "FetchPolicy.allowed_addresses, FETCH_STATUS_UNFETCHABLE_URI",
    hosts={
        "": {"/": page("{linked}/link", "{local}/link", "{local6}/link", "{mapped}/link", "{localhost}/link")}
    },
)
def private_addresses(seen: Evidence) -> None:
    _must_not_trespass(seen, "127.45.0.1", "127.0.0.1", "[::1]")
    for uri in ("127.45.0.1", "127.0.0.1", "[::1]", "localhost"):
        _must_be_refused(seen, f"http://{uri}:")


@CASES.add(
    "Never connect to an address outside allowed_addresses because a page redirects there.",
    "FetchPolicy.allowed_addresses, FETCH_STATUS_UNFETCHABLE_URI",
    hosts={"": {"/": redirect("{redirected}/redirect")}},
)
def redirect_to_private_address(seen: Evidence) -> None:
    _must_not_trespass(seen, "127.45.0.2")
    seen.must_report(302)


@CASES.add(
    "Never connect to an address outside allowed_addresses because a robots.txt redirects there.",
    "FetchPolicy.allowed_addresses, PURPOSE_ROBOTS",
    hosts={"": {ROBOTS: redirect("{robots}/robots/1"), "/": LEAF}},
)
def robots_to_private_address(seen: Evidence) -> None:
    _must_not_trespass(seen, "127.45.0.3")
    status = seen.robots().fetch_status
    if status >= 0:
        raise Fails(
            f"The fetcher reported {status} for {seen.uri(ROBOTS)}, which redirects there; -7 is right."
        )


def _must_not_trespass(seen: Evidence, *hosts: str) -> None:
    for origin in seen.trespasses:
        if origin.removeprefix("http://").rpartition(":")[0] in hosts:
            raise Fails(f"The fetcher connected to {origin}, which the crawl does not allow.")


def _must_be_refused(seen: Evidence, prefix: str) -> None:
    leases = [given.lease.uri for given in seen.leases if given.lease.uri.startswith(prefix)]
    if not leases:
        raise Fails(f"The fetcher did not offer the link of {seen.uri()} to {prefix}")
    for uri in leases:
        seen.must_report(-7, path=uri)
