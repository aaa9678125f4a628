"""What makes a web hard, each on a known path: one table, read by the server and by the judge alike.

A trap host's first page links to its `/traps/`, and that to every listed row; the others are reached from a
row. Links are authored without ports. No page elsewhere links here, so that every page's distance from its
seed is known.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from practice_web.reply import HTML, Reply, page, redirect

Link = tuple[str, str]
"""A hop letter and an authored URL: L link, E embedded, R redirect, M named by a sitemap."""


@dataclass(frozen=True, slots=True)
class Trap:
    """One path of one origin (by its key), and what a good crawler does there.

    `answer` gives the reply to the nth request, from 0. `links` is what a right reading of the answer
    finds, where that takes a whole URL parser; None leaves it to the judge's own reader. `required`: a
    crawl that may go there must. `retried`: may be asked for again, up to the crawl's attempt limit;
    otherwise `most` requests are right. `aborted`: the crawler breaks off, so that the log does not know
    when it was done.
    """

    origin: str
    path: str
    why: str
    answer: Callable[[int], Reply]
    listed: bool = True
    links: tuple[Link, ...] | None = None
    required: bool = True
    retried: bool = False
    aborted: bool = False
    most: int = 1


def reply(key: str, target: str, nth: int) -> Reply | None:
    """What a trap host answers to the nth request of a target; None where there is no such page."""
    trap = find(key, target)
    if trap is not None:
        return trap.answer(nth)
    if key == "iota" and (month := re.fullmatch(r"/calendar/(\d{4,6})/(0[1-9]|1[0-2])", target)):
        return _calendar(int(month[1]), int(month[2]))
    return None


def find(key: str, target: str) -> Trap | None:
    """The row of the table for a request target."""
    return _BY_PATH.get((key, target))


def _always(answer: Reply) -> Callable[[int], Reply]:
    return lambda nth: answer


def _in_turn(*answers: Reply) -> Callable[[int], Reply]:
    """One after the other, the last for ever."""
    return lambda nth: answers[min(nth, len(answers) - 1)]


def _links(*targets: str) -> str:
    return "".join(f'<a href="{target}">{number}</a> ' for number, target in enumerate(targets))


def _leaf(origin: str, path: str, why: str = "", *, listed: bool = False, required: bool = True) -> Trap:
    """A page that links nowhere."""
    return Trap(origin, path, why, _always(page("<p>Nothing beyond.")), listed=listed, required=required)


def _hop(path: str, location: str, status: int = 302, *, why: str = "", most: int = 1) -> Trap:
    """A redirect of iota's; listed if it says why."""
    return Trap("iota", path, why, _always(redirect(location, status)), listed=bool(why), most=most)


# --- iota: the world's variety, each page answered once and for all -----------------------------

_IOTA = "http://traps.iota.example"

_REDIRECTS = (
    _hop("/traps/chain/1", "/traps/chain/2", 301, why="five redirects"),
    _hop("/traps/chain/2", "3", 302),
    _hop("/traps/chain/3", f"{_IOTA}/traps/chain/4", 303),
    _hop("/traps/chain/4", "./5#here", 307),
    _hop("/traps/chain/5", "end.html", 308),
    _leaf("iota", "/traps/chain/end.html"),
    _hop("/traps/loop/a", "/traps/loop/b", why="a loop of two"),
    _hop("/traps/loop/b", "/traps/loop/a"),
    _hop("/traps/loop/self", "/traps/loop/self", why="redirects to itself for ever", most=25),
    _hop("/traps/to-forbidden", "/private/by-redirect.html", why="to a path that robots.txt forbids"),
    _leaf("iota", "/private/by-redirect.html"),
    _leaf("iota", "/private/by-link.html", "forbidden by robots.txt", listed=True),
    _hop("/traps/to-outside", "http://out.of.scope.example/", why="out of scope"),
    _hop("/traps/to-nowhere", "http://192.0.2.1/", why="to an address that is not allowed"),
    replace(_hop("/traps/to-garbage", "http://[::bad/", why="to what is no URL"), links=()),
    Trap("iota", "/traps/to-nothing", "a redirect without a target", _always(Reply(302))),
)

_STATUSES = (
    Trap("iota", "/traps/missing.html", "404", _always(Reply(404))),
    Trap("iota", "/traps/gone.html", "410", _always(Reply(410))),
    Trap("iota", "/traps/locked.html", "401", _always(Reply(401))),
    Trap(
        "iota", "/traps/error.html", "500, which is not retried", _always(Reply(500, body=b"<h1>Sorry</h1>"))
    ),
    Trap("iota", "/traps/empty.html", "200 and nothing", _always(Reply(200))),
    Trap("iota", "/traps/no-content", "204", _always(Reply(204, media_type=None))),
)


def _encoded(name: str, why: str, encoding: str | None, *, chunked: bool = False) -> tuple[Trap, Trap]:
    """A page whose link shows only to who decodes it, and the page that it leads to."""
    behind = f"/traps/encoded/behind-{name}.html"
    answer = replace(page("<p>decode me " * 50 + _links(behind)), encoding=encoding, chunked=chunked)
    return Trap("iota", f"/traps/encoded/{name}.html", why, _always(answer)), _leaf("iota", behind)


_ENCODINGS = (
    *_encoded("gzip", "gzip", "gzip"),
    *_encoded("deflate", "deflate", "deflate"),
    *_encoded("raw-deflate", "deflate without the zlib frame that it should have", "raw-deflate"),
    *_encoded("chunked", "chunked", None, chunked=True),
    *_encoded("chunked-gzip", "gzip in chunks", "gzip", chunked=True),
)


def _charset(
    name: str, why: str, body: str, target: str, *, media_type: str, charset: str
) -> tuple[Trap, Trap]:
    trap = Trap(
        "iota",
        f"/traps/charset/{name}.html",
        why,
        _always(page(body, charset=charset, media_type=media_type)),
        links=(("L", _IOTA + target),),
    )
    return trap, _leaf("iota", target)


_LATIN, _BARE = "text/html; charset=iso-8859-1", "text/html"
_META = '<meta charset="iso-8859-1">'
_CHARSETS = (
    *_charset(
        "wrong",
        "the header says UTF-8, the bytes are Latin-1",
        "<p>caf\u00e9 " + _links("/traps/charset/behind-wrong.html"),
        "/traps/charset/behind-wrong.html",
        media_type=HTML,
        charset="latin-1",
    ),
    *_charset(
        "quarrel",
        "header and meta differ; the header is right",
        '<meta charset="utf-8"><p>caf\u00e9 ' + _links("/traps/charset/behind-quarrel.html"),
        "/traps/charset/behind-quarrel.html",
        media_type=_LATIN,
        charset="latin-1",
    ),
    *_charset(
        "header",
        "a link in Latin-1, as the header says",
        _links("caf\u00e9.html"),
        "/traps/charset/caf%C3%A9.html",
        media_type=_LATIN,
        charset="latin-1",
    ),
    *_charset(
        "meta",
        "a link in Latin-1, as only the page says",
        _META + _links("na\u00efve.html"),
        "/traps/charset/na%C3%AFve.html",
        media_type=_BARE,
        charset="latin-1",
    ),
)

_KINDS_BODY = """<base href="/traps/kinds/"><link rel="stylesheet" href="style.css">
<link rel=canonical href="canonical.html">
<meta http-equiv="Refresh" content="300; URL='refresh.html'"><script src="script.js"></script>
<img src="image.png" srcset="image-1x.png 1x, image-2x.png 2x"><iframe src="frame.html"></iframe>
<picture><source srcset="wide.png 800w,narrow.png 400w"></picture>
<map><area href="area.html"></map><a href="../kinds/link.html">one link of each kind</a>"""
_KINDS = {
    "style.css": "E",
    "canonical.html": "L",
    "refresh.html": "R",
    "script.js": "E",
    "image.png": "E",
    "image-1x.png": "E",
    "image-2x.png": "E",
    "frame.html": "E",
    "wide.png": "E",
    "narrow.png": "E",
    "area.html": "L",
    "link.html": "L",
}
_KINDS_ROWS = (
    Trap(
        "iota",
        "/traps/kinds.html",
        "one link of each kind",
        _always(page(_KINDS_BODY)),
        links=tuple((letter, f"{_IOTA}/traps/kinds/{name}") for name, letter in _KINDS.items()),
    ),
    *(_leaf("iota", f"/traps/kinds/{name}") for name in _KINDS),
)

_ODD_HREFS = """
<a href="javascript:alert('/traps/odd/javascript.html')">1</a>
<a href="mailto:someone@traps.iota.example">2</a>
<a href="data:text/html,<a href=/traps/odd/data.html>">3</a>
<a href="tel:112">4</a>
<a href="ftp://traps.iota.example/x">5</a>
<a href="http://[::bad/">6</a>
<a href="http://">7</a>
<a href="http:///">8</a>
<a href="//">9</a>
<a href="http://traps.iota.example:99999/">10</a>
<a href="http://traps.iota.example:port/">11</a>
<a href="#only">12</a>
<a href="">13</a>
<a href>14</a>
<a href="http://192.0.2.1/">15</a>
<a href="http://169.254.169.254/latest/meta-data/">16</a>
<a href="http://out.of.scope.example/">17</a>
<a href="http://127.0.0.1:1/">18</a>
<a href="http://[::1]:1/">19</a>
<a href="  /traps/odd/spaces.html&#9; ">20</a>
<a href="/traps/odd/ta&#9;b&#10;.html">21</a>
<a href="/traps/./odd/../odd/%2e/dots.html">22</a>
<a href="HTTP://TRAPS.IOTA.EXAMPLE/traps/odd/case.html">23</a>
<a href=/traps/odd/unquoted.html>24</a>
<A HREF='/traps/odd/single.html'>25</A>
<a class="x"href="/traps/odd/glued.html">26</a>
<a href="/traps/odd/entity.html?a=1&amp;b=2">27</a>
<a href="\\traps\\odd\\backslash.html">28</a>
<a href="/traps/odd/a b.html">29</a>
<a href="/traps/odd/caf\u00e9.html">30</a>
<a href="/traps/odd/x%2Fy.html">31</a>
<a href="/traps/odd/100%.html">32</a>
<a href="/traps/odd/&#x1F40D;.html">33</a>
<a href="odd/relative.html#part">34</a>
<a href="http://b\u00fccher.example/">35</a>
<!-- <a href="/traps/odd/comment.html">no link</a> -->
<textarea><a href="/traps/odd/textarea.html">no link</a></textarea>
<script>const text = '<a href="/traps/odd/script.html">no link</a>';</script>
"""
_ODD_TARGETS = (
    "spaces.html",
    "tab.html",
    "dots.html",
    "case.html",
    "unquoted.html",
    "single.html",
    "glued.html",
    "entity.html?a=1&b=2",
    "backslash.html",
    "a%20b.html",
    "caf%C3%A9.html",
    "x%2Fy.html",
    "100%.html",
    "%F0%9F%90%8D.html",
    "relative.html",
)
"""What the WHATWG's URL standard makes of them, in the order of the page."""

_LONG = {"a" * 1_500: True, "b" * 3_000: False, "c" * 100_000: False}
"""Long names, and whether a crawler must take them: limits lie at about 2 KB."""

_ODD = (
    Trap(
        "iota",
        "/traps/odd.html",
        "malformed, foreign and unusual links",
        _always(page(_ODD_HREFS)),
        links=(
            *(("L", f"{_IOTA}/traps/odd/{name}") for name in _ODD_TARGETS),
            ("L", "http://xn--bcher-kva.example/"),
        ),
    ),
    *(_leaf("iota", f"/traps/odd/{name}", required=name != "100%.html") for name in _ODD_TARGETS),
    Trap(
        "iota",
        "/traps/long.html",
        "long URLs",
        _always(page(_links(*(f"/traps/long/{name}" for name in _LONG)))),
    ),
    *(_leaf("iota", f"/traps/long/{name}", required=required) for name, required in _LONG.items()),
)

_HUGE_CHUNK = b"<p>This page goes on and on.\n" * 2_200
_BOMB_BLOCK, _BOMB_BLOCKS = b"<p>" + b"boom " * 209_715, 200


@cache
def _bomb() -> bytes:
    """A gzip stream of 200 MB in about 300 KB: one compressed block over and over."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = squeeze.compress(_BOMB_BLOCK) + squeeze.flush(zlib.Z_FULL_FLUSH)
    checksum = 0
    for _ in range(_BOMB_BLOCKS):
        checksum = zlib.crc32(_BOMB_BLOCK, checksum)
    length = len(_BOMB_BLOCK) * _BOMB_BLOCKS
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
    trailer = checksum.to_bytes(4, "little") + length.to_bytes(4, "little")
    return header + block * _BOMB_BLOCKS + squeeze.flush() + trailer


def _serve_bomb(nth: int) -> Reply:
    return Reply(body=_bomb(), encoded_as="gzip", verbatim=True)


_SIZES = (
    Trap(
        "iota",
        "/traps/huge.html",
        "50 MB and more",
        _always(Reply(body=_HUGE_CHUNK, repeat=52_000_000 // len(_HUGE_CHUNK), verbatim=True)),
        links=(),
        aborted=True,
    ),
    Trap("iota", "/traps/bomb.html", "200 MB in 300 KB of gzip", _serve_bomb, links=(), aborted=True),
    Trap(
        "iota",
        "/traps/fragments.html",
        "20 000 links to itself",
        _always(page("".join(f'<a href="#part-{n}">{n}</a>\n' for n in range(20_000)))),
    ),
    Trap(
        "iota",
        "/traps/nested.html",
        "100 000 elements deep",
        _always(page("<div>" * 100_000 + _links("/traps/nested/bottom.html"))),
    ),
    _leaf("iota", "/traps/nested/bottom.html"),
    Trap("iota", "/calendar/2026/01", "an endless calendar", lambda nth: _calendar(2026, 1)),
)


def _calendar(year: int, month: int) -> Reply:
    later = f"{year + month // 12:04}/{month % 12 + 1:02}"
    return page(_links(f"/calendar/{later}"), title=f"{year}-{month:02}")


# --- hosts that are busy, broken, patient or closed ---------------------------------------------


def _busy(status: int, origin: str, *, as_date: bool) -> tuple[Trap, ...]:
    """Twice busy and then well, and always busy."""
    wait = Reply(
        status, body=b"<h1>Later</h1>", retry_after_s=2 if as_date else 1, retry_after_as_date=as_date
    )
    well = page(_links("/traps/after.html"))
    return (
        Trap(
            origin,
            "/traps/twice",
            f"{status} with Retry-After, twice",
            _in_turn(wait, wait, well),
            retried=True,
        ),
        _leaf(origin, "/traps/after.html"),
        Trap(
            origin,
            "/traps/always",
            f"{status} for ever",
            _always(Reply(status, body=b"<h1>No</h1>")),
            retried=True,
        ),
    )


_BROKEN = (
    Trap(
        "mu",
        "/traps/drip.html",
        "a byte every quarter of a second",
        _always(replace(page("<p>drip" * 200), pause_s=0.25)),
        aborted=True,
    ),
    Trap(
        "mu",
        "/traps/cut.html",
        "closed in the middle of the body",
        _always(replace(page(_links("/traps/before-the-cut.html") + "<p>cut" * 2_000), short_by=5_000)),
    ),
    _leaf("mu", "/traps/before-the-cut.html"),
    Trap("mu", "/traps/hang-up.html", "closed without an answer", _always(Reply(0)), retried=True),
    _leaf("mu", "/traps/fine.html", "a page beside them", listed=True),
)

_PATIENT = (
    *(_leaf("nu", f"/traps/slowly-{n}.html", "at the pace of Crawl-delay", listed=True) for n in range(1, 7)),
    _leaf("nu", "/private/page.html", "forbidden by robots.txt", listed=True),
)

_CLOSED = (_leaf("xi", "/traps/page.html", "its robots.txt answers 503", listed=True),)

_MOVED = tuple(
    _leaf(origin, path, why, listed=True)
    for origin in ("omicron", "pi")
    for path, why in (
        ("/traps/open.html", "allowed"),
        ("/private/page.html", "forbidden by the robots.txt elsewhere"),
    )
)

_RULED = (
    *(
        _leaf("rho", path, "as robots.txt says", listed=True)
        for path in (
            "/private/",
            "/private/page.html",
            "/private/open.html",
            "/tool.cgi",
            "/tool.cgi?run",
            "/search?lang=en&q=word",
            "/search?lang=en&q=allowed",
            "/search?lang=en",
            "/deep/one/secret.html",
            "/deep/secret.html",
            "/exact",
            "/exactly",
            "/caf%C3%A9/",
            "/cafe/",
        )
    ),
)


def _xml(text: str) -> Reply:
    return Reply(
        media_type="application/xml", body=b'<?xml version="1.0" encoding="UTF-8"?>\n' + text.encode()
    )


_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_RHO = "http://rules.rho.example"
_MAPPED = tuple(f"/map/{n}.html" for n in range(1, 6))
_SITEMAPS = (
    Trap(
        "rho",
        "/sitemap.xml",
        "an index of sitemaps",
        _always(
            _xml(
                f"<sitemapindex {_NAMESPACE}><sitemap>"
                f"<loc>{_RHO}/sitemap-1.xml</loc></sitemap></sitemapindex>"
            )
        ),
    ),
    Trap(
        "rho",
        "/sitemap-1.xml",
        "names pages that nothing else does",
        _always(
            _xml(
                f"<urlset {_NAMESPACE}>"
                + "".join(f"<url><loc>\n{_RHO}{path} </loc></url>" for path in _MAPPED)
                + "</urlset>"
            )
        ),
        listed=False,
    ),
    *(_leaf("rho", path) for path in _MAPPED),
)

_TWIN = (
    Trap(
        "theta-plain",
        "/traps/across.html",
        "a host of two ports, linked across",
        _always(page(_links("https://secure.theta.example/", "/traps/twin.html"))),
    ),
    _leaf("theta-plain", "/traps/twin.html"),
)

_ROWS = (
    *_REDIRECTS,
    *_STATUSES,
    *_ENCODINGS,
    *_CHARSETS,
    *_KINDS_ROWS,
    *_ODD,
    *_SIZES,
    *_busy(503, "kappa", as_date=False),
    *_busy(429, "lambda", as_date=True),
    *_BROKEN,
    *_PATIENT,
    *_CLOSED,
    *_MOVED,
    *_RULED,
    *_SITEMAPS,
    *_TWIN,
)


def _index(origin: str) -> tuple[Trap, Trap]:
    """The first page of a trap host, and the list of its traps."""
    listed = [row for row in _ROWS if row.origin == origin and row.listed]
    items = "".join(
        f'<li><a href="{row.path.replace("&", "&amp;")}">{row.path}</a> {row.why}' for row in listed
    )
    return (
        Trap(origin, "/", "", _always(page(_links("/traps/"), title=origin)), listed=False),
        Trap(origin, "/traps/", "", _always(page(f"<ul>{items}</ul>", title="Traps")), listed=False),
    )


TRAPS: tuple[Trap, ...] = _ROWS + tuple(
    row for key in sorted({row.origin for row in _ROWS}) for row in _index(key)
)
"""Every row: of each trap host its first page, its list, its traps and what lies behind them."""

_BY_PATH = {(row.origin, row.path): row for row in TRAPS}
