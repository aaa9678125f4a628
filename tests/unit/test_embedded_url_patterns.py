"""URL patterns on the command line of `toehold crawl`, as the frontier's own engine matches them."""

import pytest
import re2

from toehold_client.cli.embedded.url_patterns import expression
from toehold_client.cli.exits import BadPlan


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


@pytest.mark.parametrize("pattern", ["docs", "", "  ", "example.org/docs/"])
def test_any_other_text_would_match_nothing_and_is_refused(pattern: str) -> None:
    with pytest.raises(BadPlan, match="must be the beginning of a path"):
        expression(pattern)


def test_the_refusal_says_what_would_match() -> None:
    with pytest.raises(BadPlan, match=r"did you mean /docs/ or \*docs\*\?"):
        expression("docs")
