"""The title and the text of HTML pages."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.extraction.page_text import MAX_TEXT_CHARS, MAX_TITLE_CHARS, PageText, page_text


def text(body: str) -> str:
    return page_text(body.encode(), "utf-8").text


def title(body: str) -> str:
    return page_text(body.encode(), "utf-8").title


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("plain", "plain"),
        ("a <b>bold</b>\n\n\t word&nbsp;&amp; more", "a bold word & more"),
        ("<p>one<p>two<br>three<div><div>four</div></div>five", "one\ntwo\nthree\nfour\nfive"),
        ("<h1>Head</h1><ul><li>a<li>b</ul>", "Head\na\nb"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</table>", "a b\nc"),
        ("in<i>ter</i>national", "international"),
        ("a<!-- no -->b<?no?>c", "abc"),
        ("<textarea><b></textarea>", "<b>"),
    ],
)
def test_a_block_is_a_line_and_blanks_are_one(body: str, expected: str) -> None:
    assert text(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a<pre>x\n  y</pre>z", "a\nx\n  y\nz"),
        ("<pre>\n  first\n\n\tlast  \n\n</pre>", "  first\n\n\tlast"),
        ("<pre>a\r\nb\rc</pre>", "a\nb\nc"),
        ("<pre>a   b&nbsp;&nbsp;c</pre>d   e", "a   b  c\nd e"),
        ("<pre><code><span>if</span> x:\n    <b>y</b>\n</code></pre>", "if x:\n    y"),
        ("<pre>a<br>b<br/><br>c</pre>", "a\nb\n\nc"),
        ("<pre><div>a</div><div>  b</div>\nc</pre>", "a\n  b\n\nc"),
        ("<pre>a<p>b</pre>", "a\nb"),
        ("<pre>a<script>no\nno</script>\n<svg><text>no</text></svg>b</pre>", "a\nb"),
        ("<pre>a\n<pre>b\n c</pre>d\n e</pre>\nf\ng", "a\nb\n cd\n e\nf g"),
        ("<p>a\nb</p></pre>c\nd<pre>e\nf", "a b\nc d\ne\nf"),
        ("<pre></pre><pre> \n </pre>a", "a"),
        ("<PRE CLASS=x>a\nb</PRE>", "a\nb"),
        ("<table><tr><td>1<td><pre>a\nb</pre></table>", "1\na\nb"),
        ("<textarea>a\n b</textarea>", "a\n b"),
        ("<listing>a\n b</listing>c\nd", "a\n b\nc d"),
        ("<xmp>a\n <b>\n</xmp>c\nd", "a\n <b>\nc d"),
        ("x\ny<plaintext>a\n b", "x y\na\n b"),
        ("<?xml version='1.0'?><html><pre/>a\nb<pre>c\n d</pre></html>", "a b\nc\n d"),
    ],
)
def test_preformatted_text_keeps_its_lines(body: str, expected: str) -> None:
    """HTML's rendering: `white-space: pre`. Indentation has a meaning in programs."""
    assert text(body) == expected


def test_a_title_and_what_is_not_shown_are_none_of_the_lines() -> None:
    page = page_text(b"<title>a\n b</title><template><pre>no\nno</pre></template><pre>c\n d</pre>", None)
    assert page == PageText("a b", "c\n d")


@pytest.mark.parametrize(
    "unseen",
    [
        "<script>no</script>",
        "<style>no</style>",
        "<noscript>no<p>no</noscript>",
        "<iframe>no</iframe>",
        "<noframes>no</noframes>",
        "<template>no<template>no</template>no</template>",
        "<svg><title>no</title><text>no</text><svg>no</svg>no</svg>",
        "<svg><title/><style/><script href='no'/></svg>",
        "<math><mi>no</mi></math>",
        "<template><script>no</script>no</template>",
        "<img alt=no title=no>",
        "<title>no</title>",
        "</svg></template>",
    ],
)
def test_what_is_not_shown_is_not_text(unseen: str) -> None:
    assert "no" not in text(f"a {unseen} b").split() and text(f"a{unseen}b").replace("\n", "") == "ab"


def test_an_element_that_is_never_closed_hides_what_follows() -> None:
    assert text("a<template>b<p>c") == text("a<script>b<p>c") == "a"
    assert text("a<svg/>b") == "ab"


def test_an_element_that_closes_itself_hides_nothing_in_xml() -> None:
    page = "<?xml version='1.0'?><html><script src='x'/><title>t</title><style/><p>a</p></html>"
    assert page_text(page.encode(), None) == PageText("t", "a")


def test_the_title_is_the_first_one_and_none_of_a_picture() -> None:
    page = "<svg><title>picture</title></svg><title> The\n <b>  &amp; title </title><title>second</title>"
    assert title(page) == "The <b> & title"
    assert title("<p>none") == "" and title("<title> </title><title>second</title>") == "second"


def test_title_and_text_are_bounded() -> None:
    page = page_text(b"<title>" + b"x" * 5000 + b"</title>" + b"y" * (MAX_TEXT_CHARS + 5000), None)
    assert (len(page.title), len(page.text)) == (MAX_TITLE_CHARS, MAX_TEXT_CHARS)


def test_the_charset_is_what_the_header_the_mark_or_the_page_says() -> None:
    page = "<meta charset=koi8-r><title>да</title><p>нет"
    expected = PageText("да", "нет")
    assert page_text(page.encode("koi8-r"), None) == expected
    assert page_text(page.encode("cp1251"), "windows-1251") == expected
    assert page_text(b"\xef\xbb\xbf" + page.encode(), "windows-1251") == expected


@pytest.mark.parametrize(
    "pattern",
    [
        *("<div>", "<title>", "<svg>", "</svg>", "<template>", "<!--", "&", "\n", "<noscript>", "<p>x "),
        *("<pre>", "<pre>\n</pre>", "<pre>\n ", "<pre><br>"),
    ],
)
def test_repetition_takes_time_in_proportion(pattern: str) -> None:
    body = (pattern * (1_000_000 // len(pattern))).encode()
    began = time.thread_time()
    page_text(body, "utf-8")
    assert time.thread_time() - began < 2


def joined(parts: list[str]) -> bytes:
    return "".join(parts).encode()


PARTS = ["<title>", "</title>", "<p>", "<svg>", "</svg>", "<script>", "</script>", "x", " ", "&#xd800;", "\0"]


@given(
    body=st.binary(max_size=500) | st.lists(st.sampled_from(PARTS)).map(joined),
    charset=st.none() | st.sampled_from(["utf-8", "utf-16", "gbk", "iso-2022-jp"]) | st.text(max_size=20),
)
def test_no_page_is_an_error(body: bytes, charset: str | None) -> None:
    page = page_text(b"<pre>" + body, charset)
    assert page.text == page.text.strip("\n")
    assert all(line == line.rstrip() for line in page.text.split("\n"))
    page = page_text(body, charset)
    assert all(line == " ".join(line.split()) != "" for line in page.text.splitlines())
    json.dumps([page.title, page.text]).encode("utf-8")
    (page.title + page.text).encode("utf-8")  # no half characters
