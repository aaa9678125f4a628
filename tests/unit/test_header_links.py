"""Links in headers."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.extraction.header_links import header_references, refresh_target
from crawler_node.fetching.fetch import FetchResult


def found(header: str, *values: str | bytes, obey_nofollow: bool = False) -> list[tuple[str, str]]:
    fetch = FetchResult("http://a.example/")
    fetch.headers = [
        (header.encode(), value.encode() if isinstance(value, str) else value) for value in values
    ]
    return [(hop.value, target) for target, hop, _ in header_references(fetch, obey_nofollow)]


@pytest.mark.parametrize(
    ("value", "links"),
    [
        ("<x>; rel=next", [("L", "x")]),
        ("<x>; rel=canonical, <y>;rel=prev", [("L", "x"), ("L", "y")]),
        ('<x> ; REL = "Alternate"; type=text/html', [("L", "x")]),
        ("<x>; rel=preload; as=style, <y>; rel=stylesheet", [("E", "x"), ("E", "y")]),
        ('<x>; title="a, <no>; rel=\\"next\\""; rel="other next"', [("L", "x")]),
        ("<x,y;z>; rel=next", [("L", "x,y;z")]),
        ("<x>; rel=next; rel=stylesheet", [("L", "x")]),
        ("<x>; rel=preconnect, <y>, <z>; rel", []),
        ("<x>; rel=next; anchor='#part'", []),
        ("<x; rel=next, <y>; rel=next", [("L", "y")]),
        ("x; rel=next", []),
        ("<>; rel=next", [("L", "")]),
    ],
)
def test_link_headers_link_by_their_relation(value: str, links: list[tuple[str, str]]) -> None:
    """RFC 8288 section 3."""
    assert found("LINK", value) == links


def test_several_headers_are_one() -> None:
    assert found("link", "<x>; rel=next", "<y>; rel=prev") == [("L", "x"), ("L", "y")]


def test_marked_links_are_left_out_only_if_asked_for() -> None:
    value = '<x>; rel="next nofollow", <y>; rel=prev'
    assert found("link", value) == [("L", "x"), ("L", "y")]
    assert found("link", value, obey_nofollow=True) == [("L", "y")]


def test_a_refresh_is_a_redirect_and_a_content_location_a_link() -> None:
    assert found("Refresh", "5; url=x") == [("R", "x")]
    assert found("Refresh", "5") == found("Refresh", "soon") == []
    assert found("Content-Location", "x.en.html") == [("L", "x.en.html")]
    assert found("Location", "x") == found("X-Link", "<x>; rel=next") == []


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("é".encode(), "é"),
        (b"\xe9", "%E9"),
        ("à/\x85?q=à".encode(), "à/\x85?q=à"),
        (b"/caf\xe9?q=\xa0x#\xff", "/caf%E9?q=%A0x#%FF"),
        (b"/\xc3\xa9/\xe9", "/%C3%A9/%E9"),
        (b"/%C3%A9\xe9", "/%C3%A9%E9"),
    ],
)
def test_bytes_in_headers_that_are_not_utf_8_are_escaped_as_they_came(value: bytes, target: str) -> None:
    """They were once read as Latin-1 and written as UTF-8, which is another name than the server's."""
    assert found("Content-Location", value) == [("L", target)]
    assert found("Link", b"<" + value + b">; rel=next") == [("L", target)]
    assert found("Link", b'</\xff>; rel=next; title="\xe9", <' + value + b">; rel=next")[1] == ("L", target)
    assert found("Refresh", b"0; url=" + value) == found("Refresh", b"0; '" + value) == [("R", target)]


def test_each_link_of_a_header_has_a_charset_of_its_own() -> None:
    value = b"<\xe9>; rel=next, <" + "é".encode() + b">; rel=prev"
    assert found("Link", value) == [("L", "%E9"), ("L", "é")]


@pytest.mark.parametrize(
    "again",
    [
        *("<", "<a>", "<a>;", '<a>;"', '"', "\\", '<a>"\\', ";a", "<a>;rel=next,", "<a>; ", ",", " "),
        *("url=", "'", "0"),
    ],
)
def test_repetition_takes_time_in_proportion(again: str) -> None:
    began = time.thread_time()
    for start in ("", "<a>;", "0;"):
        value = start + again * (100_000 // len(again))
        found("link", value)
        refresh_target(value)
    assert time.thread_time() - began < 5


@given(
    st.sampled_from(["link", "refresh", "content-location"]),
    st.binary(max_size=100)
    | st.lists(st.sampled_from([b"<", b">", b";", b"rel=", b'"', b"\\", b"next", b",", b"0", b"url="])).map(
        b"".join
    ),
)
def test_no_header_is_an_error(header: str, value: bytes) -> None:
    found(header, value)
