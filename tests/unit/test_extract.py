"""Links out of documents: which elements link and how, charsets, sitemaps; and hostile documents."""

import gzip
import time
from collections.abc import Callable
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node import extract as module
from crawler_node.extract import MAX_HTML_BYTES, extract
from crawler_node.fetch import ExtractSettings, Fetch
from crawler_node.links import MAX_LINKS, Hop, Outlink

PAGE = "http://a.example/dir/page"


def html(body: str, base: str = PAGE, max_links: int = MAX_LINKS) -> list[tuple[str, str]]:
    """Links as pairs of hop letter and URI, that of the page's own folder shortened."""
    links = extract(base, "text/html", "utf-8", body.encode(), max_links)
    return [(link.hop, link.uri.removeprefix("http://a.example/dir/")) for link in links]


# Which elements link


@pytest.mark.parametrize(
    ("body", "links"),
    [
        ("<a href=x>", [("L", "x")]),
        ("<A HREF='x'>", [("L", "x")]),
        ('<a name=x href=" x ">', [("L", "x")]),
        ("<area href=x>", [("L", "x")]),
        ("<a href='x?a=1&amp;b=2'>", [("L", "x?a=1&b=2")]),
        ("<a>text</a><a href>", []),
        ("<a href='#top'>", [("L", "page")]),
        ("<iframe src=x>", [("E", "x")]),
        ("<frame src=x>", [("E", "x")]),
        ("<img src=x>", [("E", "x")]),
        ("<img src=a srcset='b 1x, c 2x'>", [("E", "a"), ("E", "b"), ("E", "c")]),
        ("<img srcset='a, b 100w,c,,d,'>", [("E", "a"), ("E", "b"), ("E", "c,,d")]),
        ("<img srcset=' , x,y 1x , z'>", [("E", "x,y"), ("E", "z")]),
        ("<picture><source srcset='a 1x'></picture>", [("E", "a")]),
        ("<video src=a poster=b><source src=c><track src=d></video>", [("E", c) for c in "abcd"]),
        ("<audio src=x>", [("E", "x")]),
        ("<embed src=x>", [("E", "x")]),
        ("<object data=x>", [("E", "x")]),
        ("<script src=x>var a = '<a href=y>';</script>", [("E", "x")]),
        ("<input type=IMAGE src=x><input type=text src=y>", [("E", "x")]),
        ("<body background=a><table background=b><td background=c>", [("E", c) for c in "abc"]),
        ("<link rel=stylesheet href=x>", [("E", "x")]),
        ("<link rel='alternate stylesheet' href=x>", [("E", "x")]),
        ("<link rel='Shortcut Icon' href=x>", [("E", "x")]),
        ("<link rel=preload imagesrcset='a 1x' href=b>", [("E", "a"), ("E", "b")]),
        ("<link rel=canonical href=x>", [("L", "x")]),
        ("<link rel=next href=x><link rel=prev href=y>", [("L", "x"), ("L", "y")]),
        ("<link rel=alternate hreflang=de href=x>", [("L", "x")]),
        ("<link rel=preconnect href=x><link rel=dns-prefetch href=y><link href=z>", []),
        ("<form action=x method=post></form>", []),
        ("<!-- <a href=x> --><textarea><a href=y></textarea><title><a href=z></title>", []),
        ("<style>@import 'x';</style>", []),
        ("<noscript><a href=x></noscript><template><a href=y></template>", [("L", "x"), ("L", "y")]),
        (
            "<noscript><img src='x?a&amp;b'>text<a href=y></noscript><a href=z>",
            [("E", "x?a&b"), ("L", "y"), ("L", "z")],
        ),
        ("<frameset><frame src=x></frameset><noframes>or <a href=y></noframes>", [("E", "x"), ("L", "y")]),
        ("<a href=javascript:void(0)><a href=mailto:b@c.example><img src='data:image/png;base64,'>", []),
    ],
)
def test_elements_link_as_they_should(body: str, links: list[tuple[str, str]]) -> None:
    assert html(body) == links


@pytest.mark.parametrize(
    ("content", "links"),
    [
        ("5; url=x", [("R", "x")]),
        ("0;URL='x y'z", [("R", "x%20y")]),
        ('0, url = "x"', [("R", "x")]),
        ("0 x", [("R", "x")]),
        ("1.5;x", [("R", "x")]),
        ("5", []),
        ("5;", []),
        ("5; url=", []),
        ("soon; url=x", []),
        ("", []),
    ],
)
def test_a_meta_refresh_is_a_redirect(content: str, links: list[tuple[str, str]]) -> None:
    quoted = content.replace('"', "&quot;")
    assert html(f'<meta HTTP-EQUIV=Refresh content="{quoted}">') == links
    assert html(f'<meta name=refresh content="{quoted}">') == []


def test_the_first_base_holds_for_all_links() -> None:
    body = "<a href=x><base target=_top><base href='/other/'><base href='/third/'><a href=y>"
    expected = [("L", "http://a.example/other/x"), ("L", "http://a.example/other/y")]
    assert html(body) == expected
    assert html("<base href='//b.example'><a href=x>") == [("L", "http://b.example/x")]
    for useless in ("", "javascript:x", "http://[", "data:,x"):
        assert html(f"<base href='{useless}'><base href='/ignored/'><a href=x>") == [("L", "x")]


def test_a_link_counts_once_where_it_is_first() -> None:
    assert html("<img src=x><a href=x><a href='x#part'><a href=./x><a href=y>") == [("E", "x"), ("L", "y")]


def test_a_link_says_where_it_stood() -> None:
    links = extract(PAGE, "text/html", None, b"<img srcset=x><a href=y><link rel=next href=z>")
    assert [link.context for link in links] == ["img/@srcset", "a/@href", "link/@href"]


def test_links_are_bounded_in_number_and_length() -> None:
    body = "".join(f"<a href={n}>" for n in range(10_000))
    assert len(html(body)) == MAX_LINKS
    assert html(body, max_links=2) == [("L", "0"), ("L", "1")]
    assert html(f"<a href={'x' * 9000}><a href=y>") == [("L", "y")]


def test_xhtml_is_html() -> None:
    body = (
        b'<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><a href="x"/></html>'
    )
    for media_type in ("application/xhtml+xml", "application/xml", "text/xml"):
        assert [link.uri for link in extract(PAGE, media_type, None, body)] == ["http://a.example/dir/x"]


@pytest.mark.parametrize("media_type", ["", "text/plain", "image/png", "application/pdf", "application/json"])
def test_other_documents_have_no_links(media_type: str) -> None:
    assert extract(PAGE, media_type, None, b"<a href=x>http://a.example/") == []


def test_a_document_without_a_proper_uri_has_no_links() -> None:
    for uri in ("", "nonsense", "ftp://a.example/"):
        assert extract(uri, "text/html", None, b"<a href=http://a.example/>") == []


# Charsets


def only(charset: str | None, body: bytes) -> str:
    (link,) = extract(PAGE, "text/html", charset, body)
    return link.uri.removeprefix("http://a.example/dir/")


CAFE = "caf%C3%A9"
WORD = "%D0%BF%D1%80%D0%B8%D0%B2%D0%B5%D1%82"  # привет


def test_the_charset_of_the_content_type_holds() -> None:
    body = "<meta charset=utf-8><a href=привет>"
    assert only("windows-1251", body.encode("cp1251")) == WORD
    assert only("KOI8-R", body.encode("koi8-r")) == WORD
    assert only("UTF-8", body.encode()) == WORD
    assert only("utf-16le", body.encode("utf-16-le")) == WORD
    assert only("gbk", "<a href=中>".encode("gbk")) == "%E4%B8%AD"


def test_a_byte_order_mark_goes_before_everything() -> None:
    assert only("windows-1251", b"\xef\xbb\xbf" + "<a href=привет>".encode()) == WORD
    assert only("utf-8", "\ufeff<a href=привет>".encode("utf-16-le")) == WORD


def test_a_document_may_declare_its_charset() -> None:
    assert only(None, "<meta charset=windows-1251><a href=привет>".encode("cp1251")) == WORD
    declared = "<meta http-equiv=Content-Type content='text/html; charset=koi8-r'><a href=привет>"
    assert only(None, declared.encode("koi8-r")) == WORD
    assert only("no-such-charset", declared.encode("koi8-r")) == WORD


def test_an_undeclared_charset_is_guessed() -> None:
    assert only(None, "<a href=café>".encode()) == CAFE
    filler = "<p>" + "x" * 100 + "</p>\n"
    assert only(None, (filler * 1000 + "<a href=café>").encode()) == CAFE
    text = "<p>Съешь же ещё этих мягких французских булок, да выпей чаю</p>" * 20
    assert only(None, (filler * 1000 + text + "<a href=привет>").encode("cp1251")) == WORD


@pytest.mark.parametrize(
    "label",
    [
        "punycode",
        "idna",
        "zlib",
        "hex",
        "unicode_escape",
        "utf-7",
        "x" * 100_000,
        "\u00e9",
        '"><a href=y>',
        "\0",
    ],
)
def test_strange_charsets_do_no_harm(label: str) -> None:
    assert extract(PAGE, "text/html", label, b"<a href=x>") == [
        Outlink("http://a.example/dir/x", Hop.LINK, "a/@href")
    ]
    body = f"<meta charset='{label[:900]}'><a href=x>".encode("utf-8", "replace")
    assert "http://a.example/dir/x" in {link.uri for link in extract(PAGE, "text/html", None, body)}


# What was fetched


def fetch(body: bytes, media_type: str = "text/html", encoding: str = "", uri: str = PAGE) -> Fetch:
    headers = [(b"Content-Type", media_type.encode()), (b"content-encoding", encoding.encode())]
    return Fetch(uri, status=200, headers=headers, body=BytesIO(body), body_bytes=len(body))


def outlinks(fetch: Fetch) -> list[Outlink]:
    return module.outlinks(fetch, ExtractSettings(), "toehold").links


def test_the_body_of_a_fetch_is_decoded_first() -> None:
    body = b"<a href=x>"
    expected = extract(PAGE, "text/html", None, body)
    assert outlinks(fetch(body)) == outlinks(fetch(gzip.compress(body), encoding="gzip")) == expected
    russian = fetch("<a href=привет>".encode("cp1251"), "text/HTML; charset=windows-1251")
    assert [link.uri for link in outlinks(russian)] == [f"http://a.example/dir/{WORD}"]
    assert outlinks(fetch(body, encoding="br")) == []
    assert outlinks(fetch(b"")) == []
    assert outlinks(fetch(body, "image/png")) == []


def test_a_part_of_a_huge_document_is_looked_at() -> None:
    filler = b"<p>" + b"x" * 997
    body = b"<a href=first>" + filler * (MAX_HTML_BYTES // 1000 + 100) + b"<a href=last>"
    links = outlinks(fetch(gzip.compress(body, 1), encoding="gzip"))
    assert [link.uri for link in links] == ["http://a.example/dir/first"]


def test_a_zipped_sitemap_file_is_unzipped() -> None:
    body = gzip.compress(b"<urlset><url><loc>http://a.example/1</loc></url></urlset>")
    for encoding, content in (("", body), ("gzip", gzip.compress(body))):
        found = fetch(content, "application/x-gzip", encoding, "http://a.example/sitemap.xml.gz")
        assert [link.uri for link in outlinks(found)] == ["http://a.example/1"]
    assert outlinks(fetch(body, "application/gzip", "", "http://a.example/data.tar.gz")) == []


# Hostile documents

MEGABYTE = 1_000_000


REPEATED = (
    *(
        "<div>",
        "<a><div>",
        "<!--",
        "<!-- ",
        "<a",
        "<a b='",
        "<a href=",
        "<a b=c ",
        "<![CDATA[",
        "<script>",
        "</p>",
    ),
    *(
        "<svg><desc>",
        "<table><a href=x>",
        "&",
        "&amp;",
        "&#x110000;",
        "<?",
        "<!DOCTYPE ",
        "\0",
        "<textarea>",
        '"',
    ),
    *("<base href=x>", "<a href=javascript:>", "<img srcset=' '>", "<meta http-equiv=refresh content='0;'>"),
    *("<noscript>", "<noscript></noscript>", "<noframes><noscript>", "<noscript></noframes>"),
)
PARTS = (
    *(
        "<a href=",
        "<base href=",
        "<img srcset='",
        "<meta http-equiv=refresh content=",
        "'",
        '"',
        ">",
        "x",
        ";",
    ),
    *(
        " ",
        "&#0;",
        "\ud7ff",
        "<!--",
        "-->",
        "http://",
        "//[",
        "%",
        "<svg>",
        "<urlset>",
        "<loc>",
        "\0",
        "=",
        "/",
    ),
    *("<noscript>", "</noscript>"),
)


@pytest.mark.parametrize("pattern", REPEATED)
def test_repetition_takes_time_in_proportion(pattern: str) -> None:
    body = (pattern * (MEGABYTE // len(pattern))).encode()
    assert taken_s(lambda: extract(PAGE, "text/html", "utf-8", body)) < 5


@pytest.mark.parametrize(
    "body",
    [
        "<a " + "".join(f"a{n}=1 " for n in range(100_000)) + "href=x>",
        "<a href='" + "x" * MEGABYTE + "'><a href=x>",
        "<img srcset='" + "," * MEGABYTE + "'><a href=x>",
        "<img srcset='" + " " * MEGABYTE + "'><a href=x>",
        "<img srcset='" + "x " * (MEGABYTE // 2) + "'><a href=x>",
        "<meta http-equiv=refresh content='" + "0" * MEGABYTE + "'><a href=x>",
        "<meta http-equiv=refresh content='0;" + " " * MEGABYTE + "'><a href=x>",
        "<meta http-equiv=refresh content='0;" + "url=" * (MEGABYTE // 4) + "'><a href=x>",
        "<link rel='" + "x " * (MEGABYTE // 2) + "' href=y><a href=x>",
        "<a href='" + "../" * 2700 + "'><a href=x>",
    ],
    ids=lambda body: body[:30],
)
def test_huge_values_take_time_in_proportion(body: str) -> None:
    links: list[Outlink] = []
    assert taken_s(lambda: links.extend(extract(PAGE, "text/html", "utf-8", body.encode()))) < 5
    assert "http://a.example/dir/x" in {link.uri for link in links}


@given(
    body=st.binary(max_size=2000)
    | st.lists(st.sampled_from(PARTS), max_size=60).map(lambda parts: "".join(parts).encode()),
    media_type=st.sampled_from(["text/html", "text/xml", "text/plain", "application/xhtml+xml", "nonsense"]),
    charset=st.none()
    | st.sampled_from(["utf-8", "utf-16", "gbk", "iso-2022-jp", "big5"])
    | st.text(max_size=20),
    uri=st.sampled_from([PAGE, "https://a.example/sitemap.txt", "nonsense"]),
)
def test_no_document_is_an_error(body: bytes, media_type: str, charset: str | None, uri: str) -> None:
    for link in extract(uri, media_type, charset, body):
        assert link.uri.startswith(("http://", "https://"))


def taken_s(work: Callable[[], object]) -> float:
    """CPU time of this thread, so that a busy machine does not count."""
    start = time.thread_time()
    work()
    return time.thread_time() - start
