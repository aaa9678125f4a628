"""Redirects to where nobody should go. The addresses of the decoys are listened at: a connection is noted."""

from itertools import count

from practice_web.hostile.nastiness import LEAF, Handler, Nastiness, Visit, answers, head, redirect, says

UNFETCHABLE = -7
MAX_REDIRECTS = 10
"""Most redirects in a row that a crawl follows, by default."""
MAX_VISITS = 4
"""How often a URI comes in a chain of redirects at most, if its cookies change each time."""


def _nowhere(name: str, does: str, location: str) -> Nastiness:
    """A redirect that leads to nothing that a crawler fetches."""
    return Nastiness(f"to-{name}", f"redirects to {does}", {"/": 302}, {"/": redirect(location)})


def _private(name: str, does: str, host: str, shown: str = "") -> Nastiness:
    """A redirect to an address outside the allowed ones. `shown` is how a URI parser writes the host."""
    target = f"http://{shown or host}:{{decoy}}/{name}"
    return Nastiness(
        f"to-{name}",
        f"redirects to {does}",
        {"/": 302, target: UNFETCHABLE},
        {"/": redirect(f"http://{host}:{{decoy}}/{name}")},
    )


async def _chain(visit: Visit) -> None:
    step = int(visit.path.rpartition("/")[2])
    await (redirect(f"/{step + 1}") if step < 50 else LEAF)(visit)


def _with_new_cookies(location: str) -> Handler:
    """A redirect that sets another cookie each time."""
    serials = count()

    async def handle(visit: Visit) -> None:
        await redirect(location, "302 Found", f"Set-Cookie: c={next(serials)}")(visit)

    return handle


async def _to_itself_by_scheme(visit: Visit) -> None:
    await redirect(f"//relative.hostile.example:{visit.ports.own}/a/./b/../c?x#y")(visit)


REDIRECTS = (
    _nowhere("file", "a file of the crawler's machine", "file:///etc/passwd"),
    _nowhere("ftp", "FTP", "ftp://127.0.0.1/"),
    _nowhere("gopher", "Gopher, with a request inside", "gopher://127.0.0.1:{decoy}/_GET%20/%0d%0a"),
    _nowhere("javascript", "a script", "javascript:alert(1)"),
    _nowhere("data", "a page inside the redirect", "data:text/html,<a href=/x>on</a>"),
    _nowhere("garbage", "text that is not a URI", "http://[::bad/"),
    Nastiness(
        "to-nothing",
        "redirects to an empty Location: to itself",
        {"/": 302},
        {"/": redirect("")},
        notes=("redirectLoop",),
    ),
    _nowhere("long", "a URI of 50 KB", "/" + "x" * 50_000),
    _nowhere("port-0", "a port beyond all ports", "http://to-port-0.hostile.example:99999/"),
    _private("loopback", "the crawler's own machine", "127.0.0.1"),
    _private("loopback-name", "the crawler's own machine, by name", "localhost"),
    _private("loopback-6", "the crawler's own machine, by IPv6", "[::1]"),
    _private("mapped", "an IPv4 address within IPv6 (mapped)", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
    _private("compatible", "an IPv4 address within IPv6 (compatible)", "[::127.0.0.1]", "[::7f00:1]"),
    _private("nat64", "an IPv4 address within IPv6 (NAT64)", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]"),
    _private("6to4", "an IPv4 address within IPv6 (6to4)", "[2002:7f00:1::]"),
    _private("any", "0.0.0.0, which many systems take for their own", "0.0.0.0"),
    _private("any-6", "::, which many systems take for their own", "[::]"),
    _private("decimal", "the crawler's own machine as one number", "2130706433", "127.0.0.1"),
    _private("octal", "the crawler's own machine in octal digits", "0177.0.0.01", "127.0.0.1"),
    _private("short", "the crawler's own machine, two numbers left out", "127.1", "127.0.0.1"),
    _private("private", "a private address", "10.0.0.1"),
    _private("metadata", "a cloud's metadata", "169.254.169.254"),
    _private("multicast", "a multicast address", "224.0.0.1"),
    _private("neighbour", "another address of the crawler's machine", "127.66.0.2"),
    Nastiness(
        "to-itself",
        "redirects to itself forever",
        {"/": 302},
        {"/": redirect("/")},
        notes=("redirectLoop",),
    ),
    Nastiness(
        "wall-of-one-cookie",
        "redirects to itself forever, and sets the same cookie",
        {"/": 302},
        {"/": redirect("/", "302 Found", "Set-Cookie: c=1")},
        times=2,
    ),
    Nastiness(
        "wall-of-new-cookies",
        "redirects to itself forever, and sets another cookie each time",
        {"/": 302},
        {"/": _with_new_cookies("/")},
        times=MAX_VISITS,
    ),
    Nastiness(
        "wall-of-two-pages",
        "redirects back and forth forever, and sets another cookie each time",
        {"/": 302, "/there": 302},
        {"/": _with_new_cookies("/there"), "/there": redirect("/")},
        times=MAX_VISITS,
    ),
    Nastiness(
        "loop-of-two",
        "redirects back and forth forever",
        {"/": 302, "/there": 302},
        {"/": redirect("/there"), "/there": redirect("/")},
    ),
    Nastiness(
        "chain-of-50",
        "redirects fifty times",
        {"/0": 302, **{f"/{n}": 302 for n in range(1, MAX_REDIRECTS + 1)}},
        otherwise=_chain,
        start="/0",
    ),
    Nastiness(
        "relative",
        "redirects to relative references of every kind",
        {"/": 302, "/a/c?x": 200},
        {"/": _to_itself_by_scheme, "/a/c?x": LEAF},
    ),
    Nastiness(
        "two-locations",
        "redirects to two places",
        {"/": 302, "/first": 200},
        {
            "/": answers(b"", "Location: /first", "Location: /second", status="302 Found"),
            "/first": LEAF,
            "/second": LEAF,
        },
    ),
    Nastiness(
        "no-location", "redirects to nowhere at all", {"/": 302}, {"/": answers(b"", status="302 Found")}
    ),
    Nastiness(
        "latin-1-location",
        "redirects to a name in Latin-1",
        {"/": 302, "/caf%E9?q=%E9": 200},
        {
            "/": says(head("Location: /caf\xe9?q=\xe9", status="302 Found", length=0)),
            "/caf%E9?q=%E9": LEAF,
        },
    ),
    Nastiness(
        "location-of-bytes",
        "redirects to bytes that are not text",
        {"/": 302},
        {"/": says(head("Location: http://\xff\xfe\x80", status="302 Found", length=0))},
    ),
)
