"""robots.txt: which group is ours, what its rules mean, and how little a hostile one can do."""

import time
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protego import Protego

from frontier_server.core.robotstxt.robots import (
    MAX_BODY_BYTES,
    MAX_RULE_CHARACTERS,
    MAX_RULES,
    MAX_WILDCARDS,
    Rules,
    group_for,
)
from frontier_server.core.uri.canonical import MAX_URI_BYTES, canonical

LONGEST_ESCAPE = len("%F0%9F%98%80")


def rules(body: str | bytes, token: str = "toehold") -> Rules:
    """The rules for us in a robots.txt."""
    return Rules(group_for(body.encode() if isinstance(body, str) else body, token))


def allows(body: str | bytes, target: str, token: str = "toehold") -> bool:
    """Whether a robots.txt lets us fetch."""
    return rules(body, token).allows(target)


def disallows(pattern: str, target: str) -> bool:
    """Whether one rule forbids a target."""
    return not allows(f"User-agent: *\nDisallow: {pattern}\n", target)


# RFC 9309, section 2.2: groups and matching.


def test_without_rules_everything_is_allowed() -> None:
    for body in (
        "",
        "# nothing",
        "User-agent: *",
        "User-agent: *\nDisallow:",
        "Disallow: /",
        "<html>no</html>",
    ):
        assert allows(body, "/anything"), body


def test_the_robots_txt_itself_may_always_be_fetched() -> None:
    """RFC 9309, 2.2.2: it is implicitly allowed."""
    assert allows("User-agent: *\nDisallow: /", "/robots.txt")
    assert not allows("User-agent: *\nDisallow: /", "/robots.txt?x")


def test_our_own_group_counts_and_not_that_of_others() -> None:
    body = (
        "User-agent: *\nDisallow: /\n\n"
        "User-agent: toehold\nDisallow: /private\n\n"
        "User-agent: other\nDisallow: /o\n"
    )
    assert allows(body, "/public") and allows(body, "/o")
    assert not allows(body, "/private/x")
    assert not allows(body, "/public", token="third")


@pytest.mark.parametrize(
    "name", ["toehold", "Toehold", "TOEHOLD", "toehold/1.0", "Toehold/2 (x)", "toehold *"]
)
def test_the_product_token_is_matched_by_its_letters_in_any_case(name: str) -> None:
    """RFC 9309, 2.2.1"""
    assert not allows(f"User-agent: {name}\nDisallow: /\n", "/")


@pytest.mark.parametrize("name", ["toe", "toeholder", "toehold-images", "my toehold", "", "a*"])
def test_another_token_that_contains_ours_is_another(name: str) -> None:
    assert allows(f"User-agent: {name}\nDisallow: /\n", "/")


def test_an_own_group_without_rules_allows_everything() -> None:
    assert allows("User-agent: *\nDisallow: /\nUser-agent: toehold\nDisallow:\n", "/x")


def test_groups_with_our_token_are_taken_together() -> None:
    """RFC 9309, 2.2.1: more than one group for a crawler MUST be combined into one."""
    body = (
        "User-agent: toehold\nDisallow: /a\n\nUser-agent: other\nDisallow: /b\n\n"
        "User-agent: other\nUser-agent: toehold\nDisallow: /c\n"
    )
    assert [allows(body, target) for target in ("/a", "/b", "/c")] == [False, True, False]


def test_groups_for_everybody_are_taken_together_too() -> None:
    body = "User-agent: *\nDisallow: /a\n\nUser-agent: x\nDisallow: /b\n\nUser-agent: *\nDisallow: /c\n"
    assert [allows(body, target) for target in ("/a", "/b", "/c")] == [False, True, False]


def test_several_names_share_the_rules_that_follow() -> None:
    body = "User-agent: other\nUser-agent: toehold\nDisallow: /a\nAllow: /a/b\n"
    assert not allows(body, "/a") and allows(body, "/a/b")


def test_lines_that_are_no_rules_do_not_divide_a_group() -> None:
    """RFC 9309, 2.2.4: other records MUST NOT interfere with the parsing."""
    body = "User-agent: toehold\nSitemap: https://x/s.xml\nUser-agent: other\n\n# c\nHost: x\nDisallow: /a\n"
    assert not allows(body, "/a")


def test_a_crawl_delay_between_two_names_does_not_end_the_list_of_names() -> None:
    """And concerns those that were named before it."""
    body = "User-agent: other\nCrawl-delay: 5\nUser-agent: toehold\nDisallow: /a\n"
    assert not allows(body, "/a") and not allows(body, "/a", token="other")
    assert rules(body, "other").crawl_delay_ms == 5_000
    assert rules(body).crawl_delay_ms == 0


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_end_of_line_is_one(end: str) -> None:
    """RFC 9309, 2.2: EOL = CR / LF / CRLF."""
    assert not allows(end.join(["User-agent: *", "Disallow: /a", "Allow: /a/b"]), "/a")


def test_a_byte_order_mark_does_not_hide_a_line() -> None:
    """Nor one amid the file, where two files were joined."""
    assert not allows(b"\xef\xbb\xbfUser-agent: *\nDisallow: /\n", "/x")
    assert not allows(b"User-agent: other\nDisallow:\n\n\xef\xbb\xbfUser-agent: *\nDisallow: /\n", "/x")


@pytest.mark.parametrize(
    "line",
    ["User agent: *", "useragent: *", "USER AGENT :*", "User-agent *", "User-agents: *", "user-agent\t*"],
)
def test_a_misspelt_user_agent_line_begins_a_group(line: str) -> None:
    """As for Google's parser."""
    assert not allows(f"{line}\nDisallow: /a\n", "/a")


@pytest.mark.parametrize(
    "line",
    [
        *("Dissallow: /a", "dissalow: /a", "Disalow: /a", "diasllow: /a", "Disallaw:/a", "Disallow /a"),
        *("Disallow\t/a # no colon", "Disallow /a:b", "Disallowed: /a", "Disallow all: /a"),
    ],
)
def test_a_misspelt_disallow_line_forbids(line: str) -> None:
    """As for Google's parser."""
    assert not allows(f"User-agent: *\n{line}\n", "/a:b")


@pytest.mark.parametrize(
    "line", ["Dis: /a", "Disallow", "Disallow /a /b", "No-disallow: /a", "Dis allow: /a", "Host: /a", ": /a"]
)
def test_a_line_with_another_name_is_no_rule(line: str) -> None:
    assert allows(f"User-agent: *\n{line}\n", "/a")


def test_a_misspelt_crawl_delay_counts() -> None:
    for line in ("Crawl delay: 5", "crawldelay:5", "Crawl-delay 5"):
        assert rules(f"User-agent: *\n{line}\n").crawl_delay_ms == 5_000, line
    assert allows("User-agent: *\nDisallow: /a\nAllow /a/b\n", "/a/b")


def test_blanks_case_and_comments_do_not_matter() -> None:
    assert disallows(" \t/a \t# a comment", "/a")
    assert not allows("  user-AGENT :\t*  # all\n\tDISALLOW : /a", "/a")
    assert not allows("User-agent: *\nDisallow: /a#b", "/a")


def test_bytes_that_are_no_text_harm_only_their_own_line() -> None:
    assert not allows(b"\xff\xfe\x00User-agent: x\nUser-agent: *\nDisallow: /\xe9\nDisallow: /a\n", "/a")


# The longest match.

LONGEST = [
    ("Allow: /p\nDisallow: /", "/page", True),
    ("Allow: /folder\nDisallow: /folder", "/folder/page", True),
    ("Allow: /page\nDisallow: /*.htm", "/page.htm", False),
    ("Allow: /page\nDisallow: /*.ph", "/page.php5", True),
    ("Allow: /$\nDisallow: /", "/", True),
    ("Allow: /$\nDisallow: /", "/page.htm", False),
    ("Disallow: /a\nAllow: /a/b\nDisallow: /a/b/c", "/a/b/c", False),
    ("Disallow: /a\nAllow: /a/b\nDisallow: /a/b/c", "/a/b/d", True),
    ("Allow: /a*\nDisallow: /aa", "/aab", True),
]


@pytest.mark.parametrize(("lines", "target", "allowed"), LONGEST)
def test_the_longest_rule_wins_and_allow_wins_a_draw(lines: str, target: str, allowed: bool) -> None:
    """RFC 9309, 2.2.2, in whatever order the rules stand."""
    turned = "\n".join(reversed(lines.split("\n")))
    assert allows(f"User-agent: *\n{lines}\n", target) is allowed
    assert allows(f"User-agent: *\n{turned}\n", target) is allowed


PATTERNS = [
    ("/", "/", True),
    ("/", "/any?x=1", True),
    ("/fish", "/fish.html", True),
    ("/fish", "/fish/salmon", True),
    ("/fish", "/Fish", False),
    ("/fish", "/catfish", False),
    ("/fish/", "/fish", False),
    ("/fish*", "/fishheads/yummy.html", True),
    ("/*.php", "/index.php?a", True),
    ("/*.php", "/folder/file.php/x", True),
    ("/*.php", "/windows.PHP", False),
    ("/*.php$", "/a.php", True),
    ("/*.php$", "/a.php?x", False),
    ("/*.php$", "/a.php5.php", True),
    ("/fish*.php", "/fishheads/catfish.php?x", True),
    ("*", "/x", True),
    ("*a", "/xa", True),
    ("/a*b*c$", "/axbxc", True),
    ("/a*b*c$", "/axcxb", False),
    ("/a*a$", "/a", False),
    ("/a**b", "/axb", True),
    ("/a$", "/a", True),
    ("/a$", "/ab", False),
    ("/a$b", "/a$bc", True),
    ("$", "/", False),
    ("/*$", "/anything", True),
    ("fish", "/fish", False),
]


@pytest.mark.parametrize(("pattern", "target", "forbidden"), PATTERNS)
def test_patterns(pattern: str, target: str, forbidden: bool) -> None:
    """RFC 9309, 2.2.2 and 2.2.3: `*` stands for anything, `$` for the end, a rule for all it begins."""
    assert disallows(pattern, target) is forbidden


ESCAPES = [
    ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
    ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
    ("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84"),
    ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
    ("/foo/bar/baz", "/foo/bar/%62%61%7a"),
    ("/a b", "/a%20b"),
    ("/%7Ejoe/", "/~joe/index.html"),
    ("/a%3cd.html", "/a%3Cd.html"),
    ("/%zz", "/%zz"),
    ("/*?f[", "/list?f%5B0%5D=red"),
    ("/*?f%5b", "/list?f[0]=red"),
    ("/100%-off", "/100%25-off"),
    ("/100%25", "/100%"),
    ("/*%", "/a%20b"),  # a begun escape is the beginning of any
    ("/*%e", "/a%E3%83%84"),
    ("/a%4", "/a%4"),
    ("/a%4*c", "/a%4xc"),
    ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
    ("/foo/bar?baz=https%3a%2f%2Ffoo.bar", "/foo/bar?baz=https://foo.bar"),
    ("/*https://", "/go?to=https%3A%2F%2Fa.example"),
    ("/*%2Fadmin", "/go?to=/admin"),
    ("/*%2Fadmin", "/a%2Fadmin"),
    ("/*%2F*%2Fadmin", "/a%2Fb?c=/admin"),
    ("/*%2Fadmin$", "/go?to=/admin"),
    ("/*?a=%3Fb", "/x?a=?b"),
]


@pytest.mark.parametrize(("pattern", "target"), ESCAPES)
def test_escapes_are_compared_by_what_they_stand_for(pattern: str, target: str) -> None:
    """RFC 9309, 2.2.2, with its examples."""
    assert disallows(pattern, target)


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        ("/a%2Fb", "/a/b"),
        ("/a/b", "/a%2Fb"),
        ("/a%3Fb", "/a?b"),
        ("/*?b", "/a%3Fb"),
        ("/*%3Fb", "/a?b"),
        ("/*%2Fb", "/a/b?c"),
        ("/*%2Fb$", "/a/b"),
        ("/*%2Fb*/c", "/a?b/c"),
    ],
)
def test_an_escaped_delimiter_of_a_path_is_no_delimiter(pattern: str, target: str) -> None:
    assert not disallows(pattern, target)


@pytest.mark.parametrize(
    ("line", "target"),
    [
        (b"/caf\xe9/", "/caf%E9/"),
        (b"/caf%e9/", "/caf%E9/"),
        (b"/\xe3\x83", "/%E3%83%84"),
        (b"/\xff\xfe/", "/%FF%FE/"),
    ],
)
def test_octets_that_are_no_utf_8_stand_for_themselves(line: bytes, target: str) -> None:
    """RFC 9309, 2.2.2: octets outside ASCII are percent-encoded, whatever they are."""
    assert not allows(b"User-agent: *\nDisallow: " + line, target)


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"),
        ("/path/foo-%24", "/path/foo-$"),
        ("/path/foo-%24$", "/path/foo-$"),
    ],
)
def test_an_escaped_special_character_stands_for_itself(pattern: str, target: str) -> None:
    """RFC 9309, 2.2.3, with its examples: there is no other way to name a `*` or a final `$`."""
    assert disallows(pattern, target)
    assert not disallows(pattern, target.replace("*", "x").replace("$", "x"))


def test_a_reserved_character_and_its_escape_are_the_same() -> None:
    """RFC 9309, 2.2.2: they MUST be percent-encoded prior to comparison (`/@joe` and `/%40joe`)."""
    differ = []
    for mark in "!&'()+,:;=@":
        escaped = f"%{ord(mark):02X}"
        if not disallows(f"/{escaped}joe", f"/{mark}joe/page") or not disallows(
            f"/{mark}joe", f"/{escaped}joe"
        ):
            differ.append(mark)
    assert not differ


# The places of a character, raw or escaped: a rule, and a URL that it must or must not match.
PLACES = [
    ("/x{}y", "/x{}y/page"),
    ("/x?q={}y", "/x?q={}y&z"),
    ("/*{}y", "/z/x{}y"),
    ("/*{}y$", "/z/x{}y"),
    ("/*?q{}y", "/z?q{}y"),
    ("/*q*{}y", "/z?q=x{}y"),
]
CHARACTERS = [chr(code) for code in range(1, 128) if chr(code) not in "\t\n\r#"] + list("éßツ😀\xa0\u2028")


def fetched(target: str) -> str:
    """The path and query that are fetched for a link."""
    return canonical(f"http://alpha.example{target}").target


def spelt() -> Iterator[tuple[str, str, str, str, str]]:
    """A character, a rule and a target with a place for it, and the character in each, raw or escaped."""
    for character in CHARACTERS:
        escaped = "".join(f"%{octet:02X}" for octet in character.encode())
        forms = (character, escaped, escaped.lower())
        for (pattern, target), in_rule, in_url in product(PLACES, forms, forms):
            yield character, pattern, target, in_rule, in_url


def test_rules_match_every_character_alike_raw_and_escaped() -> None:
    """RFC 9309, 2.2.2. But a raw `*` is no character, nor is a raw `/` or `?` of a path."""
    differ = []
    for character, pattern, target, in_rule, in_url in spelt():
        in_path = "?" not in target
        if in_rule == "*" or (in_path and in_url == "\\"):  # which browsers turn into a slash
            continue
        if in_path and character in "/?" and (in_rule == character) is not (in_url == character):
            continue
        wanted = fetched(target.format(in_url))
        if not disallows(pattern.format(in_rule), wanted):
            differ.append((pattern.format(in_rule), wanted))
    assert not differ


def test_groups_that_an_older_server_stored_are_read_anew() -> None:
    """It escaped what is no printable ASCII, and no other character."""
    stored = Rules("disallow:/*?f[\ndisallow:/a|b%20c\nallow:/a%7cb%20c/d\ncrawl-delay:2")
    assert [stored.allows(each) for each in ("/x?f%5B", "/a%7Cb%20c", "/a|b%20c/d")] == [False, False, True]
    assert stored.crawl_delay_ms == 2_000


def protego_is_wrong(character: str, in_rule: str, in_url: str, in_query: bool) -> bool:
    """Whether protego's answer breaks RFC 9309, 2.2.2.

    Its example has `https://` in a query equal `https%3A%2F%2F`. A `?` that is no delimiter is data: the
    examples keep `/` and `?` of a path unescaped. And a `%` that begins no escape is one, and is escaped.
    """
    if character == "/":
        return in_query
    if character == "?":
        return not in_query
    return character == "%" and (in_rule == "%") is not (in_url == "%")


def test_an_independent_parser_agrees_on_every_character() -> None:
    """Raw and escaped, in rules and URLs, but where protego is wrong."""
    differ = []
    for character, pattern, target, in_rule, in_url in spelt():
        if in_rule in "\x0b\x0c\x1c\x1d\x1e\u2028":  # ends of lines for protego, but not in RFC 9309
            continue
        if protego_is_wrong(character, in_rule, in_url, "?" in target):
            continue
        body = f"User-agent: *\nDisallow: {pattern.format(in_rule)}\n"
        wanted = fetched(target.format(in_url))
        theirs = Protego.parse(body).can_fetch(f"http://alpha.example{wanted}", "toehold")
        if allows(body, wanted) is not theirs:
            differ.append((pattern.format(in_rule), wanted, theirs))
    assert not differ


@given(st.text(alphabet="ab/?&=[]|^~.-_:@$%4fE é", max_size=12))
def test_a_rule_that_is_a_url_forbids_that_url(text: str) -> None:
    wanted = fetched(f"/{text}")
    assert disallows(wanted.replace("$", "%24"), wanted)


@given(st.text(alphabet="ab/?&=[]|%2FfE5", max_size=12), st.text(alphabet="ab/?&=[]|%2FfE5", max_size=12))
def test_a_rule_with_wildcards_around_a_text_finds_it_in_every_url(before: str, text: str) -> None:
    wanted = fetched(f"/{before}{text}/b")
    if text and text in wanted:
        assert disallows(f"/*{text}*b", wanted), wanted


# Crawl-delay.


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [
        ("10", 10_000),
        ("0.5", 500),
        (".25", 250),
        ("0", 0),
        ("999999999", 999_999_999_000),
        ("-1", 0),
        ("nan", 0),
        ("inf", 0),
        ("1e9", 0),
        ("9" * 400, 0),
        ("ten", 0),
        ("", 0),
        ("5 s", 0),
    ],
)
def test_a_crawl_delay_is_a_number_of_seconds(text: str, delay_ms: int) -> None:
    """Anything else is none."""
    assert rules(f"User-agent: *\nCrawl-delay: {text}\n").crawl_delay_ms == delay_ms


def test_the_longest_of_several_crawl_delays_counts() -> None:
    body = (
        "User-agent: toehold\nCrawl-delay: 5\nDisallow: /a\n"
        "User-agent: *\nCrawl-delay: 50\nDisallow: /b\n"
        "User-agent: toehold\nCrawl-delay: 7\n"
    )
    assert rules(body).crawl_delay_ms == 7_000


# Hostile bodies: what is kept has an end, and a rule that is cut does not forbid less.


def bounded(group: str) -> None:
    """Assert that a group is as small as is promised."""
    lines = group.split("\n")
    assert len(lines) <= MAX_RULES
    for line in lines:
        name, _, pattern = line.partition(":")
        assert name in ("", "allow", "disallow", "crawl-delay")
        assert len(pattern) <= MAX_RULE_CHARACTERS * LONGEST_ESCAPE
        assert pattern.count("*") <= MAX_WILDCARDS
        assert pattern.isascii() and pattern.isprintable()
    assert Rules(group).weight <= MAX_RULES * (MAX_WILDCARDS + 1)


@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: *\n" + b"Disallow: /a\n" * 40_000,
        b"User-agent: *\nDisallow: /" + b"a" * 500_000,
        b"User-agent: *\nDisallow: /" + b"*a" * 250_000,
        b"User-agent: *\nDisallow: /" + "😀".encode() * 100_000,
        b"User-agent: *\nAllow: /" + b"*" * 500_000,
        b"User-agent: *\n" + b"Crawl-delay: 1\n" * 30_000,
        b"User-agent: *\n" * 36_000 + b"Disallow: /",
        b"a" * 510_000,
        b" " * 510_000,
        b"\n" * 510_000,
        b":" * 510_000,
        b"Disallow" + b" " * 510_000,
        b"\x00" * 510_000,
        b"\xff" * 510_000,
    ],
    ids=lambda body: f"{body[14:30]!r}…",
)
def test_a_hostile_body_leaves_a_small_group(body: bytes) -> None:
    """What is stored and matched is bounded in lines, length and wildcards, whatever was served."""
    bounded(group_for(body, "toehold"))


@given(st.binary(max_size=300))
def test_any_bytes_leave_a_small_group(body: bytes) -> None:
    bounded(group_for(b"User-agent: *\n" + body, "toehold"))


@given(st.text(alphabet="userdialow-agnt: *\n\r#/$%2Fé", max_size=200))
def test_any_text_leaves_a_small_group_that_answers(body: str) -> None:
    group = group_for(("User-agent: *\n" + body).encode(), "toehold")
    bounded(group)
    assert Rules(group).allows("/robots.txt")
    Rules(group).allows("/de/%2F*$?x=é")


def test_what_is_behind_500_kib_is_not_read() -> None:
    """RFC 9309, 2.5: at least 500 KiB MUST be parsed."""
    padding = b"#" * (MAX_BODY_BYTES - len(b"User-agent: *\nDisallow: /a\n\n"))
    body = b"User-agent: *\nDisallow: /a\n" + padding + b"\nDisallow: /b\n"
    assert not allows(body, "/a") and allows(body, "/b")


def test_the_rules_beyond_the_most_are_left_out() -> None:
    lines = "".join(f"Disallow: /{number}/\n" for number in range(MAX_RULES + 10))
    cut = rules("User-agent: *\n" + lines)
    assert not cut.allows(f"/{MAX_RULES - 1}/") and cut.allows(f"/{MAX_RULES}/")


def test_an_allow_that_would_have_to_be_cut_is_left_out() -> None:
    """Cut, it would allow more."""
    body = f"User-agent: *\nDisallow: /\nAllow: /{'a' * MAX_RULE_CHARACTERS}\n"
    assert not allows(body, "/" + "a" * MAX_RULE_CHARACTERS)


FILL = "/" + "a" * (MAX_RULE_CHARACTERS - 2)
WILD = "/" + "*a" * MAX_WILDCARDS


@pytest.mark.parametrize(
    ("pattern", "target"),
    [
        (FILL + "bcd", FILL + "bcd"),
        (FILL + "b$", FILL + "b"),
        (WILD + "*b", "/" + "a" * MAX_WILDCARDS + "b"),
        (WILD + "*b$", "/" + "a" * MAX_WILDCARDS + "b"),
        (FILL + "$bcd", FILL + "$bcd"),  # the cut must not turn this `$` into the end
        (WILD + "$*b", "/" + "a" * MAX_WILDCARDS + "$b"),
        (FILL + "%41", FILL + "A"),  # nor divide an escape
        (FILL[:-1] + "%41", FILL[:-1] + "A"),
        (FILL[:-2] + "$%41b", FILL[:-2] + "$Ab"),  # both at once
    ],
)
def test_a_disallow_that_is_cut_forbids_no_less(pattern: str, target: str) -> None:
    """What the whole rule forbids, the cut one forbids as well."""
    assert disallows(pattern, target)


@pytest.mark.parametrize("odd", ["$", "%", "$%a"])
def test_rules_cut_where_anchors_or_escapes_stand_take_time_that_goes_with_their_length(odd: str) -> None:
    """Once looked through from each of their places: the frontier stood still for minutes."""
    end = odd * MAX_RULE_CHARACTERS
    line = f"Disallow: /{end[: MAX_RULE_CHARACTERS - 3]}b{end}\n"
    began_s = time.thread_time()
    bounded(group_for(("User-agent: *\n" + line * (MAX_BODY_BYTES // len(line))).encode(), "toehold"))
    assert time.thread_time() - began_s < 5


def test_wildcards_are_matched_without_backtracking() -> None:
    """Leftmost places decide, so each part is sought once: one `find` a part is all that a rule may cost."""
    found: list[str] = []

    class Target(str):
        def find(self, *wanted: object) -> int:
            found.append(str(wanted[0]))
            return super().find(*wanted)  # type: ignore[arg-type]

    (rule,) = Rules("disallow:/" + "*a" * MAX_WILDCARDS + "*b")._rules
    assert not rule.matches(Target("/" + "a" * 8_000), 8_001)
    assert len(found) <= MAX_WILDCARDS + 1


MOST_COMPARISONS = 50_000_000  # some milliseconds


@pytest.mark.parametrize("length", [50, 2_000])
def test_the_costliest_question_has_an_end(length: int) -> None:
    """A rule may compare each character of its longest part with each of a target; all rules are asked."""
    lines = "".join(f"Disallow: /*{'a' * length}b{number}\n" for number in range(MAX_RULES))
    asked = rules(("User-agent: *\n" + lines).encode()[:MAX_BODY_BYTES])
    longest = (
        max((len(each) for part in rule.parts[1:] for each in set(part)), default=0) for rule in asked._rules
    )
    compared = sum(longest) * MAX_URI_BYTES
    assert compared <= MOST_COMPARISONS


# Against another implementation, where that is right.

patterns = st.text(alphabet="/ab*", min_size=1, max_size=7).map(lambda text: "/" + text)
endings = st.sampled_from(["", "", "", "$"])
rule_lines = st.builds(
    lambda name, pattern, end: f"{name}: {pattern}{end}",
    st.sampled_from(["Allow", "Disallow"]),
    patterns,
    endings,
)
names = st.sampled_from(["*", "toehold", "Toehold", "otherbot"])
groups = st.builds(
    lambda agents, lines: "".join(f"User-agent: {agent}\n" for agent in agents) + "\n".join(lines) + "\n",
    st.lists(names, min_size=1, max_size=2),
    st.lists(rule_lines, min_size=1, max_size=5),
)
targets = st.text(alphabet="/ab", max_size=8).map(lambda text: ("/" + text).replace("//", "/a"))


@settings(max_examples=150)
@given(st.lists(groups, max_size=4), st.lists(targets, min_size=1, max_size=5))
def test_an_independent_parser_agrees(bodies: list[str], wanted: list[str]) -> None:
    """Groups, wildcards, `$`, longest match: the same answers as protego's, where that follows RFC 9309."""
    body = "".join(bodies)
    ours, other = rules(body), Protego.parse(body)
    for target in wanted:
        assert ours.allows(target) is other.can_fetch(f"http://alpha.example{target}", "toehold"), (
            body,
            target,
        )


@given(st.lists(rule_lines, min_size=1, max_size=8))
def test_what_is_stored_means_what_was_served(lines: list[str]) -> None:
    """Cutting a group to our own and cutting it again changes nothing."""
    body = "User-agent: *\n" + "\n".join(lines)
    group = group_for(body.encode(), "toehold")
    again = group_for(("User-agent: toehold\n" + group).encode(), "toehold")
    assert again == group
