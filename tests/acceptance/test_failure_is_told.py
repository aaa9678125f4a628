"""A crawl that fails, or in which something fails, says so: at a terminal of 80x24, in a pipe, and later."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from acceptance.at_terminal import check_fits, plain, squeezed, terminal_of, until_told
from acceptance.programs import Programs, json_of, toehold
from frontier_harness.small_site import SmallSite, small_site

FAILED, BAD_INPUT = 4, 2

SPEC = """
allowed_addresses = ["loopback"]
[politeness]
min_delay_seconds = 0.05
delay_factor = 0.0
overload_delay_seconds = 3.0
[robots]
max_attempts = 2
retry_delay_seconds = 0.1
[retry]
max_attempts = 1
"""
NOWHERE, PRIVATE = "http://nowhere.invalid/", "http://192.168.0.1/"
WHY = (
    "no page was fetched: robots.txt could not be fetched (2 times), address refused, answered with an error "
    "(404)"
)


@dataclass(frozen=True)
class Sites:
    """A site that answers, one whose robots.txt answers 503, and one whose first page is missing."""

    up: SmallSite
    shut: SmallSite
    gone: SmallSite

    @property
    def options(self) -> list[str]:
        """Where a node finds them."""
        sites = {"up.example": self.up, "shut.example": self.shut, "gone.example": self.gone}
        return [option for host, site in sites.items() for option in site.resolve([host])]


@dataclass(frozen=True)
class Failed:
    """A crawl of which nothing could be fetched, at a terminal and in a pipe."""

    code: int
    shown: str
    piped_code: int
    piped: str
    directory: Path
    shut: str
    gone: str

    @property
    def seeds(self) -> list[str]:
        """What is told of each seed."""
        return [
            f"{self.shut}: robots.txt could not be fetched: status 503",
            f"{NOWHERE}: robots.txt could not be fetched: name not found",
            f"{PRIVATE}: address refused: 192.168.0.1 is not among allowed_addresses",
            f"{self.gone}: answered with an error (404)",
        ]


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    with small_site() as up, small_site() as shut, small_site() as gone:
        shut.statuses["/robots.txt"] = 503
        gone.statuses["/"] = 404
        yield Sites(up, shut, gone)


def crawl_of(sites: Sites, folder: Path, name: str, *arguments: str) -> list[str]:
    spec = folder / "spec.toml"
    spec.write_text(SPEC)
    return [
        *("crawl", "--spec", str(spec), "--dir", str(folder / name), "--contact", "me@crawler.example"),
        *sites.options,
        *arguments,
    ]


@pytest.fixture(scope="module")
def failed(sites: Sites, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failed]:
    folder = tmp_path_factory.mktemp("failed")
    shut, gone = sites.shut.url("shut.example"), sites.gone.url("gone.example")
    seeds = [shut, NOWHERE, PRIVATE, gone]
    with Programs(folder) as programs:
        piped = programs.toehold(*crawl_of(sites, folder, "piped", *seeds))
        with terminal_of(programs) as terminal:
            crawl = terminal.toehold(*crawl_of(sites, folder, "crawl", *seeds))
            code, piped_code, shown = crawl.wait(), piped.wait(), terminal.all_shown()
        yield Failed(code, shown, piped_code, piped.said, folder / "crawl", shut, gone)


def test_a_crawl_of_which_nothing_was_fetched_ends_with_4_and_says_why(failed: Failed) -> None:
    assert (failed.code, failed.piped_code) == (FAILED, FAILED)
    for shown in (plain(failed.shown), failed.piped):
        report = squeezed(shown[shown.rindex("\ncrawl ") :])
        assert f"failed {WHY} time" in report
        assert "seeds 0 fetched, 1 answered with an error, 3 failed" in report
        for seed in failed.seeds:
            assert seed in report
    check_fits(failed.shown)


def test_its_report_in_a_pipe_has_no_blanks_at_the_end_of_lines(failed: Failed) -> None:
    lines = failed.piped.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    ended = next(line for line in lines if "UTC  Finished" in line)
    assert "  1 page  " in ended and ended.endswith(WHY)


def test_while_it_runs_the_display_tells_which_seeds_failed(failed: Failed) -> None:
    shown = squeezed(plain(failed.shown).partition("Finished")[0])
    assert re.search(r"seeds 0 of 4 fetched, 1 answered with an error, \d failed, 1 not fetched yet", shown)
    assert "http://nowhere.invalid: robots.txt could not be fetched: name not found" in shown
    problems = [line.partition("problem: seed ")[2] for line in failed.piped.splitlines()]
    assert "http://nowhere.invalid: robots.txt could not be fetched: name not found" in problems


def test_afterwards_status_tells_it_too(failed: Failed) -> None:
    with_status = toehold("status", "--dir", str(failed.directory))
    assert with_status.returncode == 0
    told = squeezed(with_status.stdout)
    assert f"failure {WHY} since" in told
    assert "seeds 0 of 4 fetched, 1 answered with an error, 3 failed" in told
    for seed in failed.seeds:
        assert f"seed {seed}" in told
    record = json_of("status", "--dir", str(failed.directory))
    assert record["status"]["failure"] == WHY
    assert len(record["troubled_seeds"]) == 4


def test_afterwards_explain_names_the_nodes_reason(failed: Failed) -> None:
    for seed, reason in (
        (failed.shut, "FAILED with fetch status -61 (robots.txt could not be fetched: status 503)"),
        (NOWHERE, "FAILED with fetch status -61 (robots.txt could not be fetched: name not found)"),
        (
            PRIVATE,
            "FAILED with fetch status -7 (address refused: 192.168.0.1 is not among allowed_addresses)",
        ),
        (failed.gone, "SUCCEEDED with fetch status 404"),
    ):
        assert reason in toehold("explain", seed, "--dir", str(failed.directory)).stdout


def test_the_outcomes_of_its_seeds_are_listed_and_counted(failed: Failed) -> None:
    told = toehold("report", "seeds", "--dir", str(failed.directory)).stdout
    assert told.splitlines()[-1] == "4 seeds: 0 fetched, 1 answered with an error, 3 failed"
    assert "192.168.0.1 is not among allowed_addresses" in told


def test_some_seeds_and_pages_that_fail_are_told_and_counted_and_the_crawl_succeeds(
    sites: Sites, programs: Programs, tmp_path: Path
) -> None:
    seeds = [sites.up.url("up.example"), NOWHERE]
    crawl = crawl_of(sites, tmp_path, "some", "--hook", "acceptance.breaking_hook:page", *seeds)
    with terminal_of(programs) as terminal:
        program = terminal.toehold(*crawl, "--min-delay", "0.6", "--processes", "1")
        until_told(
            lambda: plain(terminal.shown),
            r"problems the hook or callback failed on \d pages?",
            r"an extractor failed on \d pages?",
            r"seeds 1 of 2 fetched, 1 failed",
        )
        assert program.runs
        assert program.wait() == 0
        shown = terminal.all_shown()
    check_fits(shown)
    report = squeezed(plain(shown).rpartition("\ncrawl ")[2])
    assert f"seeds 1 fetched, 1 failed {NOWHERE}: robots.txt could not be fetched: name not found" in report
    assert "remarks hookFailed: 4, extractorFailed: 2" in report
