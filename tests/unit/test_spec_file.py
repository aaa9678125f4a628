"""Spec files: what they say, what is refused in them, and when two specs mean the same."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tomli
from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration

from frontier_server import wire
from toehold.frontier.v1 import crawl_pb2
from toehold_client.errors import InvalidArgument, InvalidSpec
from toehold_client.spec import file as spec_file
from toehold_client.spec.file import (
    MAX_FILE_BYTES,
    differences,
    load,
    located,
    parse,
    plain,
    template,
)
from toehold_client.spec.listed import normalise_seed, read_seeds, read_uris
from toehold_client.spec.plain import key_of

HERE = Path("some/crawl.toml")
COMMENTED_OUT = re.compile(r"^# (?=\w+ = )", re.MULTILINE)
EXAMPLE = re.compile(r"^#   (.*)$", re.MULTILINE)


def spec_of(text: str) -> crawl_pb2.CrawlSpec:
    return parse(text, HERE).spec


def test_the_template_means_the_default_spec() -> None:
    assert spec_of(template()) == crawl_pb2.CrawlSpec()


def test_the_template_shows_every_field_with_its_default() -> None:
    """Uncommented, it says what the frontier itself fills in."""
    said = tomli.loads(COMMENTED_OUT.sub("", template()))
    beside = {key: said.pop(key) for key in ("name", "seeds", "seeds_file", "surt_prefixes_file")}
    assert beside == {"name": "my-crawl", "seeds": [], "seeds_file": "", "surt_prefixes_file": ""}
    filled = wire.spec(wire.settings_of(crawl_pb2.CrawlSpec()))
    assert json.dumps(said) == json.dumps(tables_last(plain(filled)))  # in the contract's order, too


def tables_last(said: dict[str, Any]) -> dict[str, Any]:
    """What a spec says in the order that TOML wants it in."""
    tables = {key: tables_last(value) for key, value in said.items() if isinstance(value, dict)}
    return {key: value for key, value in said.items() if key not in tables} | tables


def test_the_templates_examples_are_good_and_show_every_field_of_their_tables() -> None:
    said = plain(spec_of("\n".join(EXAMPLE.findall(template()))))
    (group,), (rewrite,), (rule,) = said["groups"], said["identity"]["rewrites"], said["retry"]["statuses"]
    (credential,) = said["fetch"]["credentials"]
    assert all(group[key] for key in ("name", "hosts")) and rewrite["pattern"] and all(credential.values())
    shown = {line.split(" = ")[0] for line in EXAMPLE.findall(template())}
    tables = {"[[groups]]", "[[identity.rewrites]]", "[[retry.statuses]]", "[[fetch.credentials]]"}
    assert shown == tables | {*group, *rewrite, *rule, *credential}
    assert (group["max_parallel"], group["min_gap_seconds"]) == (1, 0.0), "the defaults"


def test_the_clients_defaults_are_the_frontiers() -> None:
    assert plain(crawl_pb2.CrawlSpec()) == plain(wire.spec(wire.settings_of(crawl_pb2.CrawlSpec())))


def test_a_spec_file_can_say_every_field_of_a_spec() -> None:
    def same(said: dict[str, Any], message: Descriptor | None) -> None:
        assert message is not None
        fields = {key_of(field): field for field in message.fields}
        assert set(said) == set(fields), message.name
        for key, field in fields.items():
            if isinstance(said[key], dict):
                same(said[key], field.message_type)
            elif field.message_type is not None and field.is_repeated:
                same(said[key][0], field.message_type)

    lists = "[[identity.rewrites]]\n[[groups]]\n[[retry.statuses]]\n[[fetch.credentials]]\n"
    same(plain(spec_of(lists)), crawl_pb2.CrawlSpec.DESCRIPTOR)


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
        max_elapsed_seconds = 3600
        [limits.host_quota]
        max_successes = 5
        [identity]
        rules = ["strip-www", "lower-case"]
        [[identity.rewrites]]
        pattern = '[?]s=\\d+'
        replacement = ''
        [queues]
        partition = "registered-domain"
        queue_key = "mine"
        retire = true
        success_thresholds = [10]
        session_budget = -1
        total_budget = 0
        [revisit]
        policy = "adaptive"
        interval_seconds = 60
        shrink = 0.25
        [reseed]
        max_rounds = -1
        [[groups]]
        name = "shop"
        hosts = ["a.example", "b.example"]
        [[groups]]
        name = "press"
        hosts = ["c.example"]
        max_parallel = 3
        min_gap_seconds = 1.5
        [address_group]
        max_parallel = 2
        """
    )
    assert spec == crawl_pb2.CrawlSpec(
        contact="me@example.org",
        allowed_addresses=["10.0.0.0/8", "192.0.2.0/24"],
        scope=crawl_pb2.ScopeSpec(hosts=["www.example.com:8080"], max_link_hops=0),
        politeness=crawl_pb2.PolitenessSpec(delay_factor=2.0, min_delay=Duration(nanos=50_000_000)),
        robots=crawl_pb2.RobotsSpec(unreachable=crawl_pb2.RobotsUnreachable.ROBOTS_UNREACHABLE_ALLOW),
        fetch=crawl_pb2.FetchSpec(max_bytes=5_000_000_000, product_token="mine"),
        limits=crawl_pb2.LimitSpec(
            max_documents=7,
            max_elapsed=Duration(seconds=3600),
            host_quota=crawl_pb2.QuotaSpec(max_successes=5),
        ),
        identity=crawl_pb2.IdentitySpec(
            rules=["strip-www", "lower-case"],
            rewrites=[crawl_pb2.RewriteRule(pattern=r"[?]s=\d+", replacement="")],
        ),
        queues=crawl_pb2.QueueSpec(
            partition="registered-domain",
            queue_key="mine",
            retire=True,
            success_thresholds=[10],
            session_budget=-1,
            total_budget=0,
        ),
        revisit=crawl_pb2.RevisitSpec(policy="adaptive", interval=Duration(seconds=60), shrink=0.25),
        reseed=crawl_pb2.ReseedSpec(max_rounds=-1),
        groups=[
            crawl_pb2.HostGroup(name="shop", hosts=["a.example", "b.example"]),
            crawl_pb2.HostGroup(
                name="press",
                hosts=["c.example"],
                max_parallel=3,
                min_gap=Duration(seconds=1, nanos=500_000_000),
            ),
        ],
        address_group=crawl_pb2.AddressGroupSpec(max_parallel=2),
    )


def test_what_is_said_the_default_way_is_left_to_the_frontier() -> None:
    assert spec_of('[robots]\nunreachable = "forbid"\nmax_attempts = 5') == crawl_pb2.CrawlSpec()


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("colour = 1", "colour", "no such field; must be one of name, seeds, "),
        ("contcat = 'x'", "contcat", "no such field; did you mean contact?"),
        ("[scope]\nmax_hops = 1", "scope.max_hops", "no such field; did you mean max_link_hops?"),
        ("[politeness]\nmin_delay = 3", "politeness.min_delay", "did you mean min_delay_seconds?"),
        (
            "[politeness]\nmin_delay_seconds = '3'",
            "politeness.min_delay_seconds",
            'must be a number, got "3"',
        ),
        (
            "[politeness]\nmin_delay_seconds = -1",
            "politeness.min_delay_seconds",
            "must be at least 0, got -1",
        ),
        ("[politeness]\nmin_delay_seconds = nan", "politeness.min_delay_seconds", "at least 0, got NaN"),
        (
            "[politeness]\nmin_delay_seconds = inf",
            "politeness.min_delay_seconds",
            "must be at most 315576000000",
        ),
        ("[scope]\nmax_link_hops = 1.5", "scope.max_link_hops", "must be a whole number, got 1.5"),
        (
            "[scope]\nmax_link_hops = 3000000000",
            "scope.max_link_hops",
            "must be at most 2147483647, got 3000000000",
        ),
        ("[scope]\nhosts = 'www.example.com'", "scope.hosts", 'must be a list, got "www.example.com"'),
        ("[scope]\nhosts = ['a', 7]", "scope.hosts[1]", "must be text, got 7"),
        ("scope = 1", "scope", "must be a table, got 1"),
        ("[limits.host_quota]\nmax_sucesses = 1", "limits.host_quota.max_sucesses", "mean max_successes?"),
        ("[limits.host_quota]\nmax_bytes = -1", "limits.host_quota.max_bytes", "did you mean "),
        (
            "[limits.source_quota]\nmax_responses = -1",
            "limits.source_quota.max_responses",
            "must be at least 0, got -1",
        ),
        ("[[groups]]\nhost = ['a']", "groups[0].host", "no such field; did you mean hosts?"),
        ("[[groups]]\nhosts = 'a'", "groups[0].hosts", 'must be a list, got "a"'),
        ("[groups]\nname = 'a'", "groups", 'must be a list, got {"name": "a"}'),
        (
            "[[identity.rewrites]]\nwith = ''",
            "identity.rewrites[0].with",
            "must be one of pattern, replacement",
        ),
        ("[queues]\npartition = ''", "queues.partition", "must have at least 1 character"),
        ("[queues]\nsuccess_thresholds = []", "queues.success_thresholds", "must have at least 1 item"),
        ("[politeness]\nacross_crawls = 'no'", "politeness.across_crawls", 'must be true or false, got "no"'),
        ("weight = 1e3", "weight", "must be a whole number, got 1000.0"),
        ("seeds = 'http://www.example.com/'", "seeds", "must be a list, got "),
        (
            "[robots]\nunreachable = 'maybe'",
            "robots.unreachable",
            'must be one of forbid, allow, got "maybe"',
        ),
        ("allowed_addresses = []", "allowed_addresses", "must have at least 1 item"),
        ("[fetch]\nproduct_token = ''", "fetch.product_token", "must have at least 1 character"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, place: str, problem: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse(text, HERE)
    assert str(caught.value).startswith(f"some/crawl.toml: {place}: ")
    assert problem in caught.value.problems[place]


@pytest.mark.parametrize("text", ["name = ", "name = 'a'\nname = 'b'", "[scope", "\x00"])
def test_what_is_no_toml_is_told_with_its_line(text: str) -> None:
    with pytest.raises(InvalidSpec, match=r"some/crawl.toml must be TOML: .*\(at "):
        parse(text, HERE)


def test_a_number_that_python_does_not_read_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="thousands of digits"):
        parse(f"weight = {'9' * 5000}", Path("crawl.toml"))


def test_values_nested_without_end_are_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"nested too deeply|not TOML"):
        parse(f"name = {'[' * 100_000}", HERE)


@pytest.mark.parametrize("text", ["name.{} = 1", "[name.{}]", "[[name.{}]]"])
def test_keys_of_parts_without_end_are_refused(text: str) -> None:
    """Reading them would take the square of their number."""
    with pytest.raises(InvalidSpec, match="must be a spec, but its keys or values are nested too deeply"):
        parse(text.format(".".join("a" * 10_000)), HERE)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"missing\.toml cannot be read: No such file"):
        load(tmp_path / "missing.toml")
    with pytest.raises(InvalidSpec, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_file_that_is_no_text_or_too_long_is_told(tmp_path: Path) -> None:
    file = tmp_path / "crawl.toml"
    file.write_bytes(b"name = '\xff'")
    with pytest.raises(InvalidSpec, match="must be UTF-8 text"):
        load(file)
    file.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(InvalidSpec, match=f"must have at most {MAX_FILE_BYTES} bytes"):
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
    with pytest.raises(InvalidSpec, match="must be UTF-8 text"):
        list(read_seeds(tmp_path / "seeds.txt"))


# SURT prefixes.


def with_prefixes(folder: Path, prefixes: str | bytes, listed: str = "[]") -> Path:
    """A spec file with a file of prefixes beside it."""
    content = prefixes.encode() if isinstance(prefixes, str) else prefixes
    (folder / "surts.txt").write_bytes(content)
    file = folder / "crawl.toml"
    file.write_text(f'surt_prefixes_file = "surts.txt"\n[scope]\nsurt_prefixes = {listed}\n')
    return file


def test_surt_prefixes_are_those_listed_then_those_of_the_file_beside_the_spec(tmp_path: Path) -> None:
    lines = (
        "\ufeff# ours\n+http://(com,example, # all\n\n  -http://(com,example,www,)/a  \nexample.org\n"
        "#-not.this\n"
    )
    found = load(with_prefixes(tmp_path, lines, '["-first.example"]'))
    assert list(found.spec.scope.surt_prefixes) == [
        "-first.example",
        "+http://(com,example,",
        "-http://(com,example,www,)/a",
        "example.org",
    ]
    surts = tmp_path / "surts.txt"
    assert found.places == {
        "scope.surt_prefixes[1]": f"{surts}, line 2",
        "scope.surt_prefixes[2]": f"{surts}, line 4",
        "scope.surt_prefixes[3]": f"{surts}, line 5",
    }


@pytest.mark.parametrize("line", ["+", "-", "+http://(com, example", "a b"])
def test_a_line_that_is_no_surt_prefix_is_told_with_its_number(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidSpec, match=rf"surts\.txt, line 3: must be .*, got '{re.escape(line)}'"):
        load(with_prefixes(tmp_path, f"# two\n+lines.example\n{line}\n"))


def test_a_file_of_surt_prefixes_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"the SURT prefixes file .*surts\.txt must be UTF-8 text"):
        load(with_prefixes(tmp_path, b"+a.example\n\xff\n"))
    (tmp_path / "surts.txt").unlink()
    with pytest.raises(
        InvalidSpec, match=r"the SURT prefixes file .*surts\.txt cannot be read: No such file"
    ):
        load(tmp_path / "crawl.toml")


def test_no_more_surt_prefixes_are_read_than_a_frontier_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec_file, "MAX_SURT_PREFIXES", 3)
    assert len(load(with_prefixes(tmp_path, "b\nc\n", '["a"]')).places) == 2
    with pytest.raises(InvalidSpec, match=r"surts\.txt, line 3: a crawl can have at most 3 SURT prefixes"):
        load(with_prefixes(tmp_path, "b\nc\nd\n", '["a"]'))


def test_a_refusal_names_the_line_of_another_file_and_keeps_the_other_places() -> None:
    refusal = InvalidSpec(
        "all", reason="INVALID_SPEC", metadata={"contact": "c", "scope.surt_prefixes[1]": "s"}
    )
    told = located(refusal, {"scope.surt_prefixes[1]": "surts.txt, line 7"})
    assert told.problems == {"contact": "c", "surts.txt, line 7": "s"}
    assert (str(told), told.reason) == ("contact c; surts.txt, line 7: s", "INVALID_SPEC")
    assert str(located(InvalidSpec("untold"), {})) == "untold"


# Seeds.


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
        ("mailto:me@example.com", "mailto:me@example.com"),
        ("ftp://example.com/", "ftp://example.com/"),
    ],
)
def test_a_seed_without_a_scheme_gets_https(typed: str, seed: str) -> None:
    assert normalise_seed(typed) == seed


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("https//example.org", "https://example.org"),
        ("http//example.org/a", "http://example.org/a"),
        ("http:/example.org", "http://example.org"),
        ("https:example.org", "https://example.org"),
        ("https:///example.org", "https://example.org"),
        ("https;//example.org", "https://example.org"),
        ("htp://example.org", "http://example.org"),
        ("HTTTPS://example.org", "https://example.org"),
        ("htpps://example.org:8080/?q", "https://example.org:8080/?q"),
        ("ttps://example.org", "https://example.org"),
        ("http://https://example.org/", "https://example.org/"),
        ("https:http://example.org", "http://example.org"),
    ],
)
def test_a_mistyped_scheme_is_refused_with_the_url_that_was_meant(typed: str, meant: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        normalise_seed(typed)
    assert str(refusal.value) == f"{typed!r} is not a URL; did you mean {meant}?"


# As people write seeds files, and what was fetched for some before: another URL.
MORE_THAN_A_URL = [
    ("http://a.example/ home", "a blank is %20"),
    ("http://a.example/\thome", "a blank is %20"),
    ("http://a.example/\xa0home", "a blank is %20"),
    ("http://a.example/ http://b.example/", "a blank is %20"),
    ("- http://a.example/", "a blank is %20"),
    ("http://a.example/ // ours", "a blank is %20"),
    ("+http://(com,example,)", "looks like a SURT prefix"),
    ("-http://(com,example,www,)/a", "looks like a SURT prefix"),
    ("+a.example", "looks like a SURT prefix"),
    ("http://(com,example,)/", "looks like a SURT prefix"),
    ("(com,example,", "looks like a SURT prefix"),
    ("http://a.example/,http://b.example/", "on a line of its own"),
    ("http://a.example/;https://b.example/", "on a line of its own"),
    ("'http://a.example/'", "without quotes"),
    ('"http://a.example/"', "without quotes"),
    ("<http://a.example/>", "without quotes"),
    ("\u200bhttp://a.example/", "the invisible character U\\+200B"),
    ("http://a.exa\xadmple/", "the invisible character U\\+00AD"),
    ("http://a.example/\x00", "the invisible character U\\+0000"),
    ('"a.example"', "a host cannot have '\"'"),
    ("a.example,b.example", "a host cannot have ','"),
    ("*.a.example", "a host cannot have '\\*'"),
    ("[a](http://a.example/)", "a host cannot have '\\('"),
    ("http://user@a.example;b.example/", "a host cannot have ';'"),
]


@pytest.mark.parametrize(("line", "why"), MORE_THAN_A_URL)
def test_a_line_with_more_than_a_url_is_refused_with_its_number(tmp_path: Path, line: str, why: str) -> None:
    """It would become another URL: the URL standard escapes blanks and drops tabs."""
    file = tmp_path / "seeds.txt"
    file.write_text(f"# ours\na.example\n{line}\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=rf"seeds\.txt, line 3: .*{why}"):
        list(read_seeds(file))
    with pytest.raises(InvalidArgument, match=why):
        normalise_seed(line)
    if "a host" not in why:
        with pytest.raises(InvalidArgument, match=rf"seeds\.txt, line 3: .*{why}"):
            list(read_uris(file))


@pytest.mark.parametrize(
    ("line", "seed"),
    [
        ("http://a.example/ # home", "http://a.example/"),
        ("http://a.example/\t#home", "http://a.example/"),
        ("a.example # one # two", "https://a.example"),
        ("http://a.example/#part", "http://a.example/#part"),
        ("http://a.example/#part # home", "http://a.example/#part"),
        ("\ufeffa.example", "https://a.example"),
        ("http://a.example/?u=b,http://c.example/", "http://a.example/?u=b,http://c.example/"),
        ("http://a.example/web/http://b.example/", "http://a.example/web/http://b.example/"),
        ("http://a.example/(b),'c'", "http://a.example/(b),'c'"),
        ("http://us,er:pa!ss@a.example/", "http://us,er:pa!ss@a.example/"),
        ("http://fa.example/می\u200cخواهم", "http://fa.example/می\u200cخواهم"),
    ],
)
def test_a_trailing_comment_is_dropped_and_what_belongs_to_a_url_is_kept(
    tmp_path: Path, line: str, seed: str
) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text(f"\n{line}\n # none\n", encoding="utf-8")
    assert list(read_seeds(file)) == [seed] == [normalise_seed(line)]
    assert [uri.removeprefix("https://") for uri in read_uris(file)] == [seed.removeprefix("https://")]


def test_a_long_seed_line_is_parsed_in_linear_time() -> None:
    for line in ("a" + " " * 900_000 + "b", "," * 900_000, "http://" * 100_000):
        with pytest.raises(InvalidArgument):
            normalise_seed(line)


@pytest.mark.parametrize("typed", ["http.example", "https.example/a//b", "http:8080", "shop:80/", "a//b"])
def test_a_host_that_looks_like_a_scheme_is_a_host(typed: str) -> None:
    assert normalise_seed(typed) == f"https://{typed}"


def test_a_mistyped_seed_in_a_file_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("# ours\na.example\nhtps://b.example\n")
    with pytest.raises(InvalidArgument, match=r"seeds\.txt, line 3: 'htps://b.example' is not a URL; did"):
        list(read_seeds(file))


@pytest.mark.parametrize(
    "text",
    [
        '[robots]\nunreachable = "allow"\n[retry]\ngrowth = 1.5\ndelay_seconds = 0.25',
        "[politeness]\nmin_delay_seconds = 60\noverload_delay_seconds = 7200",
        "[retry]\ndelay_seconds = 20000",
        "[revisit]\ninterval_seconds = 60",
        "[revisit]\ninterval_seconds = 5000000",
        "[politeness]\nmin_delay_seconds = 60\nmax_delay_seconds = 90",
        '[limits.host_quota]\nmax_successes = 3\n[[groups]]\nname = "a"\nhosts = ["a.example"]',
        "[queues]\nsession_budget = 0\ntotal_budget = 5\nsuccess_thresholds = [3]",
    ],
)
def test_a_spec_equals_itself_as_the_frontier_tells_it(text: str) -> None:
    spec = spec_of(f'contact = "a@b.example"\n{text}')
    filled = wire.spec(wire.settings_of(spec))
    assert filled != spec
    assert differences(filled, spec) == []


def test_a_spec_whose_number_is_none_equals_itself() -> None:
    spec = spec_of('contact = "a@b.example"\n[politeness]\ndelay_factor = nan')
    assert differences(spec, spec) == []


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
        plain(crawl_pb2.CrawlSpec(politeness=crawl_pb2.PolitenessSpec(min_delay=Duration(seconds=-1))))
