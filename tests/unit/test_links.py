"""How references become absolute URIs."""

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from crawler_node.fetching import references
from crawler_node.fetching.references import MAX_URI_BYTES, Base, reference_of, resolve

PAGE = "http://www.alpha.example/dir/page?q=1#part"


@pytest.mark.parametrize(
    ("reference", "uri"),
    [
        ("other", "http://www.alpha.example/dir/other"),
        ("/root", "http://www.alpha.example/root"),
        ("../up/./x", "http://www.alpha.example/up/x"),
        ("?q=2", "http://www.alpha.example/dir/page?q=2"),
        ("", "http://www.alpha.example/dir/page?q=1"),
        ("#elsewhere", "http://www.alpha.example/dir/page?q=1"),
        ("x#", "http://www.alpha.example/dir/x"),
        ("//www.beta.example", "http://www.beta.example/"),
        ("https://WWW.Beta.Example:443/a b", "https://www.beta.example/a%20b"),
        (" \t\n/sp\taced\n \r", "http://www.alpha.example/spaced"),
        ("\\\\www.beta.example\\x", "http://www.beta.example/x"),
        ("\u00e9?\u00e9", "http://www.alpha.example/dir/%C3%A9?%C3%A9"),
        ("http://b\u00fccher.example/", "http://xn--bcher-kva.example/"),
        ("http:relative", "http://www.alpha.example/dir/relative"),
        ("/a/.b/../c", "http://www.alpha.example/a/c"),
        ("x/.well-known/./y/..?/.a/../b", "http://www.alpha.example/dir/x/.well-known/?/.a/../b"),
        ("//www.beta.example/a//.b/.c/../..", "http://www.beta.example/a//"),
        (".b/x", "http://www.alpha.example/dir/.b/x"),
        ("a^b?c^d", "http://www.alpha.example/dir/a%5Eb?c^d"),
    ],
)
def test_references_are_resolved_as_browsers_do(reference: str, uri: str) -> None:
    assert resolve(PAGE, reference) == uri


@pytest.mark.parametrize(
    "reference",
    [
        "javascript:alert(1)",
        "mailto:somebody@alpha.example",
        "data:text/html,x",
        "ftp://www.alpha.example/",
        "tel:1",
        "http://",
        "http://[broken/",
        "http://a b/",
        "http://a%00b/",
        "http://x:99999/",
        "\ud800",
        "/" + "x" * MAX_URI_BYTES,
        "/" + "\u00e9" * (MAX_URI_BYTES // 4),
    ],
    ids=lambda reference: repr(reference[:30]),
)
def test_what_cannot_be_fetched_is_none(reference: str) -> None:
    assert resolve(PAGE, reference) is None


def test_an_impossible_base_is_an_error_and_for_one_reference_none() -> None:
    for uri in ("nonsense", "mailto:a@b.example", "", "http://\ud800/"):
        with pytest.raises(ValueError, match="base"):
            Base(uri)
        assert resolve(uri, "x") is None


@given(st.text(max_size=200))
def test_every_reference_is_resolved_or_none(reference: str) -> None:
    uri = resolve(PAGE, reference)
    if uri is not None:
        assert uri.startswith(("http://", "https://"))
        assert uri.isascii()
        assert "#" not in uri
        assert len(uri) <= MAX_URI_BYTES
        assert resolve(PAGE, uri) == uri


BASES = [
    f"{host}{page}"
    for page in ("/dir/page", "/dir/other?q=/x/y", "/dir/", "/dir/a#/b/c", "/", "/?q", "/other/page")
    for host in ("http://a.example", "https://a.example", "http://me:pw@a.example", "http://a.example:81")
]


@examples(max_examples=1000)
@given(
    st.one_of(
        st.text("ab/?#:\\.;@ \t\n\0\x1f", max_size=8),
        st.text(max_size=8),
        st.builds(
            str.__add__,
            st.sampled_from(("http:", "HTTP:", "h\nttp:", "https://", "//", "javascript:")),
            st.text("ab/?#:\t", max_size=5),
        ),
    ),
    st.permutations(BASES),
)
def test_a_reference_means_the_same_whatever_other_pages_had_it_before(
    reference: str, bases: list[str]
) -> None:
    references._known.clear()
    remembered = [Base(base).resolve(reference) for base in bases]
    for base, uri in zip(bases, remembered, strict=True):
        references._known.clear()
        assert Base(base).resolve(reference) == uri, base


def test_bases_remember_few_references_and_short_ones() -> None:
    base = Base(PAGE)
    for number in range(references._MOST_KNOWN + 10):
        base.resolve(f"/{number}")
        base.resolve("x" * 1_000 + str(number))
    Base("http://a.example/" + "x" * 1_000).resolve("short")
    for reference in ("short", "\\", "../" * 990):
        Base("http://a.example/" + "x/" * 1_000).resolve(reference)
    assert len(references._known) <= references._MOST_KNOWN
    assert max(len(reference) + len(place) for reference, place in references._known) < 1_000
    assert max(len(uri) for uri in references._known.values() if uri) < 1_000


@pytest.mark.parametrize(
    ("value", "uri"),
    [
        (b"/caf\xe9", "http://a.example/caf%E9"),
        ("/café".encode(), "http://a.example/caf%C3%A9"),
        (b"caf\xe9", "http://a.example/dir/caf%E9"),
        (b"?q=\xe9&r=%E9", "http://a.example/dir/page?q=%E9&r=%E9"),
        (b"/\xe9#\xe9", "http://a.example/%E9"),
        (b"/a b\xe9'", "http://a.example/a%20b%E9'"),
        (b"/\x93\xfa\x96{", "http://a.example/%93%FA%96%7B"),
        (b"/\xc3\xa9\xe9", "http://a.example/%C3%A9%E9"),
        (b"http://other.example/\xe9", "http://other.example/%E9"),
        (b"HTTP://other.example\\\xe9", "http://other.example/%E9"),
        (b"//other.example?\xe9", "http://other.example/?%E9"),
        (b"http://b\xfccher.example/\xfc", "http://xn--bcher-kva.example/%FC"),
        ("http://bücher.example/".encode() + b"\xfc", "http://xn--bcher-kva.example/%FC"),
        ("//bücher.example/ü".encode(), "http://xn--bcher-kva.example/%C3%BC"),
        (b"http://\xff\xfe\x80", None),
        (b"mailto:\xe9", None),
    ],
)
def test_a_reference_in_unknown_bytes_means_those_bytes(value: bytes, uri: str | None) -> None:
    assert resolve("http://a.example/dir/page", reference_of(value)) == uri
