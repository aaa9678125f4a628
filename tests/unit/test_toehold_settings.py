"""The settings of `toehold`: its file, its variables, and which frontier and crawl a command means."""

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from crawler_node.program import main as node
from toehold_base.options.variables import SHARED, long_name, settable, shared_variables, unknown_variables
from toehold_cli.commands import options
from toehold_cli.main import run, toehold

Say = Callable[..., str]


class Reached:
    """Stands for a client: what a command would have asked, and whom."""

    def __init__(self, frontier: str, directory: Path | None) -> None:
        self.address = f"dir {directory}" if directory is not None else frontier


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    """Runs `toehold status`; the frontier and the crawl that it would ask, or its error."""

    @contextmanager
    def reached(frontier: str, directory: Path | None) -> Any:
        yield Reached(frontier, directory), "own" if directory else ""

    def describe(controller: Any) -> Any:
        raise click.UsageError(f"{controller[0].address}, {controller[1]}")

    monkeypatch.setattr(options, "reached", reached)
    monkeypatch.setattr(options, "only_crawl", lambda client: "only")
    monkeypatch.setattr(options, "CrawlController", lambda client, name: describe((client, name)))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def asked(*words: str, file: str = "", usual: str = "", **variables: str) -> str:
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            (tmp_path / "given.toml").write_text(file)
            (tmp_path / "toehold").mkdir(exist_ok=True)
            (tmp_path / "toehold" / "toehold.toml").write_text(usual)
            before = ["--config", str(tmp_path / "given.toml")] if file else []
            assert run([*before, *(words or ("status",))]) == 2
        return capsys.readouterr().err.splitlines()[-1].removeprefix("Error: ")

    return asked


def test_a_file_names_the_frontier_and_the_crawl_of_all_commands(asks: Say) -> None:
    file = 'frontier = "a:1"\ncrawl = "docs"\n[stats]\ncrawl = "news"\n'
    assert asks(file=file) == asks(usual=file) == "a:1, docs"
    assert asks("stats", file=file) == "a:1, news"
    assert asks("queues", "list", file=file) == "a:1, docs"
    assert asks(file='crawl = "given"', usual=file) == "127.0.0.1:7707, given"  # one file at a time


def test_variables_count_before_the_file_and_options_before_variables(asks: Say) -> None:
    file = 'frontier = "a:1"\ncrawl = "docs"\n'
    assert asks(file=file, TOEHOLD_CRAWL="news") == "a:1, news"
    assert asks(file=file, TOEHOLD_CRAWL="news", TOEHOLD_STATUS_CRAWL="own") == "a:1, own"
    assert asks("status", "--crawl", "typed", file=file, TOEHOLD_CRAWL="news") == "a:1, typed"


def test_the_file_may_be_named_by_a_variable(asks: Say, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('frontier = "other:1"')
    assert asks(TOEHOLD_CONFIG=str(tmp_path / "other.toml"), usual='frontier = "a:1"') == "other:1, only"


@pytest.mark.parametrize(
    ("words", "file", "variables", "meant"),
    [
        (("--dir", "d"), 'frontier = "f:1"', {}, "dir d, own"),
        (("--dir", "d"), 'crawl = "c"', {}, "dir d, own"),
        (("--dir", "d"), "", {"TOEHOLD_FRONTIER": "f:1", "TOEHOLD_CRAWL": "c"}, "dir d, own"),
        (("--dir", "d", "--crawl", "c"), "", {"TOEHOLD_FRONTIER": "f:1"}, "dir d, c"),
        (("--frontier", "f:1"), 'dir = "d"', {}, "f:1, only"),
        (("--frontier", "f:1"), "", {"TOEHOLD_DIR": "d", "TOEHOLD_CRAWL": "c"}, "f:1, c"),
        ((), 'frontier = "f:1"', {"TOEHOLD_DIR": "d"}, "dir d, own"),
        ((), 'dir = "d"', {"TOEHOLD_FRONTIER": "f:1"}, "f:1, only"),
        ((), 'dir = "d"', {}, "dir d, own"),
        ((), 'dir = "d"\ncrawl = "c"', {}, "dir d, c"),
        ((), "", {"TOEHOLD_DIR": "d", "TOEHOLD_CRAWL": "c"}, "dir d, c"),
    ],
)
def test_a_frontier_named_nearer_to_the_command_counts(
    asks: Say, words: tuple[str, ...], file: str, variables: dict[str, str], meant: str
) -> None:
    assert asks("status", *words, file=file, **variables) == meant


@pytest.mark.parametrize(
    ("words", "file", "variables", "said"),
    [
        (("--dir", "d", "--frontier", "f:1"), "", {}, "--frontier and --dir"),
        ((), "", {"TOEHOLD_DIR": "d", "TOEHOLD_FRONTIER": "f:1"}, "TOEHOLD_FRONTIER and TOEHOLD_DIR"),
        ((), 'dir = "d"\nfrontier = "f:1"', {}, "frontier and dir in the settings file"),
    ],
)
def test_two_frontiers_named_in_one_way_are_refused(
    asks: Say, words: tuple[str, ...], file: str, variables: dict[str, str], said: str
) -> None:
    assert f"{said} both name a frontier" in asks("status", *words, file=file, **variables)


def test_the_name_in_a_spec_on_the_command_line_counts_before_a_variable(asks: Say, tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text('name = "spec"\n')
    assert asks("create", str(spec), TOEHOLD_CRAWL="c", usual='crawl = "c"') == "127.0.0.1:7707, spec"
    assert asks("create", str(spec), "--crawl", "typed") == "127.0.0.1:7707, typed"
    spec.write_text("")
    assert asks("create", str(spec), TOEHOLD_CRAWL="c") == "127.0.0.1:7707, c"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ('crawll = "x"', "crawll is not a setting; did you mean crawl?"),
        ("[wach]\nonce = true", "wach is not a command; did you mean watch?"),
        ("[watch]\nintervall = 3", "watch.intervall is not a setting; did you mean watch.interval?"),
        ('[watch]\ninterval = "x"', 'watch.interval must be a number, got "x"'),
        ("[queues.list]\nlimit = true", "queues.list.limit must be a whole number, got true"),
        ("frontier = 7707", "frontier must be text, got 7707"),
    ],
)
def test_a_wrong_file_is_refused_whatever_the_command(asks: Say, file: str, said: str) -> None:
    assert asks(file=file).endswith(f"given.toml: {said}")


def test_a_value_out_of_bounds_is_told_with_its_variable_or_its_file(asks: Say) -> None:
    assert asks("watch", TOEHOLD_WATCH_INTERVAL="0") == (
        "Invalid value for 'TOEHOLD_WATCH_INTERVAL': must be between 0.1 and 86400, got 0"
    )
    said = asks("watch", file="[watch]\ninterval = 0")
    assert said.startswith("Invalid value for 'interval' in ") and "given.toml: must be" in said


def test_a_misspelt_variable_is_told_and_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOEHOLD_CRWAL", "docs")
    monkeypatch.setenv("TOEHOLD_WATCH_INTERVALL", "3")
    monkeypatch.setenv("TOEHOLD_NODE_TOSE", "3")  # another program's affair
    assert run(["completion", "bash"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "Warning: unknown variable TOEHOLD_CRWAL: did you mean TOEHOLD_CRAWL?",
        "Warning: unknown variable TOEHOLD_WATCH_INTERVALL: did you mean TOEHOLD_WATCH_INTERVAL?",
    ]


def test_a_home_that_cannot_be_found_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr("pathlib.Path.home", no_home)
    assert run(["completion", "bash"]) == 0


def test_the_variables_that_commands_share_are_no_misspelt_ones_of_other_programs() -> None:
    def shared(command: click.Command) -> set[str]:
        own = {name for option in settable(command) for name in shared_variables(option)[1:]}
        return own.union(*(shared(below) for below in getattr(command, "commands", {}).values()))

    assert shared(toehold) | {"TOEHOLD_CONFIG"} == SHARED
    assert unknown_variables(dict.fromkeys(SHARED, "x"), node, "TOEHOLD_NODE_") == []


def test_each_option_has_a_variable_of_its_command() -> None:
    seen: set[str] = set()

    def look(command: click.Command, prefix: str) -> None:
        for option in settable(command):
            own = f"{prefix}_{long_name(option).upper()}"
            assert shared_variables(option)[0] == own
            assert own not in seen, "two options must not have one variable"
            seen.add(own)
        for name, below in getattr(command, "commands", {}).items():
            look(below, f"{prefix}_{name.upper()}")

    look(toehold, "TOEHOLD")
    assert {"TOEHOLD_CONFIG", "TOEHOLD_WATCH_INTERVAL", "TOEHOLD_QUEUES_LIST_STATE"} <= seen
