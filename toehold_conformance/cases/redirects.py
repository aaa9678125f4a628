"""Redirects of pages."""

from toehold_conformance.answers import LEAF, page, redirect, text
from toehold_conformance.case import Cases, Level
from toehold_conformance.evidence import Evidence, Fails

from .site import SITE

CASES = Cases("Redirects", SITE)

_STATUSES = {
    301: "301 Moved Permanently",
    302: "302 Found",
    303: "303 See Other",
    307: "307 Temporary Redirect",
    308: "308 Permanent Redirect",
}


def _at(status: int) -> str:
    return f"/from-{status}"


@CASES.add(
    "Report a redirect with its own status, and offer its target with the hop R; don't follow it.",
    "PURPOSE_PAGE",
    hosts={"": {"/": redirect("{own}/there"), "/there": LEAF}},
)
def redirect_is_a_link(seen: Evidence) -> None:
    _must_be_link(seen, 302, "/there", "R")


@CASES.add(
    "Treat all kinds of redirect alike, from 301 to 308, with relative references too.",
    "PURPOSE_PAGE, Candidate.base",
    hosts={
        "": {
            "/": redirect("from-302", "301 Moved"),
            "/from-302": redirect("from-303", _STATUSES[302]),
            "/from-303": redirect("./from-307", _STATUSES[303]),
            "/from-307": redirect("/x/../from-308", _STATUSES[307]),
            "/from-308": redirect("/end", _STATUSES[308]),
            "/end": LEAF,
        }
    },
)
def redirect_kinds(seen: Evidence) -> None:
    _must_be_link(seen, 301, "/from-302", "R")
    for hops, (status, target) in enumerate(
        ((302, _at(303)), (303, _at(307)), (307, _at(308)), (308, "/end")), 2
    ):
        _must_be_link(seen, status, target, "R" * hops, on=_at(status))


@CASES.add(
    "Offer the target of a redirect to another host, too.",
    "PURPOSE_PAGE",
    hosts={"": {"/": redirect("{other}/there")}, "other": {"/there": LEAF}},
)
def redirect_to_another_host(seen: Evidence) -> None:
    _must_be_link(seen, 302, seen.uri("/there", "other"), "R")
    seen.must_ask("/there", host="other")


@CASES.add(
    "Read a Location in UTF-8 as UTF-8.",
    "Candidate.uri",
    hosts={"": {"/": redirect("/café".encode().decode("latin-1")), "/caf%C3%A9": LEAF}},
    level=Level.ADVISED,
)
def redirect_in_utf_8(seen: Evidence) -> None:
    seen.must_ask("/caf%C3%A9")


@CASES.add(
    "Copy the redirects of a lease into the candidate of its redirect's target, and into no other.",
    "Candidate.redirects, Lease.redirects",
    hosts={"": {"/": redirect("/there"), "/there": page("/leaf"), "/leaf": LEAF}},
)
def redirect_chain(seen: Evidence) -> None:
    seen.must_report(302)
    chains = {given.lease.redirects for given in seen.leases if given.lease.uri == seen.uri("/")}
    if seen.offer("/there").redirects not in chains:
        raise Fails(f"The fetcher offered {seen.uri('/there')} without the redirects of its source's lease.")
    if seen.offer("/leaf", on="/there").redirects:
        raise Fails(f"The fetcher offered {seen.uri('/leaf')}, which is a link, with redirects.")


@CASES.add(
    "Leave loops of redirects to the frontier: each URI is fetched once.",
    "PURPOSE_PAGE",
    hosts={"": {"/": redirect("/there"), "/there": redirect("/")}},
)
def redirect_loop(seen: Evidence) -> None:
    _must_be_link(seen, 302, "/there", "R")
    seen.must_report(302, path="/there")
    for path in ("/", "/there"):
        times = len(seen.asked(path))
        if times != 1:
            raise Fails(
                f"The fetcher requested {seen.uri(path)}, which is in a loop, {times} times; once is right."
            )


@CASES.add(
    "Report a redirect without a target as it is.",
    "PURPOSE_PAGE",
    hosts={"": {"/": text("Nowhere", status="302 Found")}},
)
def redirect_without_target(seen: Evidence) -> None:
    seen.must_report(302)


def _must_be_link(seen: Evidence, status: int, target: str, path: str, *, on: str = "/") -> None:
    uri = target if "://" in target else seen.uri(target)
    count = sum(seen.uri_of(request) == uri for request in seen.requests)
    leased = sum(given.lease.uri == uri for given in seen.leases)
    if count > leased:
        raise Fails(f"The fetcher followed the redirect of {seen.uri(on)} to {uri} without a lease.")
    seen.must_report(status, path=on)
    found = seen.offer(target, on=on).path
    if found != path:
        raise Fails(
            f"The fetcher offered {uri}, a redirect's target, with the path {found!r}; {path!r} is right."
        )
