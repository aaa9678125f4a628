"""Documents in which links are looked for, of all kinds, and their text."""

import gzip

from node_doubles.extracting import fetch

from crawler_node.extraction.charset import text_of as text_of_body
from crawler_node.extraction.extract import outlinks
from crawler_node.extraction.page_text import page_text
from crawler_node.fetching.fetch import ExtractSettings
from crawler_node.fetching.references import MAX_URI_BYTES, Base

from .target import Said, Target

_SETTINGS = ExtractSettings(javascript=True, obey_nofollow=False, sitemap_lastmod=True)
_CHARSETS = (
    "utf-8",
    "",
    "utf-16",
    "gb18030",
    "iso-2022-jp",
    "shift_jis",
    "windows-1252",
    "utf-7",
    "x-user-defined",
)


def _links(data: bytes, media_type: str, uri: str = "http://a.example/dir/page", **headers: str) -> Said:
    """No extractor breaks, and each link is a URI that stays as it is."""
    found = outlinks(
        fetch(data, media_type, uri, **headers), _SETTINGS, "toehold", is_listed="sitemap" in uri
    )
    if found.error is not None:
        raise found.error
    base = Base(uri)
    for link in found.links:
        assert len(link.uri) <= MAX_URI_BYTES and base.resolve(link.uri) == link.uri, link
        link.context.encode()
    contexts = frozenset(link.context for link in found.links)
    return contexts, tuple(note.partition(",")[0] for note in found.notes)


def _html(data: bytes) -> Said:
    """The first byte chooses the charset."""
    charset = _CHARSETS[data[0] % len(_CHARSETS)] if data else ""
    said = _links(data[1:], f"text/html; charset={charset}")
    told = page_text(data[1:], charset)
    told.title and told.title.encode("utf-8", "surrogatepass")
    return said, bool(told.text)


def _xhtml(data: bytes) -> Said:
    return _links(data, "application/xhtml+xml")


def _css(data: bytes) -> Said:
    return _links(data, "text/css")


def _feed(data: bytes) -> Said:
    return _links(data, "application/rss+xml")


def _sitemap(data: bytes) -> Said:
    return _links(data, "application/xml", "http://a.example/sitemap.xml.gz")


def _sitemap_list(data: bytes) -> Said:
    return _links(data, "text/plain", "http://a.example/sitemap.txt")


def _json(data: bytes) -> Said:
    return _links(data, "application/ld+json")


def _manifest(data: bytes) -> Said:
    return _links(data, "application/manifest+json")


def _playlist(data: bytes) -> Said:
    return _links(data, "application/vnd.apple.mpegurl")


def _script(data: bytes) -> Said:
    return _links(data, "text/javascript")


def _untold(data: bytes) -> Said:
    return _links(data, "application/octet-stream"), _links(data, "text/plain", "http://a.example/x.xml.gz")


def _headers(data: bytes) -> Said:
    text = data.decode("latin-1")
    link, _, rest = text.partition("\n")
    refresh, _, location = rest.partition("\n")
    made = fetch(b"", "text/plain")
    made.headers += [
        (name, value.encode("latin-1"))
        for name, value in ((b"Link", link), (b"Refresh", refresh), (b"Content-Location", location))
    ]
    found = outlinks(made, _SETTINGS, "toehold")
    if found.error is not None:
        raise found.error
    return frozenset(each.context for each in found.links), len(found.links)


def _charset(data: bytes) -> Said:
    label, _, body = data.partition(b"\n")
    text = text_of_body(body, label.decode("latin-1"))
    return len(text) == len(body), "\ufffd" in text


_PAGE = b"""\0<!doctype html><html><head><base href="/b/"><meta charset=utf-8><title>t &amp; u</title>
<meta http-equiv=refresh content="5; url='next'"><meta name=robots content=nofollow>
<link rel="next stylesheet" href=s.css>
<meta property="og:image" content="/i.png"><style>@import "a.css"; p{background:url(b.png)}</style></head>
<body onclick="location='/x.html'" style="background:image-set('c.png' 1x)">
<a href="?q=1#f" rel=nofollow>x</a>
<img src=i.png srcset="a.png 1x, b.png 2x" data-src=/lazy.jpg><script>var u="/s/page.html";</script>
<script type="application/ld+json">{"@type":"A","image":["/j.png"],"url":"/u"}</script><noscript>
<img src=n.gif></noscript>
<iframe srcdoc="&lt;a href=/inner&gt;"></iframe><form action=/f method=get><input type=image src=z.png>
<button formaction=/g>
</form><object data=o><param name=movie value=m.swf></object><template><a href=t></a></template>
<!-- <a href=c> --></body>"""
_FEED = b"""<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"
 xml:base="http://b.example/"><channel><link>http://a.example/</link><image><url>/i.png</url></image><item>
<guid
 isPermaLink="true">/g</guid><link>/l</link><enclosure url="e.mp3"/><media:content url="m.mp4"/></item>
</channel></rss>"""
_ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="/s"/><entry><link href="/e"/>
<content src="c"/>
</entry><logo>l.png</logo></feed>"""
_SITEMAP = b"""<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
 xmlns:i="http://www.google.com/schemas/sitemap-image/1.1">
<url><loc>http://a.example/1</loc><lastmod>2023-11-01T10:00:00+02:00</lastmod><i:image>
<i:loc>/i.png</i:loc></i:image></url>
<url><loc><![CDATA[http://a.example/2?a&b]]></loc></url></urlset>"""
_XML_WORDS = (
    *(
        b"<!DOCTYPE x [<!ENTITY a 'b'>]>",
        b"<!--",
        b"-->",
        b"<![CDATA[",
        b"]]>",
        b"<?xml ",
        b"?>",
        b"&amp;",
        b"&#x",
        b"&a;",
    ),
    *(
        b"<url>",
        b"</url>",
        b"<loc>",
        b"</loc>",
        b"<item>",
        b"</item>",
        b"<lastmod>",
        b"xmlns=''",
        b"xmlns:a='b'",
        b"a:",
    ),
    *(
        b"<entry>",
        b"<link ",
        b"href=",
        b"xml:base='",
        b"/>",
        b"encoding='utf-16'",
        b"<sitemapindex>",
        b"<rss>",
        b"<feed>",
    ),
)
_HTML_WORDS = (
    *(
        b"<a href=",
        b"<img srcset='",
        b"<base href=",
        b"<meta ",
        b"http-equiv=refresh content='",
        b"<script>",
        b"</script>",
    ),
    *(
        b"<style>",
        b"</style>",
        b"<!--",
        b"-->",
        b"<![CDATA[",
        b"<svg>",
        b"<math>",
        b"<template>",
        b"<noscript>",
        b"<iframe srcdoc='",
    ),
    *(
        b"url(",
        b"@import ",
        b"image-set(",
        b"&#x0;",
        b"&notin",
        b"data:",
        b"javascript:",
        b"<textarea>",
        b"<plaintext>",
        b"<title>",
    ),
    *(
        b"\x1b$B",
        b"\x1b(B",
        b" on\x00=",
        b" style='",
        b"<form action=",
        b"nofollow",
        b"<param name=src value=",
        b"itemprop=image ",
    ),
)
_CSS_WORDS = (
    *(
        b"url(",
        b"@import ",
        b"/*",
        b"*/",
        b"image-set(",
        b"src(",
        b"\\",
        b"\\00000a",
        b"@namespace ",
        b'@charset "utf-8";',
        b";",
        b"{",
    ),
)
_JSON_WORDS = (
    b'{"',
    b'":',
    b"[",
    b"]",
    b'"image":',
    b'"url":',
    b"\\u0000",
    b"\\ud800",
    b"\\",
    b'"',
    b"{",
    b"}",
    b",",
)

TARGETS = (
    Target(
        "html", _html, (_PAGE, b"\3<a href='?\xd6\xd0'>", b"\2<\0a\0 \0h\0r\0e\0f\0=\0b\0>\0"), _HTML_WORDS
    ),
    Target(
        "xhtml",
        _xhtml,
        (b"<?xml version='1.0'?>" + _PAGE[1:], b"<svg xmlns='a'><image xlink:href='/i'/></svg>"),
        _HTML_WORDS,
    ),
    Target(
        "css",
        _css,
        (
            b'@charset "utf-8"; @import url("a.css") print; p{background:url( b.png ),'
            b'image-set("c.png" 1x, url(d) 2x)} /* url(x) */',
        ),
        _CSS_WORDS,
    ),
    Target(
        "feed", _feed, (_FEED, _ATOM, _FEED.replace(b"</guid>", b""), _FEED.replace(b"&", b"&x;")), _XML_WORDS
    ),
    Target(
        "sitemap",
        _sitemap,
        (_SITEMAP, _SITEMAP.replace(b"</loc>", b""), gzip.compress(_SITEMAP, mtime=0)),
        _XML_WORDS,
    ),
    Target(
        "sitemap-list",
        _sitemap_list,
        (b"http://a.example/1\nhttp://a.example/2\r\n# no\n/rel", b"\xef\xbb\xbfhttps://a.example/"),
        (b"http://", b"\n"),
    ),
    Target(
        "json-ld",
        _json,
        (b'{"@context":"https://schema.org","image":{"url":"/a.png"},"url":["/b","/c"],"x":1e5}',),
        _JSON_WORDS,
    ),
    Target(
        "manifest",
        _manifest,
        (b'{"start_url":"/?a","icons":[{"src":"i.png"}],"shortcuts":[{"url":"/b"}]}',),
        (*_JSON_WORDS, b'"src":', b'"start_url":'),
    ),
    Target(
        "playlist",
        _playlist,
        (b'#EXTM3U\n#EXT-X-MAP:URI="init.mp4"\n#EXTINF:9,\nhttp://a.example/1.ts\nb c.ts\n',),
        (b"#EXT", b'URI="', b"{$", b"\n", b":", b",", b"#"),
    ),
    Target(
        "script",
        _script,
        (
            b"""var a="/a.html", b='http:\\/\\/b.example\\/x', c=`/c.js`; // "/d"
location.href="e.php?x="+y;""",
        ),
        (b'"', b"'", b"`", b"\\", b"/", b".html", b"http:\\/\\/", b"${"),
    ),
    Target(
        "untold",
        _untold,
        (
            _PAGE[1:],
            _SITEMAP,
            _FEED,
            gzip.compress(_PAGE, mtime=0),
            b"  <?xml version='1.0'?><html>",
            b"\xfe\xff\0<\0h",
        ),
        (*_XML_WORDS, *_HTML_WORDS),
    ),
    Target(
        "header-links",
        _headers,
        (
            b'</a>; rel="next"; title="x, \\"y\\"", <b>;rel=stylesheet\n5; url=/r\n/c',
            b"<a>;rel*=UTF-8''next;anchor=x\n0,'q\n",
        ),
        (b"<", b">", b";", b"rel=", b'"', b"\\", b"url=", b",", b"anchor="),
    ),
    Target(
        "charset",
        _charset,
        (
            b"gb18030\n\x81\x30\x81\x30",
            b"utf-16\n\xff\xfea\0",
            b"iso-2022-jp\n\x1b$B0!",
            b"\n<meta charset=big5>\xa4\xa4",
        ),
        (b"utf-8\n", b"<meta charset=", b"\x1b$", b"\xff\xfe", b"hz-gb-2312\n", b"replacement\n"),
    ),
)
