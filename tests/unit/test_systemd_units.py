"""The units in deploy/systemd: systemd understands them, they confine the services, and they know the exit
codes and the variables of the programs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from crawler_node.process import NodeExitCode
from crawler_node.program import main as node
from frontier_server.program import exits
from frontier_server.program.program import main as frontier
from toehold_base.options.variables import variables

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
UNITS = ("toehold-frontier.service", "toehold-node@.service")
MOST_EXPOSED = 20
"""Tenths of the number that `systemd-analyze security` gives a service: below 2.0 it is well confined."""

PROGRAMS: dict[str, click.Command] = {UNITS[0]: frontier, UNITS[1]: node}


def lines(unit: str) -> list[str]:
    return (FOLDER / unit).read_text().splitlines()


def values(unit: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in lines(unit) if line.startswith(f"{key}=")]


@pytest.fixture
def analyzed(tmp_path: Path) -> list[str]:
    """Copies of the units whose programs are on this machine."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing")
    for unit in UNITS:
        text = re.sub(
            r"^ExecStart=\S+", f"ExecStart={sys.executable}", (FOLDER / unit).read_text(), flags=re.M
        )
        (tmp_path / unit).write_text(text)
    return [str(tmp_path / unit) for unit in UNITS]


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SYSTEMD_COLORS": "0"}
    return subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, env=environment, check=False
    )


def test_systemd_understands_the_units(analyzed: list[str]) -> None:
    done = analyze("verify", *analyzed)
    told = [line for line in done.stderr.splitlines() if "toehold" in line]  # others are about the machine
    assert (done.returncode, told) == (0, []), done.stderr


def test_the_services_are_confined(analyzed: list[str]) -> None:
    for path in analyzed:
        done = analyze("security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}", path)
        if "unrecognized option" in done.stderr:
            pytest.skip("this systemd-analyze does not judge files")
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_service_is_not_started_again_where_that_would_not_help() -> None:
    codes = {
        UNITS[0]: {exits.EXIT_USAGE, exits.EXIT_DATA, exits.EXIT_DAMAGED, exits.EXIT_IN_USE},
        UNITS[1]: {NodeExitCode.BAD_ARGUMENT, NodeExitCode.SUPERSEDED, NodeExitCode.OUTPUT_UNUSABLE},
    }
    for unit, expected in codes.items():
        assert values(unit, "Restart") == ["on-failure"]
        (prevented,) = values(unit, "RestartPreventExitStatus")
        assert {int(code) for code in prevented.split()} == expected


@pytest.mark.parametrize("unit", UNITS)
def test_the_variables_of_a_unit_are_those_of_its_program(unit: str) -> None:
    named = {value.partition("=")[0] for value in values(unit, "Environment")}
    assert named and named <= set(variables(PROGRAMS[unit]))


@pytest.mark.parametrize("unit", UNITS)
def test_a_service_tells_when_it_is_ready_and_that_it_lives(unit: str) -> None:
    assert values(unit, "Type") == ["notify"]
    assert values(unit, "WatchdogSec") == ["2min"]
    assert [Path(command.split()[0]).name for command in values(unit, "ExecStart")] == [
        unit.removesuffix(".service").removesuffix("@")
    ]
