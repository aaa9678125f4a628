"""URI text → canonical URI."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from frontier_server.core.uri.canonical import (
    MAX_URI_BYTES,
    CanonicalUri,
    Malformed,
    TooLong,
    UnsupportedScheme,
    canonical,
    parsed,
)

SAME = {
    "http://ex.com/": [
        *("http://ex.com", "HTTP://EX.com:80", "http://ex.com/#part", "http://ex.com/?", "http://ex.com?#"),
        *("http://user:secret@ex.com/", "http://ex.com./", "http://ex.com.../", " http://ex.com/\n"),
        *("http:ex.com", "http://ex.com/a/../", "http:\\\\ex.com\\"),
        *("http://e%78.com/", "ht\ttp://ex.c\nom/"),
    ],
    "https://ex.com/a?b": ["https://ex.com:443/./a?b#c", "https://@ex.com/x/..//../a?b"],
    "https://ex.com:80/": ["https://ex.com:0080"],
    "http://ex.com:443/": ["http://ex.com:443"],
    "http://xn--fa-hia.de/%C3%A9": ["http://faß.de/é", "http://FASS.de/é".replace("SS", "ß")],
    "http://[::1]/": ["http://[0:0::1]:80"],
    "http://127.0.0.1/": ["http://127.1/", "http://0x7f.1", "http://2130706433/", "http://127.0.0.1./"],
    "http://ex.com/%7e": ["http://ex.com/%7e"],
    "http://ex.com/a%20b?c%20d": ["http://ex.com/a b?c d"],
    "http://ex.com/a/c?/.b/../": [
        "http://ex.com/a/.b/../c?/.b/../",
        "http://ex.com/a/.b/.c/./.././../c?/.b/../",
    ],
    "http://ex.com//a/.b/": ["http://ex.com//a/.b/.", "http://ex.com//a/.b/c/..", "http://ex.com//a/.b/.\\"],
    "http://ex.com/.a": ["http://ex.com/.a", "http://ex.com/.a/../.a"],
    "http://ex.com/a%5Eb/%5E?^": ["http://ex.com/a^b/^?^", "http://^@ex.com/a^b/%5E?^#^"],
}
DIFFERENT = [
    ("http://ex.com/", "https://ex.com/"),
    ("http://ex.com/", "http://www.ex.com/"),
    ("http://ex.com/a", "http://ex.com/A"),
    ("http://ex.com/a", "http://ex.com/a/"),
    ("http://ex.com/?a&b", "http://ex.com/?b&a"),
    ("http://ex.com/?a=", "http://ex.com/?a"),
    ("http://ex.com/;jsessionid=1", "http://ex.com/"),
    ("http://ex.com/%2f", "http://ex.com//"),
]


@pytest.mark.parametrize(
    ("form", "spelling"), [(form, text) for form in SAME for text in (form, *SAME[form])]
)
def test_spellings_of_one_uri_have_one_form(form: str, spelling: str) -> None:
    """The URL standard's, without fragment, user name, trailing dots of the host and empty query."""
    assert canonical(spelling).uri == form


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_uris_that_servers_may_answer_differently_stay_apart(one: str, other: str) -> None:
    """A difference: Heritrix's default chain strips `www.`, case and session ids (2.4)."""
    assert canonical(one).uri != canonical(other).uri


@pytest.mark.parametrize("query", ["?a?", "??", "?a=b?", "?next=/search?"])
def test_only_an_empty_query_is_dropped(query: str) -> None:
    """A question mark at the end of a query is part of it."""
    assert canonical(f"http://ex.com/{query}").uri == f"http://ex.com/{query}"


def test_the_parts_that_decisions_rest_on() -> None:
    uri = canonical("HTTP://User@WWW.Ex.com:8080/a/../b?c#d")
    assert uri == CanonicalUri(
        "http://www.ex.com:8080/b?c",
        "http",
        "www.ex.com",
        "www.ex.com:8080",
        "/b?c",
        "http://www.ex.com:8080",
    )
    assert canonical("https://[::1]:8443/").host == "[::1]"


NO_URIS = [
    *("", "/a", "//ex.com/", "ex.com", "http:", "http://", "http:///", "http://?", "http://%/"),
    *("http://ex ample/", "http://[::1/", "http://ex.com:65536/", "http://1.2.3.256/", "http://xn--/"),
    *("http://./", "http://../", "http://\u3002/", "http://a..b/", "http://.a/", "http://a\x00/"),
    *("http://ex.com/\ud800", "\ud800"),
]


@pytest.mark.parametrize("text", NO_URIS)
def test_what_cannot_be_fetched_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        canonical(text)


@pytest.mark.parametrize("text", ["http://1.2.3.256../", "http://999999999999../"])
def test_a_host_that_is_malformed_without_its_dots_is_malformed_with_them(text: str) -> None:
    with pytest.raises(Malformed):
        canonical(text)


@pytest.mark.parametrize(
    "text", ["ftp://ex.com/", "mailto:a@ex.com", "javascript:void(0)", "data:,x", "dns:ex.com"]
)
def test_other_schemes_are_not_supported(text: str) -> None:
    with pytest.raises(UnsupportedScheme, match=text.split(":")[0]):
        canonical(text)


def test_a_uri_may_have_8192_bytes_and_no_more() -> None:
    longest = "http://ex.com/" + "a" * (MAX_URI_BYTES - len("http://ex.com/"))
    assert canonical(longest).uri == longest
    with pytest.raises(TooLong, match="8193"):
        canonical(longest + "a")
    with pytest.raises(TooLong):
        canonical("http://ex.com/" + "é" * 2_000)  # longer once it is escaped


def test_a_uri_of_a_megabyte_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(TooLong, match="1000014"):
        canonical("http://ex.com/" + "a" * 1_000_000)


# Any text at all.

hosts = st.text(alphabet="aZ0.-_x%3:[]f@é。", max_size=12)
texts = st.one_of(
    st.text(max_size=60),
    st.builds(
        lambda scheme, host, rest: f"{scheme}:{host}{rest}",
        st.sampled_from(["http", "https", "HTTP", "hTTps"]),
        st.builds(lambda slashes, host: slashes + host, st.sampled_from(["//", "", "/", "\\\\"]), hosts),
        st.text(alphabet="/?#%.aé \t\\;&=2f:@", max_size=20),
    ),
)


def form(text: str) -> CanonicalUri | None:
    """The canonical form, if there is one."""
    try:
        return canonical(text)
    except (Malformed, UnsupportedScheme, TooLong):
        return None


@given(texts)
@example("http://0x7f.1../")
@example("http://ex.com/??")
@example("http://1.2.3.256../")
def test_any_text_has_a_form_that_is_its_own_or_one_of_three_errors(text: str) -> None:
    """Nothing else is ever raised; the form is canonical itself, and its parts are those of its text."""
    uri = form(text)
    if uri is None:
        return
    assert canonical(uri.uri) == uri
    assert uri.uri == f"{uri.scheme}://{uri.authority}{uri.target}"
    assert uri.uri.isascii() and uri.uri.isprintable() and len(uri.uri) <= MAX_URI_BYTES
    assert uri.scheme in ("http", "https") and uri.target.startswith("/") and "#" not in uri.uri
    assert uri.authority == uri.host or uri.authority.startswith(f"{uri.host}:")
    assert uri.host and not uri.host.endswith(".") and "@" not in uri.authority


# What is canonical already is told so without the parser.

_PARTS = (
    *("a", "index.html", "x;y=1", "..", ".", "%2e", ".%2E", "%2F", "%", "%zz", "", "'", "|"),
    *("~!$&()*+,:@", "é"),
)
nearly_canonical = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["http://", "https://", "http:///", "https:/", "HTTP://", "ftp://"]),
        st.sampled_from(["", "u@", "u:p@"]),
        st.one_of(
            st.sampled_from(
                ["ex.com", "www.a-b.example", "a_b.com", "-a.com", "1.2.3.4", "0x1.com", "a.0x1", "EX.com"]
            ),
            st.sampled_from(["a..b.com", "a.com.", "a", "[::1]", "xn--bcher-kva.example", "1.2.3.com", "."]),
            hosts,
        ),
        st.sampled_from(["", "", ":80", ":443", ":8080", ":080", ":65536", ":"]),
        st.lists(st.sampled_from(_PARTS), max_size=5).map(
            lambda parts: "".join(f"/{part}" for part in parts)
        ),
        st.sampled_from(["", "?", "?a=/../%2e", "?a?b", "?'", "#", "#x", "?\\", " ", "\t"]),
    ),
)


@settings(max_examples=1_000)
@given(nearly_canonical)
@example("https:///a")
@example("http://a/b")
@example("http://ex.com/a/.b")
@example("http://ex.com/a/%2e%2e")
def test_the_short_way_says_what_the_parser_says(text: str) -> None:
    """Of each URI: the same form, or the same error."""
    assert outcome(canonical, text) == outcome(parsed, text)


def outcome(read: Callable[[str], CanonicalUri], text: str) -> CanonicalUri | type[ValueError]:
    """A canonical form, or the kind of the error."""
    try:
        return read(text)
    except ValueError as problem:
        return type(problem)


@pytest.mark.parametrize(
    "text", ["https://www.ex.com/a/b-c_d/e.html?f=1&g=/h", "http://ex.com:8080/", "http://10.0.0.1/a;b"]
)
def test_a_canonical_uri_is_not_parsed_again(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    canonical(text)
    monkeypatch.setattr("can_ada.parse", lambda _: pytest.fail("parsed"))
    assert canonical(f"{text}x").uri == f"{text}x"


@given(
    st.characters(),
    st.sampled_from(["http://{}ex.com/", "http://ex.com/{}", "http://ex.com/?{}", "http{}://ex.com/"]),
)
def test_no_single_character_anywhere_does_harm(character: str, place: str) -> None:
    uri = form(place.replace("{}", character))
    assert uri is None or canonical(uri.uri) == uri
