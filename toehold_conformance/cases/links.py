"""Links: which are offered to Schedule, and what is said about them."""

from toehold.frontier.v1.crawl_pb2 import ExtractSpec, OverrideSettings
from toehold_conformance.answers import LEAF, page, text
from toehold_conformance.case import Cases, Level
from toehold_conformance.evidence import Evidence, Fails

from .site import SITE

CASES = Cases("Links", SITE)

_MAX_LINKS = 10


@CASES.add(
    "Offer the links of a page: <a href>.",
    "PURPOSE_PAGE",
    hosts={"": {"/": page("/one", "{own}/two"), "/one": LEAF, "/two": LEAF}},
)
def links(seen: Evidence) -> None:
    seen.offer("/one")
    seen.offer("/two")
    seen.must_ask("/one", "/two")


@CASES.add(
    "Resolve relative references against the page's URI, or send it as base.",
    "Candidate.base",
    hosts={
        "": {
            "/": page("/folder/page?x=y"),
            "/folder/page?x=y": page("beside", "../above", "?query", "./inner/../straight", "#fragment"),
            **dict.fromkeys(
                ("/folder/beside", "/above", "/folder/page?query", "/folder/straight"),
                LEAF,
            ),
        }
    },
)
def relative_references(seen: Evidence) -> None:
    seen.must_ask("/folder/beside", "/above", "/folder/page?query", "/folder/straight")
    seen.must_not_ask(
        "/beside", "/?query", "/folder/folder/beside", why="a wrong resolution of a relative reference"
    )


@CASES.add(
    "Resolve references against the page's <base>.",
    "Candidate.base",
    hosts={
        "": {
            "/": page("leaf", "/root", html='<base href="/elsewhere/">'),
            "/elsewhere/leaf": LEAF,
            "/root": LEAF,
        }
    },
)
def base_element(seen: Evidence) -> None:
    seen.must_ask("/elsewhere/leaf", "/root")
    seen.must_not_ask("/leaf", why="although the page has a <base>")


@CASES.add(
    "Follow the character references in an attribute: &amp;amp; is &.",
    "PURPOSE_PAGE",
    hosts={"": {"/": page("/find?a=1&amp;b=2"), "/find?a=1&b=2": LEAF}},
    level=Level.ADVISED,
)
def character_references(seen: Evidence) -> None:
    seen.must_ask("/find?a=1&b=2")


@CASES.add(
    "Add the hop's letter to the path of the lease: L for a link.",
    "Candidate.path, Lease.path",
    hosts={"": {"/": page("/one"), "/one": page("/two"), "/two": LEAF}},
)
def link_hops(seen: Evidence) -> None:
    _must_have_path(seen, "/one", "L")
    _must_have_path(seen, "/two", "LL", on="/one")


_EMBEDS = (
    '<link rel="stylesheet" href="/style.css"><script src="/script.js"></script>'
    '<img src="/image.png" alt=""><iframe src="/frame"></iframe>'
)


@CASES.add(
    "Offer what a page embeds, with the hop's letter E.",
    "Candidate.path",
    hosts={
        "": {
            "/": page(html=_EMBEDS),
            **dict.fromkeys(("/style.css", "/script.js", "/image.png", "/frame"), LEAF),
        }
    },
    level=Level.ADVISED,
)
def embed_hops(seen: Evidence) -> None:
    for path in ("/style.css", "/script.js", "/image.png", "/frame"):
        _must_have_path(seen, path, "E")


@CASES.add(
    "Copy the source of the lease into the candidates.",
    "Candidate.source, Lease.source",
    hosts={"": {"/": page("{other}/one")}, "other": {"/one": page("/two"), "/two": LEAF}},
)
def source(seen: Evidence) -> None:
    seen.must_ask("/two", host="other")
    for uri in (seen.uri("/one", "other"), seen.uri("/two", "other")):
        for offered in seen.offers(uri):
            found = offered.candidate.source
            if found != seen.uri():
                raise Fails(f"The fetcher offered {uri} with the source {found!r}; {seen.uri()!r} is right.")


@CASES.add(
    "Offer at most max_links different links of a page.",
    "ExtractSpec.max_links, FetchPolicy.extract",
    hosts={"": {"/": page(*(f"/{number}" for number in range(3 * _MAX_LINKS)))}},
    settings=OverrideSettings(extract=ExtractSpec(max_links=_MAX_LINKS)),
)
def max_links(seen: Evidence) -> None:
    seen.must_report(200)
    offered = {each.uri for each in seen.offered if each.candidate.via == seen.uri()}
    if len(offered) > _MAX_LINKS:
        raise Fails(f"The fetcher offered {len(offered)} links of {seen.uri()}; {_MAX_LINKS} is right.")
    if not offered:
        raise Fails(f"The fetcher offered no link of {seen.uri()}; {_MAX_LINKS} is right.")


@CASES.add(
    "Ignore the links of a page that says nofollow to robots, if the policy has obey_robots_meta.",
    "ExtractSpec.obey_robots_meta",
    hosts={"": {"/": page("/leaf", html='<meta name="robots" content="nofollow">'), "/leaf": LEAF}},
    level=Level.ADVISED,
)
def robots_meta(seen: Evidence) -> None:
    seen.must_report(200)
    seen.must_not_ask("/leaf", why="a link of a page that says nofollow")


@CASES.add(
    "Look for links in HTML only by its media type: text/plain has none.",
    "PURPOSE_PAGE",
    hosts={"": {"/": text('<a href="/leaf">on</a>', media_type="text/plain"), "/leaf": LEAF}},
    level=Level.ADVISED,
)
def plain_text(seen: Evidence) -> None:
    seen.must_report(200)
    seen.must_not_ask("/leaf", why="a link in a page of text/plain")


def _must_have_path(seen: Evidence, path: str, right: str, *, on: str = "/") -> None:
    found = seen.offer(path, on=on).path
    if found != right:
        raise Fails(f"The fetcher offered {seen.uri(path)} with the path {found!r}; {right!r} is right.")
