"""URL patterns on the command line of `toehold crawl`, as the frontier's own engine matches them."""

import pytest
import re2

from frontier_server.core.uri.canonical import canonical
from frontier_server.core.uri.pattern_slips import slip
from toehold_cli.embedded.url_patterns import expression
from toehold_cli.exits import BadPlan


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        (
            "/docs/",
            ["https://a.example/docs/", "http://b.example:8080/docs/x?y=/z"],
            ["https://a.example/", "https://a.example/old/docs/", "https://docs.example/x", "https://a.example/docs"],
        ),
        ("/", ["https://a.example/", "https://a.example/x"], []),
        (
            "https://A.example/docs/",
            ["https://a.example/docs/", "https://a.example/docs/x"],
            ["http://a.example/docs/", "https://b.example/docs/", "https://aXexample/docs/"],
        ),
        (
            "*.pdf",
            ["https://a.example/x.pdf", "http://a.example/.pdf"],
            ["https://a.example/x.pdf?y", "https://a.example/xpdf"],
        ),
        ("*?sort=*", ["https://a.example/?sort=x", "https://a.example/a?sort="], ["https://a.example/sort"]),
        ("/a/*/c", ["https://a.example/a/b/c", "https://a.example/a/b/x/cd"], ["https://a.example/a/c"]),
        ("/page?/", ["https://a.example/page1/", "https://a.example/page2/x"], ["https://a.example/page12/"]),
        ("/straße/", ["https://a.example/stra%C3%9Fe/x"], ["https://a.example/strasse/"]),
        ("/100%25+(x)[y]{z}^$|/", ["https://a.example/100%25+(x)[y]{z}^$|/"], ["https://a.example/100%25/"]),
        ("*calendar*", ["https://calendar.example/", "https://a.example/x/calendar/y"], ["https://a.example/"]),
    ],
)  # fmt: skip
def test_a_pattern_is_the_beginning_of_a_path_or_url_or_a_glob(
    pattern: str, matched: list[str], others: list[str]
) -> None:
    engine = re2.compile(expression(pattern))
    assert [url for url in matched + others if engine.fullmatch(url)] == matched


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("http://bücher.example/alt/*", "http://bücher.example/alt/x"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/alt/x"),
        ("http://*.bücher.example/", "http://www.bücher.example/"),
        ("*.bücher.example/*", "http://www.bücher.example/x"),
        ("*://bücher.example/*", "https://bücher.example/x"),
        ("*/bücher/*", "https://a.example/bücher/x"),
        ("*bücher*", "https://a.example/b%c3%bccher/x"),
        ("*.EXAMPLE.org/docs/*", "https://a.example.org/docs/x"),
        ("HTTP://A.Example:80/x", "http://a.example/x"),
        ("https://a.example:443/", "https://a.example/"),
        ("https://a.example:8443/", "https://a.example:8443/"),
        ("https://a.example./x", "https://a.example/x"),
        ("https://user@a.example/", "https://a.example/"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("http://[0:0::1]/", "http://[::1]/"),
        ("/%7Ejoe/", "http://a.example/~joe/x"),
        ("/%7ejoe/", "http://a.example/%7Ejoe/x"),
        ("/~joe/", "http://a.example/%7ejoe/x"),
        ("/%61/", "http://a.example/a/"),
        ("/a b/", "http://a.example/a b/"),
        ("/a b/", "http://a.example/a%20b/"),
        ("*[0]*", "http://a.example/?f%5B0%5D=red"),
        ("*%5B0%5D*", "http://a.example/?f[0]=red"),
        ('/"a"/', 'http://a.example/"a"/'),
        ("/it's/", "http://a.example/it%27s/"),
        ("*?q=it's", "http://a.example/?q=it's"),
        ("*{id}|`*", "http://a.example/{id}|`"),
        ("*{id}|`*", "http://a.example/?{id}|`"),
        ("/日本/", "http://a.example/日本/"),
        ("/caf%C3%A9/", "http://a.example/café/"),
        ("/caf%c3%a9/", "http://a.example/caf%C3%A9/"),
        ("/a%2Fb/", "http://a.example/a%2fb/"),
        ("/a%2Ab/", "http://a.example/a*b/"),
        ("/a^b/", "http://a.example/a^b/"),
    ],
)
def test_a_pattern_matches_the_canonical_form_of_what_people_write(pattern: str, url: str) -> None:
    assert re2.compile(expression(pattern)).fullmatch(canonical(url).uri)
    assert not slip(expression(pattern)), "the frontier refuses none"


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("/a%2Fb/", "http://a.example/a/b/"),
        ("/a%2Ab/", "http://a.example/axb/"),
        ("*.PDF", "http://a.example/x.pdf"),
        ("*.EXAMPLE.org/*", "http://a.test/x.example.org/"),
        ("https://a.example:80/", "https://a.example/"),
        ("*a+b*", "http://a.example/?q=a%2Bb"),
    ],
)
def test_a_pattern_does_not_match_another_url(pattern: str, url: str) -> None:
    assert not re2.compile(expression(pattern)).fullmatch(canonical(url).uri)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("http://a.example/x#part", r"must have no fragment"),
        ("/x#part", r"must have no fragment"),
        ("http://bü*.example/", r"must have wildcards beside whole names of a host, but 'bü\*' mixes them"),
        ("http://a b/", r"must have a valid host, got 'a b'"),
    ],
)
def test_a_pattern_that_no_canonical_url_matches_is_named(pattern: str, told: str) -> None:
    with pytest.raises(BadPlan, match=told):
        expression(pattern)


@pytest.mark.parametrize("pattern", ["docs", "", "  ", "example.org/docs/"])
def test_any_other_text_would_match_nothing_and_is_refused(pattern: str) -> None:
    with pytest.raises(BadPlan, match="must be the beginning of a path"):
        expression(pattern)


def test_the_refusal_says_what_would_match() -> None:
    with pytest.raises(BadPlan, match=r"did you mean /docs/ or \*docs\*\?"):
        expression("docs")
