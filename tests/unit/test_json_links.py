"""References in JSON-LD."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.extraction.json_links import hop_of_property, json_references


def found(data: object) -> list[tuple[str, str]]:
    text = data if isinstance(data, str) else json.dumps(data)
    return [(hop.value, reference) for reference, hop in json_references(text)]


@pytest.mark.parametrize(
    ("data", "references"),
    [
        ({"@type": "Article", "url": "/a"}, [("L", "/a")]),
        ({"URL": "/a", "mainEntityOfPage": "/b"}, [("L", "/a"), ("L", "/b")]),
        ({"mainEntityOfPage": {"@type": "WebPage", "@id": "/a"}}, [("L", "/a")]),
        (
            {"itemListElement": [{"item": "/a"}, {"item": {"@id": "/b", "name": "/no"}}]},
            [("L", "/a"), ("L", "/b")],
        ),
        ({"image": "/a.png", "thumbnailUrl": "/b.png"}, [("E", "/a.png"), ("E", "/b.png")]),
        ({"image": ["/a.png", {"url": "/b.png"}, "/c.png"]}, [("E", f"/{c}.png") for c in "abc"]),
        (
            {"publisher": {"url": "/a", "logo": {"@type": "ImageObject", "url": "/b"}}},
            [("L", "/a"), ("E", "/b")],
        ),
        ({"@graph": [{"@type": "ImageObject", "url": "/a"}, {"url": "/b"}]}, [("E", "/a"), ("L", "/b")]),
        (
            {"video": {"@type": "VideoObject", "contentUrl": "/a", "embedUrl": "/b"}},
            [("E", "/a"), ("E", "/b")],
        ),
        ({"image": {"caption": {"url": "/a"}}}, [("L", "/a")]),
        ({"@id": "/no", "@context": "https://schema.org", "sameAs": ["/no"], "name": "/no"}, []),
        ({"target": "/no?q={term}", "urlTemplate": "/no", "url": "/no?q={term}"}, []),
        ({"url": "two words.html", "image": "none", "logo": 1, "item": None}, []),
        ({"image": {"@id": "#logo"}}, []),
    ],
)
def test_pages_and_media_are_found(data: object, references: list[tuple[str, str]]) -> None:
    assert found(data) == references
    assert found([data, data]) == references * 2


@pytest.mark.parametrize(
    "text",
    [
        *('{"url": "/a", "name": nonsense, }', '//<![CDATA[\n{"url": "/a"}\n//]]>'),
        *('<!-- {"url": "/a"} -->', '{"name": "two\nlines", "url" : "/a"'),
        *('}}]] "url": "\\/a"', '{"url": "\\u002fa"}'),
    ],
)
def test_what_is_nearly_json_is_read_all_the_same(text: str) -> None:
    assert found(text) == [("L", "/a")]


def test_strings_that_make_no_sense_are_left_out() -> None:
    assert found('{"url": "/\\x", "image": "/\\u12", "url": "/a') == []


def test_depth_is_bounded_and_what_comes_after_it_is_read() -> None:
    for bracket, end in (("[", "]"), ('{"url":', "}")):
        deep = bracket * 100_000 + '{"url": "/no"}' + end * 100_000
        assert found('{"url": [' + deep + ', "/a"]}') == [("L", "/a")]


def test_properties_may_be_marked_up_elsewhere() -> None:
    assert hop_of_property("contentUrl") == "E" and hop_of_property("url") == "L"
    assert hop_of_property("") is None and hop_of_property("name") is None


@pytest.mark.parametrize(
    "again",
    [
        *('"', "\\", '"\\', "[", "{", "]", '{"url":', '{"url":"/x",', '"a":', '"url":"/x"', " "),
        *('"x" ', '"@type":'),
    ],
)
def test_repetition_takes_time_in_proportion(again: str) -> None:
    began = time.thread_time()
    found('{"url":' + again * (100_000 // len(again)))
    assert time.thread_time() - began < 1


@given(
    st.text(max_size=200)
    | st.lists(
        st.sampled_from(['"url":', '"@type":', '"ImageObject"', '"/x"', "{", "}", "[", "]", ",", '"', "\\"])
    ).map("".join)
)
def test_no_text_is_an_error(text: str) -> None:
    assert all(reference for _, reference in found(text))
