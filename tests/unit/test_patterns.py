"""RE2 behind its seam."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.uri import patterns
from frontier_server.core.uri.patterns import (
    MAX_PATTERN_CHARACTERS,
    MAX_REPLACED,
    BadPattern,
    BadReplacement,
    PatternList,
    compile_pattern,
    compile_rewrite,
    compile_rewrites,
    full_match,
)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("abc", "abc", True),
        ("abc", "abcd", False),
        ("abc", "xabc", False),
        ("a|abc", "abc", True),
        ("(?i)ABC", "abc", True),
        (r"https?://([a-z]+\.)*example\.com/.*", "https://www.example.com/a?b", True),
        (r"https?://([a-z]+\.)*example\.com/.*", "https://www.example.org/a?b", False),
        ("[^/]+//.*", "http://é", True),
    ],
)
def test_a_pattern_matches_a_text_as_a_whole(pattern: str, text: str, matches: bool) -> None:
    assert full_match(compile_pattern(pattern), text) is matches
    assert full_match(compile_pattern(pattern, captures=True), text) is matches


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a(?=b)", "invalid perl operator at character 2: (?="),
        ("(?!x)", "invalid perl operator at character 1: (?!"),
        ("ab(?<!x)", "invalid perl operator at character 3: (?<!"),
        (r"(a)\1", r"invalid escape sequence at character 4: \1"),
        ("(a{100}){100}", "invalid repetition size at character 3: {100}"),
        ("(?>a)", "invalid perl operator at character 1: (?>"),
        ("ba++", "bad repetition operator at character 3: ++"),
        ("*a", "no argument for repetition operator at character 1: *"),
        ("b[z-a]", "invalid character class range at character 3: z-a"),
        ("a{1001}", "invalid repetition size at character 2: {1001}"),
        ("x[ab", "missing ] at character 2: [ab"),
        ("a(b", "missing ) at the end, after 3 characters"),
        (r"[)](a\))b)c", "unexpected ) at character 10: )"),
        ("(a)b)c", "unexpected ) at character 5: )"),
        ("a\\", "trailing \\"),
        ("\ud800", "half a surrogate pair, which is not a character"),
        ("", "it is empty"),
    ],
)
def test_what_re2_does_not_take_is_refused_with_its_place(pattern: str, problem: str) -> None:
    with pytest.raises(BadPattern) as refused:
        compile_pattern(pattern)
    assert str(refused.value) == problem


@pytest.mark.parametrize("harmless", [r"\(?=", "[(?=]", r"\\[(?=]\(?="])
def test_the_place_is_not_where_the_same_characters_are_harmless(harmless: str) -> None:
    with pytest.raises(BadPattern) as refused:
        compile_pattern(f"{harmless}(?=x)")
    assert str(refused.value) == f"invalid perl operator at character {len(harmless) + 1}: (?="


def test_a_place_that_is_hard_to_find_is_left_out_and_the_reason_is_not() -> None:
    with pytest.raises(BadPattern) as refused:
        compile_pattern("[(?=]" * 500 + "(?=x)")
    assert str(refused.value) == "invalid perl operator: (?="


def test_a_pattern_is_bounded_by_its_text_and_by_what_it_grows_into() -> None:
    assert full_match(compile_pattern("a" * MAX_PATTERN_CHARACTERS), "a" * MAX_PATTERN_CHARACTERS)
    with pytest.raises(BadPattern, match=f"at most {MAX_PATTERN_CHARACTERS}"):
        compile_pattern("a" * (MAX_PATTERN_CHARACTERS + 1))
    with pytest.raises(BadPattern, match="pattern too large"):
        compile_pattern(r"(\pL{500}\pL{500})" * 20)


def test_a_list_of_hosts_as_long_as_a_pattern_may_be_is_taken() -> None:
    hosts = "|".join(rf"h{number:05}\.example" for number in range(1_000))
    listed = hosts[: MAX_PATTERN_CHARACTERS - 50].rpartition("|")[0]
    assert full_match(compile_pattern(f"(?i)https?://([^/]*\\.)?({listed})/.*"), "http://H00017.example/a")


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*)*b", "(a?){200}a{200}b"])
def test_a_match_has_an_end_whatever_the_pattern(pattern: str) -> None:
    """A backtracking matcher takes longer than the universe for these."""
    assert not full_match(compile_pattern(pattern), "a" * 8_000)


def test_re2_keeps_what_it_thinks_of_a_pattern_to_itself(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadPattern):
        compile_pattern("(?=x)")
    assert capfd.readouterr() == ("", "")


# Lists.

simple = st.sampled_from(
    ["a", "b", "(?i)A", "a|b", "ab?", ".*b", "[^a]+", "(?P<n>a+)", r"\Qa", "a{2,3}$", "^", "()"]
)


@given(st.lists(simple, max_size=8), st.text("abA", max_size=4), st.integers(1, 5))
def test_the_first_of_a_list_is_found_as_by_asking_each(texts: list[str], text: str, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns, "PATTERNS_AT_ONCE", at_once)
        listed = PatternList(texts)
    matching = [place for place, one in enumerate(texts) if full_match(compile_pattern(one), text)]
    assert listed.first(text) == (matching[0] if matching else None)
    assert len(listed) == len(texts)


def test_a_quotation_that_does_not_end_in_its_pattern_ends_with_it() -> None:
    listed = PatternList([r"\Qa", r"\Qb\Ec"])
    assert [listed.first(text) for text in ("a", "bc", r"a)|(?:\Qbc")] == [0, 1, None]


def test_patterns_that_cannot_be_made_one_are_asked_one_by_one() -> None:
    named = PatternList(["(?P<n>a)", "(?P<n>b)"])
    assert [named.first(text) for text in "abc"] == [0, 1, None]
    large = PatternList([rf"[^/]{{1,900}}/{number}" for number in range(40)])
    assert large.first("x/33") == 33 and large.first("x/40") is None


def test_a_list_with_a_bad_pattern_is_refused() -> None:
    with pytest.raises(BadPattern):
        PatternList(["a", "("])


# Rewrites.


@pytest.mark.parametrize(
    ("pattern", "replacement", "text", "becomes"),
    [
        ("b", "x", "abcb", "axcx"),
        ("^a", "", "aab", "ab"),
        (r"^https?://m\.(.*)$", r"http://\1", "https://m.ex.com/a", "http://ex.com/a"),
        ("(a)(b)?", r"[\1\2]", "abac", "[ab][a]c"),
        ("(a)", r"\1\1", "aba", "aabaa"),
        ("a", r"\\", "xax", r"x\x"),
        ("z", "x", "abc", "abc"),
        ("x*", "-", "abc", "-a-b-c-"),
    ],
)
def test_a_rewrite_replaces_each_place_that_matches(
    pattern: str, replacement: str, text: str, becomes: str
) -> None:
    assert compile_rewrite(pattern, replacement, 100)(text) == becomes


@pytest.mark.parametrize(
    ("replacement", "problem"),
    [
        (r"a\2", r"\2 is not a group of the pattern, which has 1"),
        (r"\0", r"an escape must be \1 to \9 or \\, got \0"),
        (r"\x", r"an escape must be \1 to \9 or \\, got \x"),
        ("a\\", "an escape must be \\1 to \\9 or \\\\, got \\"),
        (r"\²", r"an escape must be \1 to \9 or \\, got \²"),
        ("a" * 1001, "it must have at most 1000 characters, got 1001"),
    ],
)
def test_a_replacement_refers_to_groups_that_there_are(replacement: str, problem: str) -> None:
    with pytest.raises(BadReplacement) as refused:
        compile_rewrite("(a)", replacement, 100)
    assert str(refused.value) == problem


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b+", "^a", "c$", "(a)(b)", "x=([0-9]+)", r"\Qa.b\E", "(?i)C"]),
            st.sampled_from(["", "b", "c", "ab"]),
        ),
        max_size=70,
    ),
    st.text(alphabet="abcC.x=1", max_size=12),
)
def test_many_rewrites_are_what_they_are_one_after_the_other(
    rewrites: list[tuple[str, str]], text: str
) -> None:
    expected = text
    for pattern, replacement in rewrites:
        expected = compile_rewrite(pattern, replacement, 200)(expected)
    assert compile_rewrites(rewrites, 200)(text) == expected


def test_a_text_with_nothing_to_rewrite_costs_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each candidate of each request is asked about; a hundred rewrites took a millisecond and more."""
    asked: list[str] = []

    def never(pattern: str, replacement: str, most: int) -> Callable[[str], str]:
        def as_it_is(text: str) -> str:
            asked.append(text)
            return text

        return as_it_is

    monkeypatch.setattr(patterns, "compile_rewrite", never)
    rewritten = compile_rewrites([(f"x{number}=[0-9]+", "") for number in range(100)], 200)
    assert rewritten("http://a.example/page?y=1") == "http://a.example/page?y=1" and not asked
    rewritten("http://a.example/page?x99=1")
    assert len(asked) == 100 - 96, "those that were asked as one with it"


def test_a_rewrite_of_a_bad_pattern_is_refused_as_one() -> None:
    with pytest.raises(BadPattern, match="invalid perl operator"):
        compile_rewrite("(?=a)", "", 100)


def test_a_rewrite_replaces_so_many_places_and_leaves_the_rest() -> None:
    text = "a" * (MAX_REPLACED + 5)
    assert compile_rewrite("a", "b", 1_000)(text) == "b" * MAX_REPLACED + "a" * 5


def test_a_text_that_would_become_too_long_stays_as_it_is() -> None:
    rewrite = compile_rewrite("(.*)", r"\1\1", 10)
    assert rewrite("abcde") == "abcdeabcde"
    assert rewrite("abcdef") == "abcdef"
    assert compile_rewrite("^", "xy", 10)("123456789") == "123456789"
    assert compile_rewrite("(.*)", r"\1" * 500, 8_192)("a" * 8_000) == "a" * 8_000
