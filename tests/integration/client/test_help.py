"""`--help` of every command on a terminal of 80 columns, and numbers that are out of bounds."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from frontier_harness.command_line import Toehold

from toehold_cli.help import sentence
from toehold_cli.main import toehold
from toehold_cli.numbers import Real, Whole, bounds_text

MANUAL = Path(__file__).parents[3] / "docs" / "cli.md"
HUGE = ("4611686018427387904", "9223372036854775807", "2147483647")


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def every_command() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each command and its words, `()` for `toehold` itself."""
    yield (), toehold
    for name, command in toehold.commands.items():
        yield (name,), command
        if isinstance(command, click.Group):
            yield from (((name, inner), each) for inner, each in command.commands.items())


def test_help_of_every_command_says_what_it_and_its_options_do_in_80_columns(toehold_at: Toehold) -> None:
    for words, command in every_command():
        code, output, errors = toehold_at(*words, "--help")
        assert (code, errors) == (0, "")
        usage, _, rest = output.partition("\n\n")
        assert usage.startswith(f"Usage: {' '.join(('toehold', *words))}")
        assert "..." not in rest, words
        assert max(map(len, output.splitlines())) <= 80, words
        assert not any(number in output for number in HUGE), words
        assert "<=x" not in output and "x>=" not in output, words
        assert command.help, words
        assert [
            each.name for each in command.params if isinstance(each, click.Option) and not each.help
        ] == []


@pytest.mark.parametrize("words", [("",), ("queues",), ("nodes",), ("uris",)], ids=" ".join)
def test_a_group_shows_the_whole_first_sentence_of_each_command(
    toehold_at: Toehold, words: tuple[str, ...]
) -> None:
    group: click.Command = toehold
    for word in filter(None, words):
        group = toehold.commands[word]
    assert isinstance(group, click.Group)
    output = " ".join(toehold_at(*filter(None, words), "--help")[1].split())
    for name, command in group.commands.items():
        told = sentence(command)
        assert told.endswith(".") and f"{name} {told}" in output


def test_help_groups_commands_by_purpose(toehold_at: Toehold) -> None:
    output = toehold_at("--help")[1]
    headings = [line[:-1] for line in output.splitlines() if line.endswith(":") and line[:1].isupper()]
    assert headings == ["Options", "Crawl", "Watch", "Ask", "Steer", "Nodes", "Access", "Upkeep"]
    listed = [line.split()[0] for line in output.splitlines() if line[:2] == "  " and line[2:3].isalpha()]
    for name in toehold.commands:
        assert listed.count(name) == 1, name


def test_the_manual_has_no_huge_number() -> None:
    page = MANUAL.read_text()
    assert not any(number in page for number in HUGE)
    assert "at least 1" in page


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (Whole(1), "at least 1"),
        (Whole(1, 2**62), "at least 1"),
        (Whole(-1, 255), "-1 to 255"),
        (Real(0, 86_400), "0 to 86400"),
        (Real(0.1, 86_400), "0.1 to 86400"),
        (Real(0, 86_400, min_open=True), "more than 0, at most 86400"),
        (Real(0, min_open=True), "more than 0"),
    ],
)
def test_bounds_are_told_in_words(bounds: Whole | Real, text: str) -> None:
    assert bounds_text(bounds) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("queues", "--limit", "0"), "'--limit': must be at least 1, got 0"),
        (
            ("queues", "set", "k", "--precedence", "256"),
            "'--precedence': must be between -1 and 255, got 256",
        ),
        (("pause", "--wait", "-1"), "'--wait': must be between 0 and 31536000, got -1"),
        (("pause", "--wait", "nan"), "'--wait': must be between 0 and 31536000, got nan"),
        (("pause", "--wait", "soon"), "'--wait': must be a number, got 'soon'"),
        (("queues", "--limit", "1.5"), "'--limit': must be a whole number, got '1.5'"),
    ],
)
def test_a_number_out_of_bounds_is_refused_with_its_bounds(
    toehold_at: Toehold, arguments: tuple[str, ...], message: str
) -> None:
    code, output, errors = toehold_at(*arguments)
    assert (code, output) == (2, "")
    assert message in errors
