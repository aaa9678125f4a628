"""`toehold init`, `create`, `launch` and `run`: a spec file, its seeds, and the launch of its crawl."""

from pathlib import Path

import grpc
import pytest
from client_doubles.command_line import (
    NASCENT,
    RUNNING,
    said,
)
from client_doubles.fake_frontier import FakeFrontier, Refusal
from frontier_harness.command_line import Toehold

from toehold.frontier.v1 import admin_pb2, crawl_pb2
from toehold_client.spec import file as spec_file


def test_init_writes_a_spec_that_can_be_loaded(toehold_at: Toehold, tmp_path: Path) -> None:
    file = tmp_path / "crawl.toml"
    code, output, _ = toehold_at("init", str(file))
    assert (code, str(file) in output) == (0, True)
    assert spec_file.load(file).spec == crawl_pb2.CrawlSpec()


def test_init_overwrites_nothing(toehold_at: Toehold, tmp_path: Path) -> None:
    file = tmp_path / "crawl.toml"
    file.write_text("mine")
    code, _, errors = toehold_at("init", str(file))
    assert code == 2
    assert "exists already" in errors
    assert file.read_text() == "mine"


def test_init_where_nothing_can_be_written_is_told(toehold_at: Toehold, tmp_path: Path) -> None:
    code, _, errors = toehold_at("init", str(tmp_path / "missing" / "crawl.toml"))
    assert (code, "cannot be written: No such file" in errors) == (2, True)


@pytest.mark.parametrize(
    "command",
    [
        ("create", "crawl.toml"),
        ("launch", "crawl.toml"),
        ("init", "new.toml", "--seeds-file", "seeds.txt"),
        ("crawl", "--seeds-file", "seeds.txt", "--contact", "me@a.example"),
        ("crawl", "--spec", "crawl.toml", "--contact", "me@a.example"),
        ("seen", "note", "--crawl", "t", "--file", "seeds.txt"),
    ],
    ids=" ".join,
)
def test_a_line_with_more_than_a_url_is_refused_with_its_number_at_each_door(
    toehold_at: Toehold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """It would be fetched as http://a.example/%20home."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seeds.txt").write_text("\ufeff# ours\nhttp://a.example/ home\n", encoding="utf-8")
    (tmp_path / "crawl.toml").write_text('name = "t"\nseeds_file = "seeds.txt"\n')
    code, _, errors = toehold_at(*command)
    assert code == 2
    assert (
        "seeds.txt, line 2: must be one URL, got 'http://a.example/ home'; in a URL a blank is %20" in errors
    )


def test_init_writes_what_its_options_say_as_crawl_understands_them(
    toehold_at: Toehold, tmp_path: Path
) -> None:
    file = tmp_path / "specs" / "crawl.toml"
    file.parent.mkdir()
    seeds_file = tmp_path / "seeds.txt"
    seeds_file.write_text("www.b.example\n")
    given = [
        *("--seeds-file", str(seeds_file), "--exclude", "*.pdf", "--exclude", '/"a"/', "--subdomains"),
        *("--page-requisites", "--max-hops", "2", "--max-pages", "9", "--max-time", "1h30m"),
        *("--min-delay", "60", "--delay-factor", "0", "--parallel", "2", "--adaptive"),
        *("--contact", "me@a.example"),
        *("--user-agent", "my-bot", "--max-attempts", "3", "--retry-delay", "0.5", "--fetch-timeout", "7"),
    ]
    code, output, errors = toehold_at("init", str(file), "a.example/x", *given)
    assert (code, errors) == (0, "")
    assert output == f"Wrote {file}. To start the crawl, run: toehold launch {file}\n"
    found = spec_file.load(file)
    assert list(found.seeds()) == ["https://a.example/x", "https://www.b.example"]
    spec = found.spec
    assert list(spec.scope.reject_patterns) == [r".*\.pdf", "https?://[^/]*/%22a%22/.*"]
    assert list(spec.scope.surt_prefixes) == ["+a.example", "+b.example"]
    assert (spec.scope.page_requisites, spec.scope.max_link_hops, spec.limits.max_documents) == (True, 2, 9)
    assert (spec.limits.max_elapsed.seconds, spec.politeness.min_delay.seconds) == (5400, 60)
    assert spec.politeness.max_delay.seconds == 60, "it would contradict the shortest rest"
    politeness = spec.politeness
    assert (politeness.delay_factor, politeness.adaptive, politeness.max_parallel) == (0, True, 2)
    assert (spec.contact, spec.fetch.product_token, spec.retry.max_attempts) == ("me@a.example", "my-bot", 3)
    assert (spec.retry.delay.ToMilliseconds(), spec.fetch.timeout.seconds) == (500, 7)
    assert "# Most links between a seed and a URI." in file.read_text(), "with its comments"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("https://a.example/",),
            "Name the file before the URLs: toehold init crawl.toml URL",
        ),
        (("f.toml", "htp://a.example"), "did you mean http://a.example?"),
        (("f.toml", "--subdomains"), "--subdomains needs URLs"),
        (("f.toml", "--seeds-file", "-"), "it cannot be -"),
        (("f.toml", "--exclude", "docs"), "did you mean /docs/"),
    ],
)
def test_init_with_options_that_make_no_sense_writes_nothing(
    toehold_at: Toehold,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, errors = toehold_at("init", *arguments)
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert told in " ".join(errors.split())


def spec_at(folder: Path, text: str = 'name = "c"\nseeds = ["www.example.com", "mailto:x"]') -> str:
    file = folder / "crawl.toml"
    file.write_text(text)
    return str(file)


def test_launch_creates_seeds_and_starts(frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path) -> None:
    mail = admin_pb2.RejectedSeed(
        uri="mailto:x", number=2, verdict=crawl_pb2.Verdict.VERDICT_UNSUPPORTED_SCHEME
    )
    seeds = admin_pb2.AddSeedsResponse(added_count=1, rejected_count=1, rejected=[mail])
    for _ in range(2):
        frontier.will("CreateCrawl", admin_pb2.CreateCrawlResponse())
        frontier.will("GetCrawl", *[admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(status=NASCENT))] * 2)
        frontier.will("AddSeeds", seeds)
        frontier.will("LaunchCrawl", admin_pb2.LaunchCrawlResponse(status=RUNNING))
    left_out = "Refused: seed 2 (mailto:x) has a scheme other than http and https\n"
    skipping = toehold_at("launch", spec_at(tmp_path), "--skip-bad-seeds")
    assert skipping == (0, "c: RUNNING, 1 seed\n", left_out)
    assert list(frontier.asked["AddSeeds"][0][0].uris) == ["https://www.example.com", "mailto:x"]
    code, output, errors = toehold_at(
        "launch", spec_at(tmp_path), "--crawl", "d", "--skip-bad-seeds", "--json"
    )
    assert (code, errors) == (0, left_out)
    (told,) = said(output)
    assert (told["crawl"], told["status"]["state"], told["seeds"]["added_count"]) == ("d", "RUNNING", 1)


@pytest.mark.parametrize("command", ["create", "launch", "run"])
def test_a_refused_seed_ends_the_command_before_the_launch(
    command: str, frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path
) -> None:
    typo = admin_pb2.RejectedSeed(
        uri="https//b.example", number=2, verdict=crawl_pb2.Verdict.VERDICT_MALFORMED
    )
    frontier.will("CreateCrawl", admin_pb2.CreateCrawlResponse())
    frontier.will("GetCrawl", admin_pb2.GetCrawlResponse(crawl=admin_pb2.Crawl(status=NASCENT)))
    frontier.will("AddSeeds", admin_pb2.AddSeedsResponse(added_count=1, rejected_count=1, rejected=[typo]))
    code, output, errors = toehold_at(command, spec_at(tmp_path))
    assert (code, output) == (2, "")
    assert (
        "Refused: seed 2 (https//b.example) is not a valid URL; did you mean https://b.example?\n" in errors
    )
    assert "1 seed was refused; correct it, or add --skip-bad-seeds" in errors
    assert not frontier.asked["LaunchCrawl"]


def test_a_spec_without_seeds_is_refused_before_anything_is_created(
    frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path
) -> None:
    code, output, errors = toehold_at("launch", spec_at(tmp_path, 'name = "c"'))
    assert (code, output) == (2, "")
    assert "has no seeds; list some in `seeds` or in a `seeds_file`" in errors
    assert "CreateCrawl" not in frontier.asked


def test_a_spec_that_the_frontier_refuses_is_told_with_all_its_problems(
    frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path
) -> None:
    problems = {"contact": "is needed", "fetch.timeout": "0 is too short"}
    refusal = Refusal(
        grpc.StatusCode.INVALID_ARGUMENT,
        "contact: is needed; fetch.timeout: 0 is too short",
        "INVALID_SPEC",
        problems,
    )
    frontier.will("CreateCrawl", refusal)
    code, _, errors = toehold_at("launch", spec_at(tmp_path))
    assert code == 2
    assert errors.splitlines() == [
        "Error: the frontier refuses the spec:",
        "  contact: is needed",
        "  fetch.timeout: 0 is too short",
    ]


def test_a_surt_prefix_that_the_frontier_refuses_is_told_with_its_line(
    frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path
) -> None:
    (tmp_path / "surts.txt").write_text("# ours\n+http://(com,example,\n\n-a!b\n")
    text = 'name = "c"\nseeds = ["www.example.com"]\nsurt_prefixes_file = "surts.txt"'
    scope = '\n[scope]\nsurt_prefixes = ["example.org"]'
    problems = {"scope.surt_prefixes[0]": "is wrong", "scope.surt_prefixes[2]": "is no host"}
    refusal = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "both", "INVALID_SPEC", problems)
    frontier.will("CreateCrawl", refusal)
    code, _, errors = toehold_at("launch", spec_at(tmp_path, text + scope))
    assert code == 2
    assert errors.splitlines() == [
        "Error: the frontier refuses the spec:",
        f"  {tmp_path / 'surts.txt'}, line 4: is no host",
        "  scope.surt_prefixes[0]: is wrong",
    ]
    (asked,) = frontier.asked["CreateCrawl"]
    assert list(asked.spec.scope.surt_prefixes) == ["example.org", "+http://(com,example,", "-a!b"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no name for the crawl"),
        ("name = 'c'\nseeds_file = 'missing.txt'", "missing.txt cannot be read"),
        ("[fetch]\ntimeout = 3", "fetch.timeout: no such field; did you mean timeout_seconds?"),
    ],
)
def test_a_bad_spec_file_asks_nothing_of_the_frontier(
    frontier: FakeFrontier, toehold_at: Toehold, tmp_path: Path, text: str, told: str
) -> None:
    code, _, errors = toehold_at("launch", spec_at(tmp_path, text))
    assert (code, told in errors) == (2, True)
    assert not frontier.asked
