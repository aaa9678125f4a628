"""A crawl goes on: with other settings, a raised limit, once more, and when it has ended it can be asked."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from acceptance.at_terminal import check_fits, plain, squeezed, terminal_of, until_told
from acceptance.programs import Programs, json_of, toehold
from acceptance.terminal import CTRL_C
from frontier_harness.divided import of_toehold
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.waiting import eventually

PAGES = 30
REFUSED, BAD_INPUT, INTERRUPTED = 5, 2, 130
FAST = ("--min-delay", "0.02", "--delay-factor", "0")


@dataclass
class Story:
    """One crawl in one directory, and all that its commands said, by their names in the fixture."""

    site: SmallSite
    directory: Path
    codes: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    """How many requests the site had had after each command."""

    def command(self, *options: str) -> list[str]:
        return of_toehold(("crawl", self.site.url(), "--dir", str(self.directory), *options))

    def run(self, name: str, *arguments: str) -> None:
        done = toehold(*arguments)
        self.note(name, done.returncode, done.stdout + done.stderr)

    def note(self, name: str, code: int, said: str) -> None:
        self.codes[name], self.said[name] = code, said
        self.asked[name] = len(self.site.requests)

    def report(self, name: str) -> str:
        """The report that a command printed, on one line."""
        return squeezed(self.said[name].rpartition("\ncrawl ")[2])


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("story")
    with small_site(PAGES) as site, Programs(folder) as programs:
        site.links["/page/20"] = '<a href="/private/1">1</a> <a href="http://elsewhere.invalid/">e</a>'
        told = Story(site, folder / "crawl")
        with terminal_of(programs) as terminal:
            crawl = terminal.toehold(*told.command("--min-delay", "1"))
            eventually(lambda: len(site.requests) >= 4, "pages requested")
            terminal.type(CTRL_C)
            code = crawl.wait()
            told.note("paused", code, plain(terminal.all_shown()))
            check_fits(told.said["paused"].partition("To continue:")[0])
            crawl = terminal.toehold(*told.command(*FAST, "--max-pages", "8"))
            code = crawl.wait()
            told.note("changed", code, plain(terminal.all_shown())[len(told.said["paused"]) :])
        told.run("at its limit", *told.command(*FAST, "--max-pages", "8"))
        told.run("why no more", "explain", "--dir", str(told.directory))
        fixed = folder / "fixed.toml"
        fixed.write_text('[identity]\nrules = ["lower-case"]\n')
        told.run("fixed", *told.command(*FAST, "--max-pages", "100", "--spec", str(fixed)))
        further = told.command(*FAST, "--max-pages", "100", "--exclude", "/private/")
        told.run("raised", *further)
        told.run("ended", *further)
        site.changed.add("/page/4")
        told.run("recrawled", *further, "--recrawl")
        yield told


def test_ctrl_c_pauses_and_says_how_to_continue(story: Story) -> None:
    assert story.codes["paused"] == INTERRUPTED
    command = shlex.join(story.command("--min-delay", "1"))
    assert "Paused. To continue: " in story.said["paused"]
    assert "".join(command.split()) in "".join(story.said["paused"].split())
    assert "Ctrl-C again stops at once." in story.said["paused"]


def test_the_same_command_with_other_settings_applies_them_and_says_old_and_new(story: Story) -> None:
    assert story.codes["changed"] == 0
    for change in (
        "Changed: politeness.min_delay_seconds was 1.0, is 0.02.",
        "Changed: politeness.delay_factor was 5.0, is 0.0.",
        "Changed: limits.max_documents was 0, is 8.",
    ):
        assert change in story.said["changed"]
    assert "pages so far." in story.said["changed"]


def test_a_crawl_that_ends_at_its_limit_says_how_to_go_on(story: Story) -> None:
    assert (
        "limit limits.max_documents = 8 is reached (fetches: pages, images, redirects, errors). To fetch "
        "more, run the same command with a higher --max-pages." in story.report("changed")
    )
    assert story.codes["at its limit"] == REFUSED
    assert "ended at its limit, limits.max_documents = 8\n" in story.said["at its limit"]
    assert story.asked["at its limit"] == story.asked["changed"]
    assert "LIMIT_REACHED" in story.said["why no more"]


def test_what_cannot_change_is_refused_with_the_reason_and_what_to_do(story: Story) -> None:
    assert story.codes["fixed"] == BAD_INPUT
    assert "identity: cannot change" in story.said["fixed"]
    assert "add --fresh to start a new crawl" in story.said["fixed"]
    assert story.asked["fixed"] == story.asked["changed"]


def test_a_raised_limit_extends_it(story: Story) -> None:
    assert story.codes["raised"] == 0
    assert "Changed: limits.max_documents was 8, is 100." in story.said["raised"]
    assert "Continuing the crawl in " in story.said["raised"]
    assert f"pages {PAGES + 1}, " in story.report("raised")
    assert story.asked["raised"] == PAGES + 1 + 1  # each page once, and robots.txt once


def test_one_with_nothing_left_says_what_can_be_done(story: Story) -> None:
    assert story.codes["ended"] == REFUSED
    assert "has finished: nothing was left to fetch\n" in story.said["ended"]
    assert "--recrawl fetches its pages again." in story.said["ended"]


def test_a_recrawl_asks_with_validators_and_counts_what_has_not_changed(story: Story) -> None:
    assert story.codes["recrawled"] == 0
    assert f"Will fetch {PAGES + 1} pages again; the limit leaves room for" in story.said["recrawled"]
    assert story.site.answered[304] == PAGES
    assert f"304: {PAGES}" in story.report("recrawled")


def test_another_command_names_the_last_one_that_ran(story: Story) -> None:
    told = toehold("resume", "--dir", str(story.directory)).stderr
    again = story.command(*FAST, "--max-pages", "100", "--exclude", "/private/", "--recrawl")
    assert "has finished: nothing was left to fetch\nTo fetch its pages again: " in told
    assert told.endswith(f" {shlex.join(again)}\n")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("explain {page}", r"SEEN_ALREADY SUCCEEDED with fetch status 304"),
        ("explain http://elsewhere.invalid/", r"OUT_OF_SCOPE no host, prefix or pattern of the scope"),
        ("outcomes", r"SUCCEEDED 304"),
        (
            "refusals",
            r"1 URI refused by scope\.reject_patterns\[0\] = .*/private/.* http://127\.0\.0\.1:\d+/p",
        ),
        ("refusals scope.hosts", r"URIs? refused by scope\.hosts: .* http://elsewhere\.invalid/ from http"),
    ],
)
def test_when_it_has_ended_it_can_be_asked_everything(story: Story, question: str, answer: str) -> None:
    words = question.format(page=story.site.url("127.0.0.1", "/page/7")).split()
    asked = toehold(*words, "--dir", str(story.directory))
    assert asked.returncode == 0, asked.stderr
    until_told(lambda: asked.stdout, answer, within_s=0)


def test_the_examples_of_a_rule_are_for_programs_too(story: Story) -> None:
    told = toehold("refusals", "--dir", str(story.directory), "--json").stdout
    rules = {rule["rule"]: rule for rule in map(json.loads, told.splitlines())}
    assert rules["scope.hosts"]["examples"][0]["uri"] == "http://elsewhere.invalid/"
    assert json_of("status", "--dir", str(story.directory))["status"]["exit_status"] == "FINISHED"
