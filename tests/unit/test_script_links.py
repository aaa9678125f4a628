"""Strings in scripts that look like URIs."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.extraction.script_links import MAX_CHARS, script_references


def found(script: str, inline: bool = True) -> list[str]:
    return list(script_references(script, inline))


@pytest.mark.parametrize(
    "uri",
    [
        *("http://b.example", "https://b.example/a/b?c=d&e=[f]#g", "//b.example/x.js", "/api/v1/items"),
        *("/a-b_c/d.html?x=1", "./module.js", "../up/one", "/login", "//localhost.test:8080/"),
    ],
)
def test_likely_uris_are_found(uri: str) -> None:
    for quote in "\"'`":
        assert found(f"go({quote}{uri}{quote});") == found(f"{quote}{uri}{quote}", inline=False) == [uri]


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "//", "x", "/a", ".", "..", "./", "http://", "https://b", "use strict", "a.b"),
        *("1.5", "/^x$/"),
        *("text/html", "MM/DD/YYYY", "a/b", "/users/:id", "/user/{id}", "/t/${x}", "/a b", "</div>", "/x|/y"),
        *("application/rss+xml", "jquery.fn", ".html", "file name.html", "// comment", "http://b example/"),
        "/" + "x" * MAX_CHARS,
    ],
)
def test_other_strings_are_not(text: str) -> None:
    assert found(f'a = "{text}";') == []


def test_file_names_count_only_where_it_is_clear_what_they_are_relative_to() -> None:
    script = "a = 'page.html'; b = 'data/x.json?y=1'; c = 'app.css'"
    assert found(script) == ["page.html", "data/x.json?y=1"]
    assert found(script, inline=False) == []


def test_parts_of_what_is_put_together_do_not_count() -> None:
    assert found("a = '/user/' + name + '/page.html'; b = '/a/b'+\n'/c/d'; e = ['/in/list', '/list/2']") == [
        "/in/list",
        "/list/2",
    ]


def test_comments_and_escapes_are_understood() -> None:
    script = """// don't '/no/1'
    /* '/no/2' */ a = 'http:\\/\\/b.example\\/x\\u003fy\\x26z'; b = '\\n/no'; c = 'it\\'s /no'; /* '/no/3'"""
    assert found(script) == ["http://b.example/x?y&z"]


@pytest.mark.parametrize(
    "again",
    [
        *('"', "'", "`", "\\", '"\\', "//", "/*", "/", '"/aa', '"/aa"', '"\n', "+ ", '"x"+'),
        *(" ", '"http://a.b/'),
        *(
            '"' + unit * (MAX_CHARS // len(unit)) + '"'
            for unit in ("/a", "a.", "../", "a/", "?", ":", "/a.html")
        ),
    ],
)
def test_repetition_takes_time_in_proportion(again: str) -> None:
    script = "a = " + again * (100_000 // len(again))
    began = time.thread_time()
    found(script)
    assert time.thread_time() - began < 1


@given(
    st.text(max_size=200)
    | st.lists(
        st.sampled_from(['"', "'", "`", "\\", "/*", "*/", "//", "/", "x", ".", "http:", "+", "?", "\n"])
    ).map("".join),
    st.booleans(),
)
def test_no_script_is_an_error(script: str, inline: bool) -> None:
    assert all(3 <= len(uri) <= MAX_CHARS for uri in found(script, inline))
