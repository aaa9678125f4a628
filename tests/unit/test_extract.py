"""What is made of a fetch: which kind of document it is, what breaks, and how many links it may have."""

import gzip
import html
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_doubles.extracting import FOLDER, NOW_MS, PAGE, fetch, find, pairs

from crawler_node.extraction import charset, extract, html_links
from crawler_node.extraction.document import MAX_TEXT_BYTES
from crawler_node.extraction.extract import MAX_LINK_BYTES, outlinks
from crawler_node.extraction.links import Found, Hop, Outlink
from crawler_node.fetching.fetch import ExtractSettings, Fetch
from crawler_node.fetching.references import MAX_URI_BYTES

HTML = "<html><a href=x></a></html>"
PROLOGUE = '<?xml version="1.0"?><!-- <rss> --><!DOCTYPE html [<!ENTITY a "b">]>'
XHTML = PROLOGUE + '<html xmlns="urn:x"><a href="x"/></html>'
SVG = "<svg xmlns='http://www.w3.org/2000/svg'><a href='x'/></svg>"
RSS = "<rss><channel><link>http://a.example/dir/x</link></channel></rss>"
SITEMAP = "<urlset><url><loc>http://a.example/dir/x</loc></url></urlset>"
LD = '{"url": "./x"}'


@pytest.mark.parametrize(
    ("media_type", "body", "hop"),
    [
        ("text/html", HTML, "L"),
        ("TEXT/HTML;charset=utf-8", HTML, "L"),
        ("application/xhtml+xml", XHTML, "L"),
        ("application/xhtml+xml", HTML, "L"),
        ("application/vnd.wap.xhtml+xml", XHTML, "L"),
        ("application/xml", XHTML, "L"),
        ("text/xml", HTML, "L"),
        ("image/svg+xml", SVG, "L"),
        ("text/css", "a { b: url(x) }", "E"),
        ("application/rss+xml", RSS, "L"),
        ("application/xml", RSS, "L"),
        ("text/xml", "  \n" + RSS, "L"),
        ("application/rss+xml", SITEMAP, "M"),
        ("application/xml", SITEMAP, "M"),
        ("application/ld+json", LD, "L"),
    ],
)
def test_a_document_is_what_its_media_type_or_its_root_says(media_type: str, body: str, hop: str) -> None:
    assert pairs(find(fetch(body, media_type))) == [(hop, "x")]


@pytest.mark.parametrize("media_type", ["text/plain", "image/png", "application/pdf", "application/json"])
@pytest.mark.parametrize("body", [HTML, "http://a.example/", RSS, LD])
def test_other_documents_have_no_links(media_type: str, body: str) -> None:
    found = find(fetch(body, media_type))
    assert (found.links, found.notes) == ([], ())


@pytest.mark.parametrize(
    "media_type",
    [
        *(
            "",
            " ",
            ";",
            '"text/html"',
            "'text/html; charset=utf-8'",
            "text/html charset=utf-8",
            "html",
            "*/*",
        ),
        *(
            "text",
            "text/",
            "/html",
            "text-html",
            "text/hmtl",
            "text/htm",
            "test/html",
            "txt/html",
            "\xff/html",
        ),
        *("application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown"),
        *("application/html", "application/x-httpd-php", "content/unknown"),
    ],
)
@pytest.mark.parametrize(
    ("body", "kind", "hop"),
    [
        (HTML, "html", "L"),
        ("\ufeff \n" + HTML, "html", "L"),
        ("<!doctype HTML >" + HTML, "html", "L"),
        ("<!-- a --><a href=x></a>", "html", "L"),
        ('<?xml version="1.0"?>' + XHTML.partition("?>")[2], "xhtml", "L"),
        ("  <?xml version='1.0'?>" + RSS, "feed", "L"),
        (RSS, "feed", "L"),
        (SITEMAP, "sitemap", "M"),
        (HTML.encode("utf-16"), "html", "L"),
        (gzip.compress(HTML.encode()), "html", "L"),
    ],
)
def test_a_document_without_a_media_type_that_makes_sense_is_what_it_looks_like(
    media_type: str, body: str | bytes, kind: str, hop: str
) -> None:
    encoding = "gzip" if body[:1] == b"\x1f" else ""
    found = find(fetch(body, media_type, content_encoding=encoding))
    assert (pairs(found), found.notes) == ([(hop, "x")], (f"sniffed:{kind}",))


@pytest.mark.parametrize(
    "body",
    [
        *("", "text", "text <html><a href=x>", "%PDF-1.7 <html><a href=x>", "{'url': './x'}", "<x:y/>"),
        *("a { b: url(x) }", "http://a.example/", b"\0<html><a href=x>", b"\x89PNG <html><a href=x>"),
        *(" " * 1445 + HTML, "<" * 5000),
    ],
)
def test_what_looks_like_nothing_that_is_searched_has_no_links(body: str | bytes) -> None:
    for media_type in ("", "application/octet-stream"):
        found = find(fetch(body, media_type))
        assert (found.links, found.notes) == ([], ())


def test_the_type_that_was_sent_stays() -> None:
    page = fetch(HTML, '"text/html"')
    find(page)
    assert (page.media_type, page.header("content-type")) == ("", '"text/html"')


def test_a_list_without_a_media_type_is_one_by_its_name() -> None:
    found = find(fetch("http://a.example/dir/x\n", "", "http://a.example/sitemap.txt"))
    assert (pairs(found), found.notes) == ([("M", "x")], ("sniffed:list",))


@pytest.mark.parametrize("body", [RSS, "\n<!-- a --><?b?>" + RSS])
def test_a_feed_that_is_called_html_is_a_feed(body: str) -> None:
    """WHATWG MIME Sniffing 7.3."""
    found = find(fetch(body, "text/html"))
    assert (pairs(found), found.notes) == ([("L", "x")], ("sniffed:feed",))
    assert find(fetch("<p>" + body, "text/html")).notes == ()


# What robots.txt or a sitemap named


def listed(body: str | bytes, media_type: str, uri: str = PAGE) -> Found:
    return outlinks(fetch(body, media_type, uri), ExtractSettings(), "toehold", is_listed=True)


@pytest.mark.parametrize(
    "media_type",
    ["", "text/html", "text/plain", "application/octet-stream", "image/png", "application/json", "x"],
)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (SITEMAP, "sitemap"),
        ("<?xml version='1.0'?><!-- a -->" + SITEMAP, "sitemap"),
        ("<sitemapindex><sitemap><loc>./x</loc></sitemap></sitemapindex>", "sitemap"),
        ("\ufeff\nhttp://a.example/dir/x\r\n", "list"),
        (gzip.compress(SITEMAP.encode()), "sitemap"),
    ],
)
def test_what_was_named_as_a_sitemap_is_read_as_one_whatever_its_media_type(
    media_type: str, body: str | bytes, kind: str
) -> None:
    found = listed(body, media_type)
    assert (pairs(found), found.notes) == ([("M", "x")], (f"sniffed:{kind}",))


def test_a_sitemap_behind_a_warning_is_found_if_it_was_named_as_one() -> None:
    found = listed("<br />\n<b>Warning</b>: oops in <b>x.php</b><br />" + SITEMAP, "text/html")
    assert pairs(found) == [("M", "x")]
    assert found.notes == ("sniffed:sitemap", "xmlError:line_1_begins_with_br")


def test_what_was_named_as_a_sitemap_may_have_as_many_codings_as_any() -> None:
    twice = gzip.compress(gzip.compress(SITEMAP.encode()))
    page = fetch(twice, "text/xml", content_encoding="gzip, gzip")
    for is_listed in (False, True):
        assert pairs(outlinks(page, ExtractSettings(), "toehold", is_listed)) == [("M", "x")]


def test_a_feed_may_be_named_as_a_sitemap() -> None:
    assert pairs(listed(RSS, "text/plain")) == [("L", "x")]


def test_a_page_that_a_sitemap_lists_is_what_its_media_type_says() -> None:
    for body, media_type in (
        (HTML, "text/html"),
        ("<html><a href=x></a><script>'<urlset>'</script></html>", "text/html"),
        (XHTML, "application/xhtml+xml"),
        (SITEMAP, "application/xml"),
    ):
        found = listed(body, media_type)
        assert ([link.uri for link in found.links], found.notes) == ([FOLDER + "x"], ())
    for body in ("text", "http://a.example/ is where we are", "{}", ""):
        assert listed(body, "text/plain").links == []


# Broken XML


def test_broken_xml_is_noted_and_read_on() -> None:
    found = find(fetch(SITEMAP.replace("<url>", "\n<url><loc>./y?a&b</loc></url><url>"), "text/xml"))
    assert pairs(found) == [("M", "y?a&b"), ("M", "x")]
    assert found.notes == ("xmlError:line_2_not_well-formed_(invalid_token)",)
    found = find(fetch(RSS.replace("</rss>", "</p></rss>"), "text/xml"))
    assert (pairs(found), found.notes) == ([("L", "x")], ("xmlError:line_1_mismatched_tag",))


# The charset of queries


@pytest.mark.parametrize(
    ("charset", "text", "query"),
    [
        ("iso-8859-1", "\u00e9", "%E9"),
        ("windows-1251", "\u044f&a=b c'd", "%FF&a=b%20c%27d"),
        ("koi8-r", "\u044f", "%D1"),
        ("shift_jis", "\u8868%", "%95\\%"),
        ("euc-jp", "\u8868", "%C9%BD"),
        ("gbk", "\u4e2d", "%D6%D0"),
        ("gb18030", "\u20ac", "%A2%E3"),
        ("big5", "\u4e2d", "%A4%A4"),
        ("euc-kr", "\ud55c", "%C7%D1"),
        ("iso-2022-jp", "\u3042\u3000", "%1B$B$%22!!%1B(B"),
        ("utf-8", "\u00e9", "%C3%A9"),
        ("utf-16le", "\u00e9", "%C3%A9"),
    ],
)
def test_queries_are_written_in_the_charset_of_the_page(charset: str, text: str, query: str) -> None:
    """WHATWG URL, query state: percent-encode after encoding, with the document's encoding."""
    page = f"<a href='/\u0061?{html.escape(text)}#{html.escape(text)}'></a>"
    found = find(fetch(page.encode(charset), f"text/html; charset={charset}"))
    assert [link.uri for link in found.links] == [f"http://a.example/a?{query}"]


def test_paths_and_hosts_are_in_utf_8_whatever_the_page_is_in() -> None:
    page = "<base href=/\u00e9/?\u00e9><a href=\u00e9><a href=?\u00e9><a href=//\u00e9.example/\u00e9>"
    found = find(fetch(page.encode("latin-1"), "text/html; charset=latin1"))
    assert [link.uri for link in found.links] == [
        "http://a.example/%C3%A9/%C3%A9",
        "http://a.example/%C3%A9/?%E9",
        "http://xn--9ca.example/%C3%A9",
    ]


def test_what_a_charset_lacks_is_a_character_reference() -> None:
    page = '<meta charset="windows-1251"><a href="?a=&#x20ac;&eacute;&#x1F600;">'
    found = find(fetch(page, "text/html"))
    assert pairs(found) == [("L", "page?a=%88%26%23233%3B%26%23128512%3B")]


def test_links_of_headers_and_style_sheets_are_in_utf_8() -> None:
    page = fetch(
        "<a href='?\u00e9'>".encode("latin-1"), "text/html; charset=latin1", link="<?\u00e9>; rel=next"
    )
    assert pairs(find(page)) == [("L", "page?%E9"), ("L", "page?%C3%A9")]
    style = fetch("a { b: url(?\u00e9) }".encode("latin-1"), "text/css; charset=latin1")
    assert pairs(find(style)) == [("E", "page?%C3%A9")]


def test_every_charset_that_pages_are_read_in_can_be_written() -> None:
    for codec, encoder in charset._ENCODERS.items():
        letters = bytes(range(256)).decode(codec, "ignore") if "8859" in codec or "windows" in codec else "a"
        assert letters.encode(encoder, "ignore").decode(codec) != ""


@pytest.mark.parametrize(
    "body", ["", "<", "text", "<!-- <html> -->", "<?xml <html>", "<foaf><a href='x'/></foaf>"]
)
def test_other_xml_has_no_links(body: str) -> None:
    found = find(fetch(body, "application/xml"))
    assert (found.links, found.notes) == ([], ())


def test_scripts_are_searched_only_if_asked_for() -> None:
    for media_type in ("text/javascript", "application/javascript", "application/x-javascript"):
        script = fetch("go('/x.html'); more('./y.js'); name('z.html')", media_type)
        assert find(script).links == []
        assert pairs(find(script, javascript=True)) == [("X", "http://a.example/x.html"), ("X", "y.js")]


def test_a_document_without_a_proper_uri_has_no_links() -> None:
    for uri in ("", "nonsense", "ftp://a.example/"):
        assert find(fetch("<a href=http://a.example/>", uri=uri)).links == []


def test_the_body_is_decoded_first() -> None:
    expected = [("L", "x")]
    assert pairs(find(fetch(gzip.compress(HTML.encode()), content_encoding="gzip"))) == expected
    assert pairs(find(fetch(HTML, content_encoding="br"))) == expected, "text is what it is"
    assert find(fetch(gzip.compress(HTML.encode()), content_encoding="br", link="<y>; rel=next")).links == [
        Outlink(FOLDER + "y", Hop.LINK, "Link")
    ]
    assert find(fetch("")).links == []


def test_a_part_of_a_huge_document_is_looked_at() -> None:
    filler = b"<p>" + b"x" * 997
    body = b"<a href=first>" + filler * (MAX_TEXT_BYTES // 1000 + 100) + b"<a href=last>"
    assert pairs(find(fetch(gzip.compress(body, 1), content_encoding="gzip"))) == [("L", "first")]
    style = b"a { b: url(first) }" + b" " * MAX_TEXT_BYTES + b"a { b: url(last) }"
    assert pairs(find(fetch(style, "text/css"))) == [("E", "first")]


def test_a_large_document_gives_its_turn_back() -> None:
    for _ in range(5):
        assert pairs(find(fetch(" " * 2_000_000 + HTML))) == [("L", "x")]


@pytest.mark.parametrize(
    ("media_type", "encoding", "times_zipped"),
    [
        ("application/x-gzip", "", 1),
        ("application/gzip", "gzip", 2),
        ("application/gzip", "gzip", 1),
        ("application/octet-stream", "", 1),
        ("", "", 1),
        ("application/xml", "", 1),
        ("text/xml", "gzip", 1),
        ("text/xml", "", 0),
    ],
)
def test_a_zipped_sitemap_is_unzipped_however_it_is_labelled(
    media_type: str, encoding: str, times_zipped: int
) -> None:
    body = SITEMAP.encode()
    for _ in range(times_zipped):
        body = gzip.compress(body)
    sitemap = fetch(body, media_type, "http://a.example/dir/sitemap.XML.gz", content_encoding=encoding)
    assert pairs(find(sitemap)) == [("M", "x")]


def test_other_zipped_files_have_no_links() -> None:
    body = gzip.compress(SITEMAP.encode())
    assert find(fetch(body, "application/gzip", "http://a.example/data.tar.gz")).links == []


# Headers


def test_links_of_headers_come_last_and_are_relative_to_what_was_fetched() -> None:
    page = fetch("<base href=/b/><a href=x><a href=/dir/y>", link="<y>; rel=canonical, <z.css>; rel=preload")
    links = [("L", "http://a.example/b/x"), ("L", "y"), ("E", "z.css")]
    assert pairs(find(page)) == links
    assert pairs(find(page, max_links=2)) == links[:2]
    assert pairs(find(fetch("", "image/png", link="<page>; rel=canonical"))) == [("L", "page")]


@pytest.mark.parametrize(
    "rule", ["nofollow", "noindex, none", "TOEHOLD: nofollow", "otherbot: all, toehold: none"]
)
def test_a_header_may_forbid_to_follow_a_documents_links(rule: str) -> None:
    page = fetch("<a href=x><img src=y>", link="<z>; rel=next", x_robots_tag=rule)
    found = find(page)
    assert (pairs(found), found.notes) == ([("E", "y")], ("nofollow",))
    found = find(page, obey_robots_meta=False)
    assert (len(found.links), found.notes) == (3, ())
    assert find(fetch(RSS, "text/xml", x_robots_tag=rule)).links == []
    assert pairs(find(fetch(SITEMAP, "text/xml", x_robots_tag=rule))) == [("M", "x")]


def test_a_page_may_forbid_to_follow_its_headers_links_too() -> None:
    page = fetch("<meta name=robots content=none>", link="<x>; rel=next, <y>; rel=icon", refresh="0; url=z")
    assert pairs(find(page)) == [("E", "y"), ("R", "z")]


# Sitemaps


def test_a_sitemap_tells_when_pages_changed_only_if_asked_for() -> None:
    body = (
        "<urlset><url><loc>/1</loc><lastmod>2023-11-01T00:00:00Z</lastmod></url><url><loc>/2</loc></url>"
        "<url><loc>/3</loc><lastmod>2023-11-14T23:00:00Z</lastmod></url></urlset>"
    )
    sitemap = fetch(body, "application/xml")
    assert [link.refetch_before_ms for link in find(sitemap).links] == [None, None, None]
    times = [link.refetch_before_ms for link in find(sitemap, sitemap_lastmod=True).links]
    assert times == [1_698_796_800_000, None, NOW_MS]


def test_a_sitemap_has_a_bound_of_its_own() -> None:
    body = "<urlset>" + "".join(f"<url><loc>/{n}</loc></url>" for n in range(60_000)) + "</urlset>"
    assert len(find(fetch(body, "text/xml"), max_links=3).links) == 50_000
    lines = "\n".join(f"http://a.example/{n}" for n in range(100))
    assert len(find(fetch(lines, "text/plain", "http://a.example/sitemap.txt"), max_links=3).links) == 100


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("text/html", "".join(f"<a href={n}>" for n in range(9000))),
        ("text/html", "<style>" + "".join(f"url({n})" for n in range(9000)) + "</style>"),
        ("text/css", "".join(f"url({n})" for n in range(9000))),
        (
            "text/xml",
            "<rss><channel>" + "".join(f"<link>/{n}</link>" for n in range(9000)) + "</channel></rss>",
        ),
        ("application/ld+json", ",".join(f'"url": "/{n}"' for n in range(9000))),
        ("text/javascript", ",".join(f"'/page/{n}'" for n in range(9000))),
    ],
)
def test_a_document_has_only_so_many_links(media_type: str, body: str) -> None:
    document = fetch(body, media_type, link=", ".join(f"<h{n}>; rel=next" for n in range(5)))
    for limit in (0, 1, 7, ExtractSettings().max_links):
        links = find(document, max_links=limit, javascript=True).links
        assert len(links) == len({link.uri for link in links}) == limit


def test_links_are_bounded_in_bytes_too() -> None:
    far = "/" + "f" * (MAX_URI_BYTES - 100) + "/"
    page = fetch(f"<base href='{far}'>" + "".join(f"<a href={n}>" for n in range(2000)))
    found = find(page)
    size = sum(len(link.uri) for link in found.links)
    assert MAX_LINK_BYTES - MAX_URI_BYTES < size <= MAX_LINK_BYTES and found.notes == ("linksCut",)
    assert len(find(page, max_links=10).links) == 10 and find(page, max_links=10).notes == ()
    body = "<urlset>" + "".join(f"<url><loc>{n}</loc></url>" for n in range(2000)) + "</urlset>"
    assert find(fetch(body, "text/xml", f"http://a.example{far}")).notes == ("linksCut",)


# What a document breaks


class Broken(Exception):
    pass


def broken(*args: object, **kwargs: object) -> Iterator[str]:
    yield "before"
    raise Broken


def test_a_broken_extractor_costs_only_what_it_would_have_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_links, "css_references", broken)
    page = fetch("<a href=x><p style='url(a)'><p style='url(b)'><img src=y>", link="<z>; rel=next")
    found = find(page)
    assert pairs(found) == [("L", "x"), ("E", "before"), ("E", "y"), ("L", "z")]
    assert found.notes == ("extractorFailed:css",) and isinstance(found.error, Broken)


def test_a_broken_page_has_the_links_of_its_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_links, "RULES", None)
    found = find(fetch("<a href=x>", link="<z>; rel=next"))
    assert pairs(found) == [("L", "z")]
    assert found.notes == ("extractorFailed:html",) and isinstance(found.error, TypeError)


def test_broken_headers_leave_the_page_its_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract, "header_references", broken)
    found = find(fetch("<a href=x>", x_robots_tag="nofollow"))
    assert (pairs(found), found.notes) == ([], ("nofollow", "extractorFailed:header"))
    assert pairs(find(fetch("<a href=x>"))) == [("L", "x")]


def test_a_lack_of_memory_is_not_a_pages_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """S4.12: it is serious, and the toe's to tell of."""

    def no_memory(css: str) -> Iterator[str]:
        raise MemoryError(css)

    monkeypatch.setattr(extract, "css_references", no_memory)
    with pytest.raises(MemoryError):
        find(fetch("a { b: url(x) }", "text/css"))


MEDIA_TYPES = [
    *(
        "text/html",
        "text/xml",
        "text/plain",
        "application/xhtml+xml",
        "image/svg+xml",
        "text/css",
        "nonsense",
    ),
    *("application/rss+xml", "text/javascript", "application/ld+json", "application/gzip"),
]
PIECES = [
    "<rss>",
    "<feed>",
    "<urlset>",
    "<url>",
    "<loc>",
    "<link>",
    "</",
    "<?xml",
    "?>",
    "<!--",
    "-->",
    "<html>",
    "/",
]


@given(
    body=st.binary(max_size=500)
    | st.lists(st.sampled_from(PIECES)).map(lambda pieces: "".join(pieces).encode()),
    media_type=st.sampled_from(MEDIA_TYPES),
    charset=st.sampled_from(["", "utf-8", "utf-16", "gbk", "iso-2022-jp", "big5"]) | st.text(max_size=20),
    uri=st.sampled_from([PAGE, "https://a.example/sitemap.txt", "https://a.example/s.xml.gz", "nonsense"]),
    headers=st.lists(
        st.tuples(st.sampled_from([b"Link", b"refresh", b"Content-Location", b"X-Robots-Tag"]), st.binary()),
        max_size=3,
    ),
    settings=st.builds(ExtractSettings, st.integers(0, 9), *[st.booleans()] * 4),
)
def test_no_fetch_is_an_error_or_has_too_many_links(
    body: bytes,
    media_type: str,
    charset: str,
    uri: str,
    headers: list[tuple[bytes, bytes]],
    settings: ExtractSettings,
) -> None:
    document: Fetch = fetch(body, f"{media_type}; charset={charset}", uri)
    document.headers.extend(headers)
    found = extract.outlinks(document, settings, "toehold")
    assert found.error is None and len(found.links) <= max(settings.max_links, body.count(b"<loc>"))
    for link in found.links:
        assert link.uri.startswith(("http://", "https://")) and len(link.uri) <= MAX_URI_BYTES
