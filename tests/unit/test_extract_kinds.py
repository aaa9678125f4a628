"""As which kind of document a fetch is read, if any."""

import gzip
import time

import pytest
from node_doubles.extracting import FOLDER, PAGE, fetch, find, pairs

from crawler_node.extraction.extract import outlinks
from crawler_node.extraction.links import FoundLinks
from crawler_node.extraction.xml_styles import xml_styles
from crawler_node.fetching.fetch import ExtractSettings

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


@pytest.mark.sampled("media_type", ["text/plain", "image/png", "application/pdf", "application/json"])
@pytest.mark.sampled("body", [HTML, "http://a.example/", RSS, LD])
def test_other_documents_have_no_links(media_type: str, body: str) -> None:
    found = find(fetch(body, media_type))
    assert (found.links, found.notes) == ([], ())


@pytest.mark.sampled(
    "media_type",
    [
        *("", " ", ";", '"text/html"', "'text/html; charset=utf-8'", "text/html charset=utf-8"),
        *("html", "*/*"),
        *("text", "text/", "/html", "text-html", "text/hmtl", "text/htm", "test/html"),
        *("txt/html", "\xff/html"),
        *("application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown"),
        *("application/html", "application/x-httpd-php", "content/unknown"),
    ],
)
@pytest.mark.sampled(
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


@pytest.mark.sampled(
    "doctype",
    ["<!DOCTYPE rss>", "<!DOCTYPE rss SYSTEM 'x'>", "<!DOCTYPE rss [<!ENTITY a 'b[1] c'><!ENTITY d ']'>]>"],
)
@pytest.mark.sampled(("body", "hop"), [(RSS, "L"), (SITEMAP, "M")])
@pytest.mark.sampled("media_type", ["application/rss+xml", "text/xml", "text/html", ""])
def test_a_document_type_does_not_hide_what_a_document_is(
    media_type: str, body: str, hop: str, doctype: str
) -> None:
    found = find(fetch(f'<?xml version="1.0"?>\n{doctype}\n{body}', media_type))
    assert pairs(found) == [(hop, "x")]
    told = "xmlError:line_2_declarations_of_the_document_type_are_not_read"
    assert (told in found.notes) == ("[" in doctype)


@pytest.mark.parametrize("body", [RSS, "\n<!-- a --><?b?>" + RSS])
def test_a_feed_that_is_called_html_is_a_feed(body: str) -> None:
    """WHATWG MIME Sniffing 7.3."""
    found = find(fetch(body, "text/html"))
    assert (pairs(found), found.notes) == ([("L", "x")], ("sniffed:feed",))
    assert find(fetch("<p>" + body, "text/html")).notes == ()


OPML = "<opml><body><outline xmlUrl='x'/></body></opml>"
MANIFEST = '{"name": "./no", "icons": [{"src": "x.png", "sizes": "1x1"}], "start_url": "./x", "scope": "/no"}'
PLAYLIST = '#EXTM3U\n#EXT-X-MAP:URI="x.mp4"\nx.ts\n'
ICON = [("E", "x.png"), ("L", "x")]
PARTS = [("E", "x.mp4"), ("E", "x.ts")]


@pytest.mark.parametrize(
    ("media_type", "name", "body", "links", "notes"),
    [
        *(
            (each, "x", OPML, [("L", "x")], ())
            for each in ("text/x-opml", "text/xml", "application/opml+xml")
        ),
        ("text/html", "x", OPML, [("L", "x")], ("sniffed:feed",)),
        ("", "x", OPML, [("L", "x")], ("sniffed:feed",)),
        ("application/manifest+json", "x", MANIFEST, ICON, ()),
        ("application/json", "manifest.json", MANIFEST, ICON, ()),
        ("application/octet-stream", "site.webmanifest", MANIFEST, ICON, ()),
        ("text/plain", "site.webmanifest", "\ufeff\n" + MANIFEST, ICON, ()),
        ("application/json", "other.json", MANIFEST, [], ()),
        ("application/json", "manifest.json", f"[{MANIFEST}]", [], ()),
        ("image/png", "manifest.json", MANIFEST, [], ()),
        ("application/vnd.apple.mpegurl", "x", PLAYLIST, PARTS, ()),
        ("Audio/X-MPEGURL; charset=utf-8", "x", PLAYLIST, PARTS, ()),
        ("audio/mpegurl", "x", "x.mp3\n", [("E", "x.mp3")], ()),
        ("text/plain", "list.M3U8", PLAYLIST, PARTS, ()),
        ("application/octet-stream", "list.m3u", PLAYLIST, PARTS, ()),
        ("", "list.m3u8", PLAYLIST, PARTS, ()),
        ("text/plain", "list.m3u8", "x.ts\n", [], ()),
        ("text/plain", "list.txt", PLAYLIST, [], ()),
    ],
)
def test_lists_of_feeds_manifests_and_playlists_are_read(
    media_type: str, name: str, body: str, links: list[tuple[str, str]], notes: tuple[str, ...]
) -> None:
    found = find(fetch(body, media_type, FOLDER + name))
    assert (pairs(found), found.notes) == (links, notes)


STYLE = "<?xml-stylesheet type='text/xsl' href='x.xsl?a&amp;b'?>"


@pytest.mark.parametrize(
    ("media_type", "body", "links"),
    [
        ("application/xml", f"<?xml version='1.0'?>{STYLE}<foaf/>", [("E", "x.xsl?a&b")]),
        ("text/xml", f"\ufeff{STYLE}<foaf/>", [("E", "x.xsl?a&b")]),
        (
            "application/x-own+xml",
            f"<!DOCTYPE a [<!ENTITY b 'c'>]><!-- a -->{STYLE}<a/>",
            [("E", "x.xsl?a&b")],
        ),
        ("", f"<?xml version='1.0'?>{STYLE}<foaf/>", [("E", "x.xsl?a&b")]),
        ("application/rss+xml", STYLE + RSS, [("E", "x.xsl?a&b"), ("L", "x")]),
        ("text/html", STYLE + RSS, [("E", "x.xsl?a&b"), ("L", "x")]),
        ("application/xml", STYLE + SITEMAP, [("E", "x.xsl?a&b"), ("M", "x")]),
        ("application/xhtml+xml", STYLE + XHTML, [("E", "x.xsl?a&b"), ("L", "x")]),
        ("image/svg+xml", STYLE + SVG, [("E", "x.xsl?a&b"), ("L", "x")]),
        (
            "text/xml",
            '<?xml-stylesheet href = "a.css" alternate="yes"?>\n<?other href="no"?>'
            '<?xml-stylesheet\nhref="b.css"?><a/>',
            [("E", "a.css"), ("E", "b.css")],
        ),
        ("text/xml", f"<a/>{STYLE}", []),
        ("text/xml", f"<!-- {STYLE} --><a/>", []),
        (
            "text/xml",
            "<?xml-stylesheet href='#s'?><?xml-stylesheet type='a'?><?xml-stylesheets href='x'?><a/>",
            [],
        ),
        ("text/html", STYLE + HTML, [("L", "x")]),
        ("text/plain", STYLE + RSS, []),
    ],
)
def test_style_sheets_that_xml_names_are_parts_of_it(
    media_type: str, body: str, links: list[tuple[str, str]]
) -> None:
    assert pairs(find(fetch(body, media_type))) == links
    assert pairs(find(fetch(body.lstrip("\ufeff").encode("utf-16"), media_type))) == links


@pytest.mark.parametrize("again", ["<?a?>", "<?", "<!--", "<!", "<?xml-stylesheet href=", " ", "?", "-"])
def test_prolog_of_xml_takes_time_in_proportion_to_its_length(again: str) -> None:
    began = time.thread_time()
    for start in ("", "<?", "<!--", "<?xml-stylesheet "):
        assert list(xml_styles(start + again * 200_000)) == []
    assert time.thread_time() - began < 5


# What robots.txt or a sitemap named
def listed(body: str | bytes, media_type: str, uri: str = PAGE) -> FoundLinks:
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
        ("http://a.example/dir/x\r\n\r\nHTTPS://[no\n", "list"),
        (gzip.compress(SITEMAP.encode()), "sitemap"),
    ],
)
def test_what_was_named_as_a_sitemap_is_read_as_one_whatever_its_media_type(
    media_type: str, body: str | bytes, kind: str
) -> None:
    found = listed(body, media_type)
    assert (pairs(found), found.notes) == ([("M", "x")], (f"sniffed:{kind}",))


def test_a_list_may_begin_with_a_uri_that_is_not_escaped() -> None:
    found = listed('http://a.example/dir/Murphy\'s "law"\r\nhttp://a.example/dir/x\r\n', "text/plain")
    assert pairs(found) == [("M", "Murphy's%20%22law%22"), ("M", "x")]


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
