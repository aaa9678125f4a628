"""robots.txt, sitemaps that it names, and what pages and answers say to robots."""

from node_doubles.extracting import fetch

from crawler_node.extraction.robots_meta import header_forbids, meta_forbids
from crawler_node.extraction.sitemap import sitemaps_of_robots
from crawler_node.fetching.fetch import FetchResult
from crawler_node.fetching.outcome import Truncation
from crawler_node.fetching.robots_file import robots_file
from frontier_server.core.robotstxt.robots import MAX_RULES, Rules, group_for

from .target import Said, Target

_TARGETS = ("/", "/a", "/a/b.html?c=d", "/robots.txt", "/%7Ejoe/%C3%A4", "/" + "a" * 200, "/fish*$")


def _robots(data: bytes) -> Said:
    """What is kept of a file says the same when it is read again, and never forbids the file itself."""
    said: list[object] = []
    for token in ("toehold", "other"):
        group = group_for(data, token)
        assert group.count("\n") < MAX_RULES
        rules = Rules(group)
        allowed = tuple(rules.allows(each) for each in _TARGETS)
        assert allowed[3], group
        if group:
            again = group_for(f"User-agent: *\n{group}".encode(), token)
            assert tuple(Rules(again).allows(each) for each in _TARGETS) == allowed, group
        said += [allowed, bool(rules.crawl_delay_ms)]
    sitemaps_of_robots("http://a.example/robots.txt", data)
    return tuple(said)


def _file(data: bytes) -> Said:
    """The first byte chooses how the answer came."""
    how = data[0] if data else 0
    encoding = ("", "gzip", "deflate", "br", "gzip, gzip", "UTF-8", "aws-chunked")[how % 7]
    made: FetchResult = fetch(data[1:], "text/plain", content_encoding=encoding)
    made.truncation = (Truncation.NONE, Truncation.DISCONNECT, Truncation.TIME)[how // 7 % 3]
    told = robots_file(made)
    group_for(told.body, "toehold")
    return told.status, bool(told.body)


def _meta(data: bytes) -> Said:
    name, _, content = data.decode("latin-1").partition("\n")
    return meta_forbids(name, content, "toehold"), header_forbids([content], "toehold")


_FILE = b"""# comment
User-agent: toehold/1.0
User-agent: other
Disallow: /private*/x$
Allow: /private/ok
Crawl-delay: 2.5

User-Agent: *
Disallow: /
Sitemap: http://a.example/sitemap.xml
"""

TARGETS = (
    Target(
        "robots-txt",
        _robots,
        (
            _FILE,
            "\ufeffuser-agent:*\rdisallow:/ä%7e%zz\rallow:/*?*$".encode(),
            b"useragent: *\nDisallow\nallow : /",
        ),
        (
            *(
                b"User-agent:",
                b"user-agent: *\n",
                b"Disallow: ",
                b"Allow: ",
                b"Crawl-delay: ",
                b"Sitemap: ",
                b"toehold",
            ),
            *(b"*", b"$", b"/*", b"%2A", b"%24", b"%2f", b"#", b"\r", b"/" + b"*a" * 20),
        ),
    ),
    Target(
        "robots-file",
        _file,
        (
            b"\0" + _FILE,
            b"\7" + _FILE,
            b"\x0e" + _FILE,
            b"\1\x1f\x8b\x08\0\0\0\0\0\0\3\3\0\0\0\0\0\0\0\0\0",
            b"\2" + _FILE,
        ),
        (b"Allow: ", b"Sitemap: ", b"\x1f\x8b\x08", b"\x78\x9c"),
    ),
    Target(
        "robots-meta",
        _meta,
        (
            b"robots\nnoindex, nofollow",
            b"toehold\nnone",
            b"googlebot\ntoehold: nofollow, unavailable_after: 1 Jan 2030",
        ),
        (b"nofollow", b"none", b"robots", b"toehold:", b",", b":", b"otherbot: "),
    ),
)
