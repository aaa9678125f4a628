"""Spec files: what they say, what is refused in them, and when two specs mean the same."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration

from frontier_server import wire
from toehold.frontier.v1.crawl_pb2 import (
    CrawlSpec,
    FetchSpec,
    LimitSpec,
    PolitenessSpec,
    RobotsSpec,
    RobotsUnreachable,
    ScopeSpec,
)
from toehold_client.errors import InvalidSpec
from toehold_client.spec_file import (
    MAX_FILE_BYTES,
    differences,
    load,
    normalise_seed,
    parse,
    plain,
    read_seeds,
    template,
)

HERE = Path("some/crawl.toml")
COMMENTED_OUT = re.compile(r"^# (?=\w+ = )", re.MULTILINE)


def spec_of(text: str) -> CrawlSpec:
    return parse(text, HERE).spec


def test_the_template_means_the_default_spec() -> None:
    assert spec_of(template()) == CrawlSpec()


def test_the_template_shows_every_field_with_its_default() -> None:
    """Uncommented, it says what the frontier itself fills in."""
    said = tomllib.loads(COMMENTED_OUT.sub("", template()))
    beside = {key: said.pop(key) for key in ("name", "seeds", "seeds_file")}
    assert beside == {"name": "my-crawl", "seeds": [], "seeds_file": ""}
    filled = wire.spec(wire.settings_of(CrawlSpec()))
    assert json.dumps(said) == json.dumps(plain(filled))  # in the contract's order, too


def test_the_clients_defaults_are_the_frontiers() -> None:
    assert plain(CrawlSpec()) == plain(wire.spec(wire.settings_of(CrawlSpec())))


def test_a_spec_file_can_say_every_field_of_a_spec() -> None:
    def names(prefix: str, message: type) -> set[str]:
        fields = message.DESCRIPTOR.fields  # type: ignore[attr-defined]
        return {f"{prefix}{field.name}" for field in fields}

    tables = {field.name: field.message_type for field in CrawlSpec.DESCRIPTOR.fields if field.message_type}
    said = plain(CrawlSpec())
    assert set(said) == names("", CrawlSpec)
    for table, descriptor in tables.items():
        assert {key.removesuffix("_seconds") for key in said[table]} == {
            field.name for field in descriptor.fields
        }


def test_everything_said_arrives_in_the_spec() -> None:
    spec = spec_of(
        """
        contact = "me@example.org"
        allowed_addresses = ["10.0.0.0/8", "192.0.2.0/24"]
        [scope]
        hosts = ["www.example.com:8080"]
        max_link_hops = 0
        [politeness]
        delay_factor = 2
        min_delay_seconds = 0.05
        [robots]
        unreachable = "allow"
        [fetch]
        max_bytes = 5000000000
        product_token = "mine"
        [limits]
        max_documents = 7
        """
    )
    assert spec == CrawlSpec(
        contact="me@example.org",
        allowed_addresses=["10.0.0.0/8", "192.0.2.0/24"],
        scope=ScopeSpec(hosts=["www.example.com:8080"], max_link_hops=0),
        politeness=PolitenessSpec(delay_factor=2.0, min_delay=Duration(nanos=50_000_000)),
        robots=RobotsSpec(unreachable=RobotsUnreachable.ROBOTS_UNREACHABLE_ALLOW),
        fetch=FetchSpec(max_bytes=5_000_000_000, product_token="mine"),
        limits=LimitSpec(max_documents=7),
    )


def test_what_is_said_the_default_way_is_left_to_the_frontier() -> None:
    assert spec_of('[robots]\nunreachable = "forbid"\nmax_attempts = 5') == CrawlSpec()


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("colour = 1", "colour", "no such field; there are name, seeds, "),
        ("contcat = 'x'", "contcat", "no such field; did you mean contact?"),
        ("[scope]\nmax_hops = 1", "scope.max_hops", "no such field; did you mean max_link_hops?"),
        ("[politeness]\nmin_delay = 3", "politeness.min_delay", "did you mean min_delay_seconds?"),
        (
            "[politeness]\nmin_delay_seconds = '3'",
            "politeness.min_delay_seconds",
            "expected `float`, got `str`",
        ),
        ("[politeness]\nmin_delay_seconds = -1", "politeness.min_delay_seconds", "expected `float` >= 0.0"),
        ("[politeness]\nmin_delay_seconds = nan", "politeness.min_delay_seconds", "expected `float` >= 0.0"),
        ("[politeness]\nmin_delay_seconds = inf", "politeness.min_delay_seconds", "expected `float` <= "),
        ("[scope]\nmax_link_hops = 1.5", "scope.max_link_hops", "expected `int`, got `float`"),
        ("[scope]\nmax_link_hops = 3000000000", "scope.max_link_hops", "expected `int` <= 2147483647"),
        ("[scope]\nhosts = 'www.example.com'", "scope.hosts", "expected `array`, got `str`"),
        ("[scope]\nhosts = ['a', 7]", "scope.hosts[1]", "expected `str`, got `int`"),
        ("scope = 1", "scope", "expected `object`, got `int`"),
        ("seeds = 'http://www.example.com/'", "seeds", "expected `array`, got `str`"),
        ("[robots]\nunreachable = 'maybe'", "robots.unreachable", "invalid enum value 'maybe'"),
        ("allowed_addresses = []", "allowed_addresses", "expected `array` of length >= 1"),
        ("[fetch]\nproduct_token = ''", "fetch.product_token", "expected `str` of length >= 1"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, place: str, problem: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse(text, HERE)
    assert str(caught.value).startswith(f"some/crawl.toml: {place}: ")
    assert problem in caught.value.problems[place]


@pytest.mark.parametrize("text", ["name = ", "name = 'a'\nname = 'b'", "[scope", "\x00"])
def test_what_is_no_toml_is_told_with_its_line(text: str) -> None:
    with pytest.raises(InvalidSpec, match=r"some/crawl.toml is not TOML: .*\(at "):
        parse(text, HERE)


def test_values_nested_without_end_are_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"nested too deeply|not TOML"):
        parse(f"name = {'[' * 100_000}", HERE)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"missing\.toml cannot be read: No such file"):
        load(tmp_path / "missing.toml")
    with pytest.raises(InvalidSpec, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_file_that_is_no_text_or_too_long_is_told(tmp_path: Path) -> None:
    file = tmp_path / "crawl.toml"
    file.write_bytes(b"name = '\xff'")
    with pytest.raises(InvalidSpec, match="is not UTF-8 text"):
        load(file)
    file.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(InvalidSpec, match=f"more than {MAX_FILE_BYTES} bytes"):
        load(file)


def test_seeds_are_those_listed_then_those_of_the_file_beside_the_spec(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text(
        "\ufeffhttp://www.example.com/\n\n  # not this\n www.example.org/b \n#nor this\n"
    )
    file = tmp_path / "crawl.toml"
    file.write_text('name = "news"\nseeds = ["example.net"]\nseeds_file = "seeds.txt"\n')
    found = load(file)
    assert found.name == "news"
    assert list(found.seeds()) == [
        "https://example.net",
        "http://www.example.com/",
        "https://www.example.org/b",
    ]


def test_a_seeds_file_that_is_not_there_is_told_before_anything_is_asked_of_a_frontier(
    tmp_path: Path,
) -> None:
    file = tmp_path / "crawl.toml"
    file.write_text('seeds_file = "seeds.txt"')
    with pytest.raises(InvalidSpec, match=r"the seeds file .*seeds\.txt cannot be read: No such file"):
        load(file)


def test_a_seeds_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_bytes(b"http://www.example.com/\n\xff\n")
    with pytest.raises(InvalidSpec, match="is not UTF-8 text"):
        list(read_seeds(tmp_path / "seeds.txt"))


@pytest.mark.parametrize(
    ("typed", "seed"),
    [
        ("http://www.example.com/", "http://www.example.com/"),
        ("HTTPS://www.example.com/", "HTTPS://www.example.com/"),
        ("www.example.com", "https://www.example.com"),
        ("www.example.com/a?b=http://c", "https://www.example.com/a?b=http://c"),
        ("www.example.com:8080", "https://www.example.com:8080"),
        ("localhost:8080/a", "https://localhost:8080/a"),
        ("localhost:80?q", "https://localhost:80?q"),
        ("127.0.0.1:8000", "https://127.0.0.1:8000"),
        ("[::1]:8000/", "https://[::1]:8000/"),
        ("//www.example.com/a", "https://www.example.com/a"),
        (" www.example.com\n", "https://www.example.com"),
        ("bücher.example", "https://bücher.example"),
        ("mailto:me@example.com", "mailto:me@example.com"),  # for the frontier to refuse by name
        ("ftp://example.com/", "ftp://example.com/"),
    ],
)
def test_a_seed_without_a_scheme_gets_https(typed: str, seed: str) -> None:
    assert normalise_seed(typed) == seed


def test_a_spec_equals_itself_as_the_frontier_tells_it() -> None:
    robots, retry = '[robots]\nunreachable = "allow"', "[retry]\ngrowth = 1.5\ndelay_seconds = 0.25"
    spec = spec_of(f'contact = "a@b.example"\n{robots}\n{retry}')
    filled = wire.spec(wire.settings_of(spec))
    assert filled != spec
    assert differences(filled, spec) == []


def test_differences_are_told_by_field() -> None:
    old = spec_of('allowed_addresses = ["loopback"]\n[scope]\nmax_link_hops = 3')
    new = spec_of('[robots]\nunreachable = "allow"')
    assert differences(old, new) == [
        'allowed_addresses: was ["loopback"], is ["public"]',
        "scope.max_link_hops: was 3, is 20",
        'robots.unreachable: was "forbid", is "allow"',
    ]


def test_a_message_that_no_file_could_say_is_an_invalid_spec() -> None:
    with pytest.raises(InvalidSpec, match=r"politeness\.min_delay_seconds"):
        plain(CrawlSpec(politeness=PolitenessSpec(min_delay=Duration(seconds=-1))))
