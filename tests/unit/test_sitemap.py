"""Sitemaps in XML and as lists, and the sitemaps that robots.txt names."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.extraction import xml_reader
from crawler_node.extraction.links import Hop
from crawler_node.extraction.sitemap import (
    MAX_PARTS_CHARS,
    MAX_ROBOTS_SITEMAPS,
    MAX_URIS,
    last_modified_ms,
    links_of_list,
    links_of_xml,
    sitemaps_of_robots,
)
from crawler_node.fetching.references import Base

BASE = Base("http://a.example/sitemap.xml")
ROBOTS = "http://a.example/robots.txt"
SCHEMA = b'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'

NOTHING_NEW = {
    "the same page": b"<url><loc>http://a.example/same</loc></url>",
    "no location": b"<url/>",
    "an empty location": b"<url><loc/></url>",
    "no URI": b"<url><loc>http:[</loc></url>",
    "text": b"<url>x</url>",
    "other elements": b"<url><a/></url>",
    "broken": b"<url>&</url>",
}

MEASURABLE_S = 0.5
"""Less processor time than this says nothing about growth."""


def xml(*pieces: bytes) -> list[str]:
    links = list(links_of_xml(BASE, pieces))
    assert all(link.hop is Hop.SITEMAP or link.context.startswith(("image/", "video/")) for link in links)
    return [link.uri for link in links]


def test_a_urlset_names_pages() -> None:
    body = (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<urlset %s '
        b'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">'
        b"<url><loc>http://a.example/1?a=1&amp;b=2</loc><lastmod>2024-01-01</lastmod></url>"
        b"<url><lastmod>2024</lastmod><loc>\n http://a.example/2 \n</loc>"
        b"<image:image><image:loc>http://a.example/image</image:loc></image:image></url>"
        b"<url><loc><![CDATA[http://a.example/3]]></loc></url>"
        b"<url><loc>/4</loc></url><url><loc>mailto:a@b.example</loc></url><url><loc/></url>"
        b"<other><loc>http://a.example/no</loc></other><loc>http://a.example/no</loc>"
        b"<url><loc>http://a.example/2</loc></url></urlset>" % SCHEMA
    )
    # A page needs its pictures; they come behind the pages, lest they take their places.
    names = ("1?a=1&b=2", "2", "3", "4", "sitemap.xml", "2", "image")
    expected = [f"http://a.example/{name}" for name in names]
    assert xml(body) == expected
    assert xml(*(body[n : n + 1] for n in range(len(body)))) == expected


EXTENSIONS = (
    b"<urlset %s xmlns:image='http://www.google.com/schemas/sitemap-image/1.1'"
    b" xmlns:video='http://www.google.com/schemas/sitemap-video/1.1' xmlns:x='http://www.w3.org/1999/xhtml'>"
    % SCHEMA
)


@pytest.mark.sampled("start", [EXTENSIONS, b"<urlset %s>&" % SCHEMA, EXTENSIONS + b"&"])
@pytest.mark.sampled(
    ("inner", "links"),
    [
        (b"<image:image><image:loc>/i.jpg</image:loc></image:image>", [("E", "/i.jpg")]),
        (
            b"<image:image><image:loc> /i.jpg </image:loc><image:title>/no</image:title>"
            b"<image:license>/no</image:license></image:image>"
            b"<image:image><image:loc>/j k.jpg</image:loc></image:image>",
            [("E", "/i.jpg"), ("E", "/j%20k.jpg")],
        ),
        (
            b"<video:video><video:thumbnail_loc>/t.jpg</video:thumbnail_loc><video:title>/no</video:title>"
            b"<video:content_loc>/v.mp4</video:content_loc>"
            b"<video:player_loc autoplay='a'>/p?v</video:player_loc></video:video>",
            [("E", "/t.jpg"), ("E", "/v.mp4"), ("E", "/p?v")],
        ),
        (
            b"<x:link rel='alternate' hreflang='de' href='/de'/>"
            b"<x:link rel='alternate' hreflang='fr' href='/fr'/>",
            [("M", "/de"), ("M", "/fr")],
        ),
        (b"<x:link rel='preconnect' href='/no'/><x:link href='/no'/><x:link rel='alternate'/>", []),
        (b"<image:loc>/no</image:loc><a><b><image:loc>/no</image:loc></b></a>", []),
        (
            b"<image:image><image:loc/></image:image><image:image><image:loc>mailto:a@b.example</image:loc>",
            [],
        ),
    ],
)
def test_pictures_videos_and_other_languages_of_pages_come_behind_the_pages(
    start: bytes, inner: bytes, links: list[tuple[str, str]]
) -> None:
    body = start + b"<url><loc>/1</loc>" + inner + b"</url><url><loc>/2</loc></url></urlset>"
    pages = [("M", "/1"), ("M", "/2")]
    for pieces in ([body], [body[n : n + 1] for n in range(len(body))]):
        found = links_of_xml(BASE, pieces)
        assert [
            (link.hop.value, link.uri.removeprefix("http://a.example")) for link in found
        ] == pages + links


def test_pictures_never_take_the_place_of_pages() -> None:
    image = b"<image:image><image:loc>http://a.example/same</image:loc></image:image>"
    body = [b"<urlset>", b"<url>" + image * (MAX_URIS + 1) + b"</url>", entry("1"), b"</urlset>"]
    links = list(links_of_xml(BASE, body))
    assert (links[0].uri, len(links)) == ("http://a.example/1", 1 + MAX_URIS)


def test_long_pictures_are_kept_up_to_a_size_and_pages_go_on() -> None:
    """They wait in memory: 50 000 of 8 KiB each would take 400 MiB."""
    picture = b"<image:image><image:loc>http://a.example/" + b"p" * 8_000 + b"</image:loc></image:image>"
    entries = [
        b"<url>" + picture + b"<loc>http://a.example/%d</loc></url>" % number for number in range(2_000)
    ]
    links = list(links_of_xml(BASE, [b"<urlset>", *entries, b"</urlset>"]))
    pages = [link for link in links if link.hop is Hop.SITEMAP]
    pictures = [link for link in links if link.hop is Hop.EMBED]
    assert len(pages) == 2_000
    assert 0 < sum(len(link.uri) for link in pictures) <= MAX_PARTS_CHARS


def test_an_index_names_sitemaps_with_or_without_a_namespace() -> None:
    for root in (b"<sitemapindex %s>" % SCHEMA, b"<sitemapindex>"):
        body = root + b"<sitemap><loc>http://a.example/s1.xml.gz</loc></sitemap></sitemapindex>"
        assert xml(body) == ["http://a.example/s1.xml.gz"]
    prefixed = b'<s:urlset xmlns:s="urn:x"><s:url><s:loc>http://a.example/</s:loc></s:url></s:urlset>'
    assert xml(prefixed) == ["http://a.example/"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not xml",
        b"<rss><channel><link>http://a.example/</link></channel></rss>",
        b"<url><loc>http://a.example/</loc></url>",
        b"<urlset><sitemap><loc>http://a.example/</loc></sitemap></urlset>",
        b"\xff\xfe<\x00u\x00",
    ],
)
def test_other_xml_names_nothing(body: bytes) -> None:
    assert xml(body) == []


def entry(name: str) -> bytes:
    return b"<url><loc>http://a.example/%s</loc></url>" % name.encode()


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (b"", ""),
        (b"<url><loc>http://a.example/2", "2"),
        (b"</wrong>", ""),
        (b"&nbsp;", ""),
        (b"\x00", ""),
        (b"\xff", ""),
        (b"<", ""),
        (b"<>", ""),
        (b"</>", ""),
        (b"<?php echo 1 >2 ?>", ""),
        (b"<!-- a -- b -->", ""),
        (b"<x:y/>", ""),
        (b"<url x:y='z'><loc>http://a.example/2</loc></url>", "2"),
        (b"<url a=1 b><loc>http://a.example/2</loc></url>", "2"),
        (b"<url><loc>http://a.example/2?a=1&b=2&copy=3</loc></url>", "2?a=1&b=2&copy=3"),
        (b"<url><loc>http://a.example/2?a=&#38;b&amp;c&#x26;d&eacute;&#1;</loc></url>", "2?a=&b&c&d\u00e9"),
        (b"&<url><loc>http://a.example/2?\xe9</loc></url>", "2?\u00e9"),
        (b"&<url><loc>http://a.example/2?\xc3\xa9</loc></url>", "2?\u00e9"),
        (b"&<url><loc><![CDATA[http://a.example/2?a&amp;b]]></loc></url>", "2?a&amp;b"),
        (b"&<url><!-- <loc>http://a.example/no</loc> --><loc>http://a.example/2</loc></url>", "2"),
        (b"&<url><x:loc>http://a.example/no</x:loc><loc>http://a.example/2</loc></url>", "2"),
        (b"<url><loc>http://a.example/2</url>", "2"),
        (b"<url><loc>http://a.example/2</loc>", "2"),
        (b"<x><url><loc>http://a.example/2</loc></url>", "2"),
        (b"<url><x><x><loc>http://a.example/no</loc>", ""),
        (b"&<x/><x /><url><loc>http://a.example/2</loc></url>", "2"),
        (b"</urlset>junk<p>more<url><loc>http://a.example/no</loc></url></p><urlset>", ""),
    ],
)
def test_broken_xml_is_read_on_after_the_break(bad: bytes, found: str) -> None:
    body = b"<urlset %s>" % SCHEMA + entry("1") + bad + entry("3") + entry("4") + b"</urlset>"
    expected = ["1", *([found] if found else []), "3", "4"]
    links = [BASE.resolve(f"/{each}") for each in expected]
    assert xml(body) == links
    assert xml(*(body[n : n + 1] for n in range(len(body)))) == links


def test_what_is_before_a_sitemap_is_passed_over() -> None:
    for junk in (b"oops", b"<br />\n<b>Warning</b>", b"<a>", b"<?xml version='1.0'?><a><b></a>"):
        assert xml(junk + b"<URLSET>" + entry("1") + b"</URLSET>") == ["http://a.example/1"]


def test_it_is_told_once_how_xml_is_broken() -> None:
    for body, told in (
        (b"<urlset>" + entry("1") + b"\n</x>&</x>", ["line 2, mismatched tag"]),
        (b"<urlset>" + entry("1"), ["line 1, no element found"]),
        (b"<urlset>" + entry("1") + b"</urlset>", []),
        (b"<urlset><!--" + b" " * 500_000 + b"-->" + entry("1") + b"</urlset>", ["line 1, too long"]),
    ):
        heard: list[str] = []
        assert [link.uri for link in links_of_xml(BASE, [body], None, heard.append)] == ["http://a.example/1"]
        assert heard == told


def test_a_lastmod_after_a_break_has_its_entry() -> None:
    body = (
        b"<urlset><url><loc>/1?a&b</loc><lastmod>2024-01-01T00:00Z</lastmod></url>"
        b"<url><loc>/2</loc></url><url><lastmod>2024-01-03T00:00Z</lastmod><loc>/3</loc></url></urlset>"
    )
    times = [(link.uri[16:], link.refetch_before_ms) for link in links_of_xml(BASE, [body], NOW_MS)]
    assert times == [("/1?a&b", utc_ms(2024, 1, 1)), ("/2", None), ("/3", utc_ms(2024, 1, 3))]


def test_long_texts_and_tags_after_a_break_are_passed_over() -> None:
    long = b"x" * 700_000
    for bad in (
        b"<url><loc>http://a.example/" + long + b"</loc></url>",
        b"<url><loc><![CDATA[http://a.example/" + long + b"]]></loc></url>",
        b"<url " + long + b"></url>",
        b"<!--" + long + b"-->",
        b"<?" + long + b"?>",
        long,
    ):
        *before, last = xml(b"<urlset>&", bad, entry("1"))
        assert last == "http://a.example/1" and set(before) <= {BASE.resolve("")}


def test_a_document_type_after_a_break_is_skipped_too() -> None:
    """It ended the reading once, against entities, which are no longer read at all."""
    expected = ["http://a.example/1", "http://a.example/2"]
    for doctype in (b"<!DOCTYPE x>", b"<!DOCTYPE x [<!ENTITY a 'b'>]>"):
        assert xml(b"<urlset>&", entry("1"), doctype, entry("2"), entry("&a;")) == [
            *expected,
            *([] if b"[" in doctype else ["http://a.example/&a;"]),
        ]


@pytest.mark.parametrize(
    "doctype",
    [
        b"<!DOCTYPE urlset>",
        b'<!DOCTYPE urlset [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>',
        b'<!DOCTYPE urlset [<!ENTITY a SYSTEM "file:///etc/hostname">]>',
        b'<!DOCTYPE urlset SYSTEM "http://127.0.0.1:1/evil.dtd">',
    ],
)
def test_a_document_type_is_skipped_and_its_entities_stay_unexpanded(doctype: bytes) -> None:
    body = doctype + b"<urlset>" + entry("&a;") + entry("1") + b"</urlset>"
    expected = ["http://a.example/1"]
    if doctype == b"<!DOCTYPE urlset>":  # there can be no entity, so the reference is a slip of the author
        expected = ["http://a.example/&a;", *expected]
    assert xml(body) == xml(*(body[n : n + 1] for n in range(len(body)))) == expected


@pytest.mark.parametrize(
    ("start", "again"),
    [
        (b"<urlset>", b"<url>"),
        (b"<urlset><url><loc>", b"x"),
        (b"<urlset><url><loc>", b"&amp;"),
        (b"<urlset><!--", b"x"),
        (b"<urlset a='", b"x"),
        (b"<urlset>", b"<a b='c' d='e'/>"),
        (b"<urlset ", b"a "),
        (b"<urlset><![CDATA[", b"x"),
        (b"<urlset><?", b"x"),
        (b"<", b"x"),
        (b"", b" "),
    ],
)
def test_repetition_takes_time_in_proportion(start: bytes, again: bytes) -> None:
    """Four times as much takes less than eight times as long; with the square it would take sixteen."""
    piece = again * (65536 // len(again))

    def took_s(pieces: int) -> float:
        began = time.thread_time()
        assert xml(start, *([piece] * pieces)) == []
        return time.thread_time() - began

    assert took_s(20) < 8 * took_s(5) + MEASURABLE_S


@pytest.mark.sampled("start", [b"<urlset>&", b"<urlset><url><x>&"])
@pytest.mark.sampled(
    "again",
    [
        *(b"x", b"&", b"&amp;", b"<", b"<!", b"<a ", b"<a b='", b"<!--", b"<![CDATA[", b"<?", b"]]>", b" "),
        *(b"<a>", b"</a>", b"<a></b>", b"<a b='c' d='e'/>", b"<a xmlns:b='c'>", b"<url>", b"<a:b:c:"),
        *(b"<a " + b"x" * 60_000 + end for end in (b"=1>", b"=>", b"=1")),
        b"<a " + b" xmlns:a=b" * 6000 + b">",
    ],
)
def test_what_is_broken_takes_time_in_proportion_too(start: bytes, again: bytes) -> None:
    piece = again * (65536 // len(again))
    took_s = []
    for times in (1, 8):
        began = time.thread_time()
        assert xml(start, *([piece] * times)) == []
        took_s.append(time.thread_time() - began)
    assert took_s[1] < max(0.5, 40 * took_s[0]), "it is eight times as much"


def test_namespaces_are_bounded() -> None:
    tags = [
        b"<a " + b" ".join(b"xmlns:n%d_%d='x'" % (depth, n) for n in range(5000)) + b">"
        for depth in range(30)
    ]
    began = time.thread_time()
    for start in (b"<urlset>", b"<urlset>&"):
        assert xml(start, *tags, b"</a>" * 30, entry("1"), b"</urlset>") == ["http://a.example/1"]
    assert time.thread_time() - began < 5


def test_what_is_read_after_a_break_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_reader, "MAX_BROKEN_TOKENS", 1000)
    heard: list[str] = []
    pieces = [b"<urlset>&", entry("1"), b"<a/>" * 1000, entry("2")]
    assert [link.uri for link in links_of_xml(BASE, pieces, None, heard.append)] == ["http://a.example/1"]
    assert heard[1:] == ["given up after 1000 tags and texts"]


def test_many_attributes_take_time_in_proportion() -> None:
    began = time.thread_time()
    tag = b"<x " + b" ".join(b"a%d='1'" % n for n in range(20_000)) + b"/>"
    assert xml(b"<urlset>", *([tag] * 10), b"<url><loc>http://a.example/</loc></url>") == [
        "http://a.example/"
    ]
    assert time.thread_time() - began < 5


def utc_ms(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc, arg-type]


NOW_MS = utc_ms(2024, 3, 10, 12, 0, 0)


@pytest.mark.parametrize(
    ("lastmod", "when"),
    [
        ("2024-03-01T10:20:30Z", (2024, 3, 1, 10, 20, 30)),
        ("2024-03-01T10:20:30.123456+02:00", (2024, 3, 1, 8, 20, 30)),
        ("2024-03-01T10:20-05:30", (2024, 3, 1, 15, 50)),
        ("2024-03-01T10:20:30+0200", (2024, 3, 1, 8, 20, 30)),
        (" 2024-03-01 10:20:30\n", (2024, 3, 1, 10, 20, 30)),
        ("2024-03-01", (2024, 3, 2)),
        ("2024-02", (2024, 3, 1)),
        ("2023-12", (2024, 1, 1)),
        ("2023", (2024, 1, 1)),
        ("2020", (2021, 1, 1)),
    ],
)
def test_a_lastmod_is_the_last_moment_that_it_can_mean(lastmod: str, when: tuple[int, ...]) -> None:
    assert last_modified_ms(lastmod, NOW_MS) == utc_ms(*when)


@pytest.mark.parametrize(
    ("lastmod", "when"), [("2024-03-10", (2024, 3, 10)), ("2024-03", (2024, 3, 1)), ("2024", (2024, 1, 1))]
)
def test_what_is_not_over_counts_from_its_beginning(lastmod: str, when: tuple[int, ...]) -> None:
    assert last_modified_ms(lastmod, NOW_MS) == utc_ms(*when)


def test_a_lastmod_is_never_later_than_now() -> None:
    for soon in ("2024-03-10T12:00:01Z", "2024-03-11T11:00:00Z", "2024-03-11"):
        assert last_modified_ms(soon, NOW_MS) == NOW_MS


@pytest.mark.parametrize(
    "lastmod",
    [
        *("", "nonsense", "2024-13-01", "2024-02-30", "2024-3-1", "24-03-01"),
        *("2024-03-01T25:00Z", "2024-03-01T10"),
        *(
            "2024-03-01T10:20:30+99:99:99",
            "Sun, 10 Mar 2024 12:00:00 GMT",
            "0000-01-01",
            "1969-12-31",
            "9999-12-31",
        ),
        *("2024-03-12", "2025", "\u0662024-03-01", "2024-03-01T10:20:30Z" + "0" * 100_000),
    ],
    ids=lambda lastmod: lastmod[:30],
)
def test_a_lastmod_without_sense_is_none(lastmod: str) -> None:
    assert last_modified_ms(lastmod, NOW_MS) is None


@given(st.text() | st.from_regex(r"\d{4}(-\d\d){0,2}(T\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d))?", fullmatch=True))
def test_no_lastmod_is_an_error(lastmod: str) -> None:
    moment_ms = last_modified_ms(lastmod, NOW_MS)
    assert moment_ms is None or 0 <= moment_ms <= NOW_MS


def test_a_location_has_the_lastmod_of_its_entry() -> None:
    body = (
        b"<urlset><url><lastmod>2024-01-01T00:00Z</lastmod><loc>/1</loc></url><url><loc>/2</loc></url>"
        b"<url><loc>/3</loc><lastmod>2024-01-03T00:00Z</lastmod></url><lastmod>2024-01-04T00:00Z</lastmod>"
        b"<url><loc>/4</loc><x:lastmod xmlns:x='urn:x'>2024-01-05T00:00Z</x:lastmod><loc>/5</loc>"
        b"<lastmod>2024-01-06T00:00Z</lastmod></url><url><loc>/6</loc><lastmod>2024-01-07T00:00Z</lastmod>"
    )
    links = list(links_of_xml(BASE, [body], NOW_MS))
    days = {link.uri[-1]: link.refetch_before_ms for link in links}
    expected = {"1": 1, "2": None, "3": 3, "4": None, "5": 6, "6": 7}
    assert days == {name: day and utc_ms(2024, 1, day) for name, day in expected.items()}
    assert {link.refetch_before_ms for link in links_of_xml(BASE, [body])} == {None}


@given(
    pieces=st.lists(
        st.binary(max_size=50) | st.sampled_from([b"<urlset>", b"<url>", b"<loc>", b"</", b"&#x0;"])
    )
)
def test_no_xml_is_an_error(pieces: list[bytes]) -> None:
    xml(*pieces)
    xml(b"<urlset>", *pieces)


def lines(*pieces: bytes) -> list[str]:
    return [link.uri for link in links_of_list(BASE, pieces)]


def test_a_list_has_a_uri_on_each_line() -> None:
    body = b"\xef\xbb\xbf\nhttp://a.example/1\r\n  https://b.example/2  \n\n# http://a.example/no\nwords\n/3\nHTTP://a.example/4"
    expected = ["http://a.example/1", "https://b.example/2", "http://a.example/4"]
    assert lines(body) == expected
    assert lines(*(body[n : n + 1] for n in range(len(body)))) == expected


def test_a_byte_order_mark_does_not_hide_a_line() -> None:
    assert lines(b"\xef\xbb\xbfhttp://a.example/1\r\nhttp://a.example/2") == [
        "http://a.example/1",
        "http://a.example/2",
    ]


def test_a_line_without_end_is_dropped() -> None:
    assert lines(*([b"http://a.example/" + b"x" * 60_000] * 100), b"\nhttp://a.example/1") == [
        "http://a.example/1"
    ]
    assert lines(b"http://a.example/" + b"x" * 8000, b"y" * 1000, b"\nhttp://a.example/1") == [
        "http://a.example/1"
    ]


def test_robots_txt_names_sitemaps() -> None:
    body = (
        b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /x\rSitemap: http://a.example/s1.xml # main\n"
        b" SITEMAP :https://b.example/s2.xml\nsitemap: /relative\nSitemap:\nsitemaps: http://a.example/s3\n"
        b"Site-map:http://a.example/s4\nSitemap http://a.example/s5\n\xef\xbb\xbfSitemap: http://a.example/s6\n"
        b"A sitemap: http://a.example/no\nSite map: http://a.example/no\n"
        b"Sitemap: http://a.example/s1.xml\nSitemap: http://a.example/\xff\xc3\xa9"
    )
    assert sitemaps_of_robots(ROBOTS, body) == [
        "http://a.example/s1.xml",
        "https://b.example/s2.xml",
        "http://a.example/relative",
        *(f"http://a.example/s{number}" for number in range(3, 7)),
        "http://a.example/%FF%C3%A9",  # bytes that are not UTF-8 stay as they came
    ]


@pytest.mark.parametrize(
    ("line", "uri"),
    [
        ("Sitemap: /sm.xml", "https://h.example:8443/sm.xml"),
        ("sitemap:/sm.xml # main", "https://h.example:8443/sm.xml"),
        ("Sitemap: sm.xml", "https://h.example:8443/dir/sm.xml"),
        ("Sitemap: ./maps/1.xml.gz", "https://h.example:8443/dir/maps/1.xml.gz"),
        ("Sitemap: ../sm", "https://h.example:8443/sm"),
        ("Sitemap: //b.example/sm.xml", "https://b.example/sm.xml"),
        ("Sitemap: \\sm.xml", "https://h.example:8443/sm.xml"),
        ("Sitemap: /s m.xml?a=caf\u00e9|1", "https://h.example:8443/s%20m.xml?a=caf%C3%A9|1"),
        ("Sitemap: HTTPS:/sm.xml", "https://h.example:8443/sm.xml"),
        ("Sitemap /sm.xml", "https://h.example:8443/sm.xml"),
        ("Sitemap: none", None),
        ("Sitemap: see our site", None),
        ("Sitemap of /this site", None),
        ("Sitemap: ftp://h.example/sm.xml", None),
        ("Sitemap: //", None),
        ("Sitemap: /", "https://h.example:8443/"),
    ],
)
def test_a_sitemap_may_be_named_by_its_path(line: str, uri: str | None) -> None:
    found = sitemaps_of_robots("https://h.example:8443/dir/robots.txt", line.encode())
    assert found == ([] if uri is None else [uri])


def test_a_sitemap_that_is_named_twice_counts_once() -> None:
    body = b"Sitemap: /sm.xml\nSitemap: http://a.example/sm.xml\nSitemap: sm.xml"
    assert sitemaps_of_robots(ROBOTS, body) == ["http://a.example/sm.xml"]


def test_the_sitemaps_of_a_robots_txt_are_bounded() -> None:
    body = b"\n".join(b"Sitemap: http://a.example/%d" % n for n in range(1000))
    assert len(sitemaps_of_robots(ROBOTS, body)) == MAX_ROBOTS_SITEMAPS
    began = time.thread_time()
    for hostile in (b" " * 500_000, b"sitemap" * 70_000, b"sitemap:" + b" " * 500_000, b"\n" * 500_000):
        assert sitemaps_of_robots(ROBOTS, hostile) == []
    assert time.thread_time() - began < 5


@given(st.binary(max_size=500))
def test_no_robots_txt_is_an_error(body: bytes) -> None:
    sitemaps_of_robots(ROBOTS, body)
    sitemaps_of_robots(ROBOTS, b"Sitemap: http" + body)


@pytest.mark.parametrize("entry", NOTHING_NEW.values(), ids=NOTHING_NEW)
def test_entries_that_add_nothing_are_counted_like_others(entry: bytes) -> None:
    """Otherwise 30 kB of gzip cost many seconds."""
    last = b"<url><loc>http://a.example/last</loc></url></urlset>"
    assert "http://a.example/last" in xml(b"<urlset>", entry * (MAX_URIS - 1), last)
    assert "http://a.example/last" not in xml(b"<urlset>", entry * MAX_URIS, last)


def test_locations_within_one_entry_are_counted_too() -> None:
    body = (b"<urlset><url>", b"<loc>http://a.example/same</loc>" * (2 * MAX_URIS), b"</url></urlset>")
    assert len(xml(*body)) <= MAX_URIS


@pytest.mark.parametrize("around", [(b"", b""), (b"<url>", b"</url>")])
def test_a_sitemap_of_endless_other_elements_stops_being_read(
    around: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xml_reader, "MAX_ELEMENTS", 100)
    last = b"<url><loc>http://a.example/last</loc></url></urlset>"
    for count, found in ((90, ["http://a.example/last"]), (100, [])):
        assert xml(b"<urlset>", around[0], b"<a/>" * count, around[1], last) == found


@pytest.mark.parametrize("line", [b"http:[\n", b"http://a.example/same\n", b"HTTPS:\n"])
def test_lines_that_add_nothing_are_counted_like_others(line: bytes) -> None:
    last = b"http://a.example/last\n"

    def found(count: int) -> list[str]:
        return [link.uri for link in links_of_list(BASE, [line * count, last])]

    assert found(MAX_URIS - 1)[-1:] == ["http://a.example/last"]
    assert "http://a.example/last" not in found(MAX_URIS)


def test_lines_that_are_no_uris_do_not_count() -> None:
    body = [b"# nothing\n" * (MAX_URIS + 1), b"\n" * (MAX_URIS + 1), b" \t http://a.example/last\r\n"]
    assert [link.uri for link in links_of_list(BASE, body)] == ["http://a.example/last"]
