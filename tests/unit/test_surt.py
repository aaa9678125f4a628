"""URIs turned around, and what they begin with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.uri.canonical import Malformed, canonical
from frontier_server.core.uri.surt import SurtPrefixes, surt_of, surt_prefix


@pytest.mark.parametrize(
    ("uri", "surt"),
    [
        ("http://www.example.com/path", "http://(com,example,www,)/path"),
        ("http://example.com", "http://(com,example,)/"),
        ("https://example.com/", "http://(com,example,)/"),
        ("http://example.com:8080/a", "http://(com,example,:8080)/a"),
        ("https://example.com:80/", "http://(com,example,:80)/"),
        ("http://localhost/", "http://(localhost,)/"),
        ("http://127.0.0.1/", "http://(127.0.0.1)/"),
        ("http://127.0.0.1:81/", "http://(127.0.0.1:81)/"),
        ("http://[::1]:81/", "http://([::1]:81)/"),
        ("http://faß.de/", "http://(de,xn--fa-hia,)/"),
        ("http://example.com/A/B?C=D", "http://(com,example,)/a/b?c=d"),
    ],
)
def test_a_surt_is_the_uri_with_its_host_turned_around(uri: str, surt: str) -> None:
    """Heritrix's SURT: https as http, all in lower case, the port last, addresses as they are."""
    assert surt_of(canonical(uri)) == surt


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("example.com", "http://(com,example,"),
        (" Example.COM. ", "http://(com,example,"),
        ("http://example.com", "http://(com,example,"),
        ("https://example.com", "http://(com,example,"),
        ("http://example.com/", "http://(com,example,)/"),
        ("https://example.com/a/b", "http://(com,example,)/a/"),
        ("http://example.com/A/b/", "http://(com,example,)/a/b/"),
        ("example.com/a/b", "http://(com,example,)/a/"),
        ("http://example.com/a?b=/c/d", "http://(com,example,)/"),
        ("http://example.com?b", "http://(com,example,)/"),
        ("example.com:8080", "http://(com,example,:8080)"),
        ("example.com:80", "http://(com,example,"),
        ("https://example.com:443/a/", "http://(com,example,)/a/"),
        ("127.0.0.1", "http://(127.0.0.1)"),
        ("127.0.0.1:81", "http://(127.0.0.1:81)"),
        ("[::1]", "http://([::1])"),
        ("faß.de", "http://(de,xn--fa-hia,"),
        ("com", "http://(com,"),
        ("http://(com,example,", "http://(com,example,"),
        ("https://(COM,Example,www,)/A", "http://(com,example,www,)/a"),
        ("http://(com,exam", "http://(com,exam"),
        ("http://(com,example,:8080)/a/", "http://(com,example,:8080)/a/"),
        ("http://(127.0.", "http://(127.0."),
        ("http://([::1]", "http://([::1]"),
        ("http://(", "http://("),
    ],
)
def test_a_prefix_is_written_as_a_host_a_url_or_a_surt_prefix(text: str, prefix: str) -> None:
    """Heritrix's SurtPrefixSet: a bare host is left open for its subdomains; a URL stands for its folder."""
    assert surt_prefix(text) == prefix


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a b",
        "a..b",
        "ftp://example.com/",
        "mailto:me@example.com",
        "http://",
        "http://me@example.com/",
        "example.com:x",
        "http://one.example/\nhttp://two.example/",
        "http://(com,example)/",
        "http://(com,example,)a",
        "http://(com,example/",
        "http://(www.example.com,)/",
        "http://(com,faß,",
        "http://(com, example,",
        "(com,example,",
        "com,example",
        "1.2.3.256",
        "a" * 9_000,
    ],
)
def test_what_could_match_nothing_is_refused_by_name(text: str) -> None:
    with pytest.raises(Malformed) as refused:
        surt_prefix(text)
    assert repr(text[:80]) in str(refused.value)
    assert len(str(refused.value)) < 400


labels = st.from_regex(r"[a-z]{1,4}", fullmatch=True)
hosts = st.lists(labels, min_size=1, max_size=4).map(".".join)
ports = st.sampled_from(["", ":8080"])
folders = st.lists(labels, max_size=3).map(lambda names: "".join(f"{name}/" for name in names))


@given(hosts, st.lists(labels, max_size=2), ports, folders, st.sampled_from(["http", "https"]))
def test_a_host_covers_itself_and_all_below_it(
    host: str, below: list[str], port: str, folder: str, scheme: str
) -> None:
    uri = canonical(f"{scheme}://{'.'.join([*below, host])}{port}/{folder}")
    assert surt_of(uri).startswith(surt_prefix(host))


@given(hosts, hosts)
def test_a_host_covers_no_other(host: str, other: str) -> None:
    covered = other == host or other.endswith(f".{host}")
    assert surt_of(canonical(f"http://{other}/")).startswith(surt_prefix(host)) is covered


@given(hosts, ports, folders, folders, labels)
def test_a_url_covers_its_folder_on_its_host(
    host: str, port: str, folder: str, below: str, name: str
) -> None:
    prefix = surt_prefix(f"http://{host}{port}/{folder}{name}")
    assert surt_of(canonical(f"http://{host}{port}/{folder}{below}{name}")).startswith(prefix)
    for elsewhere in (f"http://{host}:9/{folder}", f"http://x.{host}{port}/{folder}"):
        assert not surt_of(canonical(elsewhere)).startswith(prefix)


@given(hosts, ports, folders)
def test_a_prefix_of_a_prefix_is_itself(host: str, port: str, folder: str) -> None:
    for text in (f"{host}{port}", f"http://{host}{port}/{folder}"):
        assert surt_prefix(surt_prefix(text)) == surt_prefix(text)


def test_an_address_covers_no_longer_one() -> None:
    assert not surt_of(canonical("http://127.0.0.10/")).startswith(surt_prefix("127.0.0.1"))
    assert not surt_of(canonical("http://[::1]:8/")).startswith(surt_prefix("[::1]"))


def test_a_host_with_marks_of_surts_does_not_pass_for_another() -> None:
    """`,` and parentheses may stand in a host."""
    for host in ("x.com,example", "x.com,example,)", "example,www.com"):
        surt = surt_of(canonical(f"http://{host}/"))
        assert not surt.startswith("http://(com,example,"), surt


# The collection.

prefixes = st.text("ab", max_size=4)


@given(st.lists(st.tuples(st.booleans(), prefixes, st.integers()), max_size=30), st.text("ab", max_size=6))
def test_prefixes_are_found_as_by_looking_at_each_of_them(
    changes: list[tuple[bool, str, int]], surt: str
) -> None:
    found: SurtPrefixes[int] = SurtPrefixes()
    model: dict[str, int] = {}
    for put, prefix, value in changes:
        if put:
            found.put(prefix, value)
            model[prefix] = value
        else:
            found.discard(prefix)
            model.pop(prefix, None)
    matching = sorted((prefix for prefix in model if surt.startswith(prefix)), key=len)
    assert found.matching(surt) == [model[prefix] for prefix in matching]
    assert found.longest(surt) == ((matching[-1], model[matching[-1]]) if matching else None)
    assert len(found) == len(model) and dict(found.items()) == model


class CountedText(str):
    """Counts how often a part of it is taken."""

    parts = 0

    def __getitem__(self, key: object) -> str:
        self.parts += 1
        return str(self)[key]  # type: ignore[index]


def test_a_look_up_costs_a_step_for_each_length_not_for_each_prefix() -> None:
    many: SurtPrefixes[int] = SurtPrefixes()
    for number in range(3_000):
        many.put(f"http://(com,host{number:04},", number)
        many.put(f"http://(com,host{number:04},www,)/", number)
    surt = CountedText("http://(com,host0042,www,)/page")
    assert many.longest(surt) == ("http://(com,host0042,www,)/", 42)
    assert many.longest(CountedText("http://(org,")) is None
    assert many.matching(surt) == [42, 42]
    assert surt.parts <= 4
