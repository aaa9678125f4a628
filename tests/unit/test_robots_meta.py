"""What pages tell robots about their links."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.extraction.robots_meta import header_forbids, meta_forbids


@pytest.mark.sampled(
    "content", ["nofollow", "NOFOLLOW", "none", "index, nofollow", "noindex,nofollow", " none "]
)
@pytest.mark.sampled("name", ["robots", "Robots", "toehold", "TOEHOLD", " robots "])
def test_a_meta_for_all_or_for_us_forbids(name: str, content: str) -> None:
    assert meta_forbids(name, content, "Toehold")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("robots", ""), ("robots", "noindex"), ("robots", "follow"), ("robots", "nofollowing")),
        *(("otherbot", "nofollow"), ("", "nofollow"), ("toehold2", "none"), ("description", "none")),
    ],
)
def test_other_metas_do_not(name: str, content: str) -> None:
    assert not meta_forbids(name, content, "toehold")


@pytest.mark.parametrize(
    "values",
    [
        ["nofollow"],
        ["noindex, NoFollow"],
        ["none"],
        ["toehold: nofollow"],
        ["Toehold:none"],
        ["otherbot: noindex, toehold: noindex, nofollow"],
        ["*: nofollow"],
        ["noindex", "nofollow"],
        ["otherbot: nofollow", "none"],
        ["unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow"],
        ["max-snippet: 20, nofollow"],
    ],
)
def test_a_header_for_all_or_for_us_forbids(values: list[str]) -> None:
    assert header_forbids(values, "toehold")


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        ["noindex"],
        ["otherbot: nofollow"],
        ["otherbot: noindex, nofollow"],
        ["toehold: noindex, otherbot: nofollow"],
        ["unavailable_after: nofollow"],
        [":nofollow"],
    ],
)
def test_other_headers_do_not(values: list[str]) -> None:
    assert not header_forbids(values, "toehold")


def test_only_so_much_of_a_rule_is_read() -> None:
    began = time.thread_time()
    for text in ("," * 1_000_000, ":" * 1_000_000, "a:," * 300_000, " " * 1_000_000):
        assert not header_forbids([text], "toehold") and not meta_forbids("robots", text, "toehold")
    assert time.thread_time() - began < 5


@given(st.lists(st.text()), st.text())
def test_no_rule_is_an_error(values: list[str], product_token: str) -> None:
    header_forbids(values, product_token)
    for value in values:
        meta_forbids(value, value, product_token)
