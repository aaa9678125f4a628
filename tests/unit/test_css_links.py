"""References in style sheets."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.extraction.css_links import css_references, declared_charset


@pytest.mark.parametrize(
    ("css", "references"),
    [
        ("a { b: url(x) }", ["x"]),
        ("a { b: URL( x ) url( 'y' ) url(\"z\") }", ["x", "y", "z"]),
        ("a { b: url() url('') url( ) }", []),
        (
            "@import 'a'; @import \"b\" screen; @import url(c); @IMPORT url('d') layer(x);",
            ["a", "b", "c", "d"],
        ),
        ("@import/**/'a';@import /* url(no) */ 'b';", ["a", "b"]),
        ("@font-face { src: url(a.woff2) format('woff2'), local('no'), src('b') }", ["a.woff2", "b"]),
        (
            "a { b: image-set('a' 1x, \"b\" type('image/png') 2x, url(c) 3x, 'd') } e { f: 'no' }",
            ["a", "b", "c", "d"],
        ),
        ("a { b: -webkit-image-set(url('a') 1x, url(b) 2x), 'no' }", ["a", "b"]),
        ("a { b: image-set('a'; c: 'no' }", ["a"]),
        ("a { content: 'url(no)'; b: \"@import 'no'\" }", []),
        ("/* url(no) */ a { b: url(x) /* 'no */ } /* url(no)", ["x"]),
        ("@namespace svg url(http://no.example/); a { b: url(x) }", ["x"]),
        ("@charset 'no'; @media print { a { b: url(x) } }", ["x"]),
        ("a { b: url(x/*y*/z) }", ["x/*y*/z"]),
        ("a { b: url(\u3000x\u00a0y ) }", ["\u3000x\u00a0y"]),
        ("a { b: 'c\r d: url(x); e: \"\f f: url(y) }", ["x", "y"]),
        ("color: red", []),
    ],
)
def test_what_a_style_sheet_refers_to(css: str, references: list[str]) -> None:
    assert list(css_references(css)) == references


@pytest.mark.parametrize(
    ("css", "reference"),
    [
        (r"url(a\)b)", "a)b"),
        (r"url('a\'b')", "a'b"),
        (r"url(\66 oo)", "foo"),
        (r"url(\000066oo)", "foo"),
        ("url('a\\\nb\\\r\nc\\\rd')", "abcd"),
        (r"url(\110000 x\0y)", "\ufffdx\ufffdy"),
        (r"url(\d800 x)", "\ufffdx"),
    ],
)
def test_escapes_are_undone(css: str, reference: str) -> None:
    assert list(css_references(css)) == [reference]


@pytest.mark.parametrize(
    ("css", "references"),
    [
        ("a { b: url(x", ["x"]),
        ("a { b: url('x", ["x"]),
        ("a { b: 'no\n url(x) }", ["x"]),
        ("a { b: url('x\n); c: url(y) }", ["x", "y"]),
        ("a { b: url(x'y) } c { d: url(z) }", ["x"]),
    ],
)
def test_what_is_never_closed_ends_as_it_must(css: str, references: list[str]) -> None:
    assert list(css_references(css))[: len(references)] == references


def test_what_is_too_long_to_be_a_uri_is_left_out() -> None:
    assert list(css_references(f"url(data:{'x' * 100_000}) url('{'x' * 100_000}') url(y)")) == ["y"]


def test_a_style_sheet_may_declare_its_charset() -> None:
    assert declared_charset(b'@charset "koi8-r"; a {}') == "koi8-r"
    for other in (
        b" @charset 'x';",
        b"@charset 'x';",
        b'@charset "x"',
        b'@CHARSET "x";',
        b'@charset "";',
        b"",
    ):
        assert declared_charset(other) is None


@pytest.mark.sampled("start", ["x(", "image-set(", "@import "])
@pytest.mark.sampled(
    "again",
    [
        *("/*", "/* ", "/**", "*", "\\", "'", '"', "\n'", "'\\", "(", ")", "calc(", "{", "a{}", "@", " "),
        *("url(", "url(x)", "url('", "url(\\", "url( ", "url(/*", "url(x", "src("),
        *("image-set(", "image-set('"),
        *("@import ", "@import/*", "@import/**/", "@import '", "@namespace ", "@namespace;"),
    ],
)
def test_repetition_takes_time_in_proportion(start: str, again: str) -> None:
    css = start + again * (100_000 // len(again))
    began = time.thread_time()
    for _ in css_references(css):
        pass
    assert time.thread_time() - began < 1


PARTS = ["url(", "'", '"', ")", "\\", "/*", "*/", "@import ", "image-set(", "x", "\n", ";"]


@given(st.text(max_size=200) | st.lists(st.sampled_from(PARTS)).map("".join))
def test_no_style_is_an_error(css: str) -> None:
    assert all(reference for reference in css_references(css))
