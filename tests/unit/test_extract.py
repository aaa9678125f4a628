"""The links of documents: their charset, bounds, headers, and what breaks an extractor."""

import gzip
import html
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_doubles.extracting import FOLDER, NOW_MS, PAGE, fetch, find, pairs

from crawler_node.extraction import extract, html_links
from crawler_node.extraction.document import MAX_TEXT_BYTES
from crawler_node.extraction.extract import MAX_LINK_BYTES
from crawler_node.extraction.links import Hop, Outlink
from crawler_node.fetching.fetch import ExtractSettings, FetchResult
from crawler_node.fetching.outcome import Truncation
from crawler_node.fetching.references import MAX_URI_BYTES

HTML = "<html><a href=x></a></html>"


RSS = "<rss><channel><link>http://a.example/dir/x</link></channel></rss>"


SITEMAP = "<urlset><url><loc>http://a.example/dir/x</loc></url></urlset>"


@pytest.mark.sampled(
    ("kept_bytes", "trailer", "truncation", "notes"),
    [
        (-8, bytes(8), Truncation.NONE, ("codingBroken:checksum",)),
        (-4, bytes(4), Truncation.NONE, ("codingBroken:length",)),
        (-8, b"", Truncation.NONE, ("codingBroken:end",)),
        (-8, b"", Truncation.LENGTH, ()),
        (-10, b"\x07" * 10, Truncation.NONE, ("codingBroken:data",)),
    ],
)
@pytest.mark.sampled("media_type", ["text/html", "application/xhtml+xml", "application/octet-stream"])
def test_links_before_a_break_of_the_coding_are_found_and_the_break_noted(
    media_type: str, kept_bytes: int, trailer: bytes, truncation: Truncation, notes: tuple[str, ...]
) -> None:
    packer = zlib.compressobj(wbits=31)
    page = packer.compress(HTML.encode()) + packer.flush(zlib.Z_FULL_FLUSH) + packer.flush()
    answer = fetch(page[:kept_bytes] + trailer, media_type, content_encoding="gzip")
    answer.truncation = truncation
    found = find(answer)
    assert pairs(found) == [("L", "x")]
    assert tuple(each for each in found.notes if not each.startswith("sniffed:")) == notes


def test_a_break_of_the_coding_of_plain_text_is_noted() -> None:
    body = gzip.compress(b"words", mtime=0)[:-8] + bytes(8)
    assert find(fetch(body, "text/plain", content_encoding="gzip")).notes == ("codingBroken:checksum",)
    assert find(fetch(b"words", "text/plain")).notes == ()


def test_broken_xml_is_noted_and_read_on() -> None:
    found = find(fetch(SITEMAP.replace("<url>", "\n<url><loc>./y?a&b</loc></url><url>"), "text/xml"))
    assert pairs(found) == [("M", "y?a&b"), ("M", "x")]
    assert found.notes == ("xmlError:line_2_not_well-formed_(invalid_token)",)
    found = find(fetch(RSS.replace("</rss>", "</p></rss>"), "text/xml"))
    assert (pairs(found), found.notes) == ([("L", "x")], ("xmlError:line_1_mismatched_tag",))


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


def test_a_page_whose_kind_cannot_be_found_out_has_the_links_of_its_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extract, "_said", lambda document: 1 // 0)
    found = find(fetch("<a href=x>", link="<z>; rel=next"))
    assert pairs(found) == [("L", "z")]
    assert found.notes == ("extractorFailed:kind",) and isinstance(found.error, ZeroDivisionError)


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
    *("text/html", "text/xml", "text/plain", "application/xhtml+xml", "image/svg+xml"),
    *("text/css", "nonsense"),
    *("application/rss+xml", "text/javascript", "application/ld+json", "application/gzip"),
]


PIECES = [
    *("<rss>", "<feed>", "<urlset>", "<url>", "<loc>", "<link>", "</", "<?xml", "?>", "<!--", "-->"),
    *("<html>", "/"),
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
    document: FetchResult = fetch(body, f"{media_type}; charset={charset}", uri)
    document.headers.extend(headers)
    found = extract.outlinks(document, settings, "toehold")
    assert found.error is None and len(found.links) <= max(settings.max_links, body.count(b"<loc>"))
    for link in found.links:
        assert link.uri.startswith(("http://", "https://")) and len(link.uri) <= MAX_URI_BYTES
