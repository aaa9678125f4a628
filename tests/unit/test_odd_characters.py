"""URIs with characters that people do not escape, in the places that leave nothing to guess."""

import html
import json
from collections.abc import Callable

import pytest
from node_doubles.extracting import fetch, find, pairs

from crawler_node.extraction.sitemap import sitemaps_of_robots
from crawler_node.fetching.fetch import FetchResult

# As browsers write them: WHATWG URL, the percent-encode sets of paths and of queries.
PATHS = {
    "Murphy's_law": "Murphy's_law",
    "two words": "two%20words",
    'say "no"': "say%20%22no%22",
    "a|b": "a|b",
    "a^b": "a%5Eb",
    "a`b": "a%60b",
    "a{1}": "a%7B1%7D",
    "a{": "a%7B",
    "{F0E1-22}": "%7BF0E1-22%7D",
    "a[1]": "a[1]",
    "a\\b": "a/b",
    "caf\u00e9": "caf%C3%A9",
    "\u65e5\u672c": "%E6%97%A5%E6%9C%AC",
    "\U0001f600": "%F0%9F%98%80",
    "50%": "50%",
    "a%zz": "a%zz",
    "a%20b c": "a%20b%20c",
    "a(1),b;c=!$*@:~": "a(1),b;c=!$*@:~",
    "a\u00a0b": "a%C2%A0b",
    "a\u200bb": "a%E2%80%8Bb",
    "a&b": "a&b",
    "?q=Murphy's law": "?q=Murphy%27s%20law",
    '?q="a"': "?q=%22a%22",
    "?q=a|b^c`d{1}[f]\\g": "?q=a|b^c`d{1}[f]\\g",
    "?q=caf\u00e9": "?q=caf%C3%A9",
    "?q=http://b.example/": "?q=http://b.example/",
}
NAMES = {"a{b}": "a%7Bb%7D", "?q={b_1}": "?q={b_1}"}
"""In braces, as in templates."""
TAGS = {"a<b>c": "a%3Cb%3Ec", "?q=a<b>c": "?q=a%3Cb%3Ec"}


def xml(document: str) -> Callable[[str], FetchResult]:
    return lambda uri: fetch(document.replace("{}", html.escape(uri)), "text/xml")


def rss(inner: str) -> Callable[[str], FetchResult]:
    return xml(f"<rss><channel>{inner}</channel></rss>")


def atom(inner: str) -> Callable[[str], FetchResult]:
    return xml(f"<feed xmlns='http://www.w3.org/2005/Atom'>{inner}</feed>")


def page(document: str) -> Callable[[str], FetchResult]:
    return lambda uri: fetch(document.replace("{}", html.escape(uri)))


def json_ld(name: str) -> Callable[[str], FetchResult]:
    return lambda uri: fetch(json.dumps({name: uri}), "application/ld+json")


PLACES: dict[str, Callable[[str], FetchResult]] = {
    "rss link": rss("<item><link>{}</link></item>"),
    "rss guid": rss("<item><guid>{}</guid></item>"),
    "rss permalink": rss("<item><guid isPermaLink='true'>{}</guid></item>"),
    "rss comments": rss("<item><comments>{}</comments></item>"),
    "rss enclosure": rss("<item><enclosure url='{}'/></item>"),
    "rss image": rss("<image><url>{}</url></image>"),
    "rss link after a break": rss("&<item><link>{}</link></item>"),
    "rdf link": xml(
        "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'>"
        "<item><link>{}</link></item></r:RDF>"
    ),
    "atom link": atom("<entry><link href='{}'/></entry>"),
    "atom logo": atom("<logo>{}</logo>"),
    "atom content": atom("<entry><content src='{}'/></entry>"),
    "sitemap": xml("<urlset><url><loc>{}</loc></url></urlset>"),
    "sitemap index": xml("<sitemapindex><sitemap><loc>{}</loc></sitemap></sitemapindex>"),
    "style of xml": xml("<?xml-stylesheet href='{}'?><a/>"),
    "a": page("<a href='{}'>x</a>"),
    "img": page("<img src='{}'>"),
    "refresh": page("<meta http-equiv=refresh content='0; url={}'>"),
    "og:image": page("<meta property=og:image content='{}'>"),
    "og:url": page("<meta property=og:url content='{}'>"),
    "itemprop": page("<meta itemprop=contentUrl content='{}'>"),
    "data-src": page("<img data-src='{}'>"),
    "param": page("<param name=movie value='{}'>"),
    "json-ld url": json_ld("url"),
    "json-ld image": json_ld("image"),
    "content-location": lambda uri: fetch("", content_location=uri),
    "refresh header": lambda uri: fetch("", refresh=f"0; url={uri}"),
}


def links_of(place: str, written: str) -> list[str]:
    return [link.uri for link in find(PLACES[place](written)).links]


@pytest.mark.parametrize("place", PLACES)
def test_characters_that_people_do_not_escape_are_written_as_browsers_write_them(place: str) -> None:
    for start, host in (
        ("http://h.example/wiki/", "http://h.example"),
        ("https://h.example/wiki/", "https://h.example"),
        ("/wiki/", "http://a.example"),
        ("//h.example/wiki/", "http://h.example"),
    ):
        wanted = {written: [f"{host}/wiki/{rest}"] for written, rest in {**PATHS, **TAGS}.items()}
        assert {written: links_of(place, start + written) for written in wanted} == wanted


GUESSED = frozenset(
    {
        *("rss guid", "rss permalink", "og:image", "og:url", "itemprop", "data-src", "param"),
        *("json-ld url", "json-ld image"),
    }
)
"""Where any text may stand."""


@pytest.mark.parametrize("place", PLACES)
def test_names_in_braces_are_templates_where_any_text_may_stand(place: str) -> None:
    for written, rest in NAMES.items():
        expected = [] if place in GUESSED else [f"http://h.example/{rest}"]
        assert links_of(place, f"http://h.example/{written}") == expected


def test_characters_that_people_do_not_escape_in_links_of_headers_and_robots_txt() -> None:
    for written, rest in PATHS.items():
        uri, expected = f"http://h.example/wiki/{written}", f"http://h.example/wiki/{rest}"
        assert [link.uri for link in find(fetch("", link=f"<{uri}>; rel=next")).links] == [expected]
        assert sitemaps_of_robots("http://h.example/robots.txt", f"Sitemap: {uri}".encode()) == [expected]


@pytest.mark.parametrize(
    "place", ["rss link", "rss comments", "rss enclosure", "atom link", "atom logo", "sitemap", "a", "img"]
)
def test_relative_references_may_have_such_characters_where_only_a_uri_may_stand(place: str) -> None:
    found = find(PLACES[place]("Murphy's law/two words"))
    assert [uri for _, uri in pairs(found)] == ["Murphy's%20law/two%20words"]


@pytest.mark.parametrize("place", sorted(GUESSED))
def test_a_phrase_or_a_template_is_no_reference_where_any_text_may_stand(place: str) -> None:
    for text in ("two words / three", "{{ image }}/", "/{{ image }}", "'a/b'", "a | b/c", "a b.jpg"):
        assert links_of(place, text) == []
