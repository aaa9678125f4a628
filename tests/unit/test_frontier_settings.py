"""The settings of `toehold-frontier` by flags, variables and its file."""

from pathlib import Path

import msgspec
import pytest

from frontier_server.config import ConfigError, ServerFile, usable
from frontier_server.program import program
from toehold_base.options.variables import long_name, settable

ONCE = {"config", "until_stdin_ends", "salvage", "set_clock"}
"""Options about one start, which make no sense in a file."""


class Stopped(Exception):
    pass


class Start:
    """Starts of the program that end once its settings are known."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._file = folder / "frontier.toml"

    def __call__(self, *flags: str, file: str = "", **variables: str) -> ServerFile:
        found: list[ServerFile] = []

        def stop(data: Path, settings: ServerFile, *more: object) -> None:
            found.append(settings)
            usable(data, settings)
            raise Stopped

        with self._monkeypatch.context() as patch:
            patch.setattr(program, "usable", stop)
            for name, value in variables.items():
                patch.setenv(name, value)
            if file:
                self._file.write_text(file)
                flags = ("--config", str(self._file), *flags)
            with pytest.raises(Stopped):
                program.main(list(flags), standalone_mode=False)
        return found[0]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Start:
    return Start(monkeypatch, tmp_path)


def test_flags_count_before_variables_before_the_file_before_defaults(start: Start) -> None:
    file = 'data = "file"\nlease_seconds = 11\n'
    assert start("--data", "d").lease_seconds == 30
    assert (start(file=file).data, start(file=file).lease_seconds) == ("file", 11)
    both = {"TOEHOLD_FRONTIER_DATA": "variable", "TOEHOLD_FRONTIER_LEASE_SECONDS": "12"}
    assert (start(file=file, **both).data, start(file=file, **both).lease_seconds) == ("variable", 12)
    flags = ("--data", "flag", "--lease-seconds", "13")
    assert (start(*flags, file=file, **both).data, start(*flags, file=file, **both).lease_seconds) == (
        "flag",
        13,
    )


def test_a_variable_takes_back_what_the_file_allows(start: Start) -> None:
    file = 'data = "d"\ninsecure = true\nread_only = true\n'
    assert (start(file=file).insecure, start(file=file).read_only) == (True, True)
    assert start(file=file, TOEHOLD_FRONTIER_READ_ONLY="no").read_only is False
    assert start(file=file, TOEHOLD_FRONTIER_INSECURE="").insecure is True  # empty: not set


def test_the_file_has_each_option_that_is_about_more_than_one_start() -> None:
    options = {long_name(option) for option in settable(program.main)} - ONCE
    assert options == {field.name for field in msgspec.structs.fields(ServerFile)}


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    with pytest.raises(SystemExit) as end:
        program.main(list(flags), standalone_mode=False)
    assert end.value.code == 2
    return capsys.readouterr().err.removeprefix("toehold-frontier: ").rstrip()


def test_a_frontier_without_a_data_directory_says_how_to_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys) == (
        "data is missing: name the data directory with --data DIR, with TOEHOLD_FRONTIER_DATA, or as data in "
        "the settings file"
    )


def test_an_error_about_a_setting_names_the_variable_that_has_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOEHOLD_FRONTIER_DATA", "d")
    monkeypatch.setenv("TOEHOLD_FRONTIER_LISTEN", "7707")
    assert refused(capsys) == (
        "TOEHOLD_FRONTIER_LISTEN: listen must be HOST:PORT, such as 127.0.0.1:7707, got '7707'"
    )
    assert refused(capsys, "--listen", "x").startswith("listen must be HOST:PORT")
    monkeypatch.setenv("TOEHOLD_FRONTIER_LISTEN", "127.0.0.1:0")
    monkeypatch.setenv("TOEHOLD_FRONTIER_LEASE_SECONDS", "0")
    assert refused(capsys) == (
        "TOEHOLD_FRONTIER_LEASE_SECONDS: lease_seconds must be between 1 and 86400, got 0.0"
    )


def test_a_file_that_says_read_only_excludes_what_changes_the_data() -> None:
    with pytest.raises(ConfigError, match="--set-clock changes the data directory"):
        usable(Path("d"), ServerFile(read_only=True), set_clock=True)
