"""Tables of the commands on a terminal of 80 columns: nothing is cut, and headings stay whole."""

import re
import sys

import pytest

from toehold_cli import output

COLUMNS = ("host", "succeeded", "failed", "disregarded", "last success")
WHEN = "2027-01-15 08:00:00 UTC"
LONG = "http://www.example.com/" + "x" * 200


@pytest.fixture
def drawn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a table with a long cell, on a terminal."""
    return draw(capsys, monkeypatch, 80)


def draw(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.table(COLUMNS, [(LONG, "12345", "1", "2", WHEN)], spare=("disregarded", "last success"))
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


def test_a_long_cell_is_wrapped_not_cut(drawn: list[str]) -> None:
    assert max(map(len, drawn)) <= 80
    text = "".join(line.split()[0] for line in drawn if line.strip() and line.lstrip()[0] in "hx")
    assert text.removeprefix("host") == LONG
    assert "…" not in "".join(drawn)


def test_headings_and_numbers_stay_whole_and_spare_columns_are_left_out(drawn: list[str]) -> None:
    heading = next(line for line in drawn if "host" in line)
    assert heading.split() == ["host", "succeeded", "failed"]
    assert any(line.split()[-2:] == ["12345", "1"] for line in drawn)


def test_a_wide_terminal_shows_every_column(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = draw(capsys, monkeypatch, 160)
    assert "disregarded" in "".join(lines) and WHEN in "".join(lines)


def test_elsewhere_every_column_is_printed_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(COLUMNS, [(LONG, "12345", "1", "2", WHEN)], spare=("last success",))
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.endswith("last success") and row == f"{LONG}  12345      1       2            {WHEN}"
