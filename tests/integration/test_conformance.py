"""`toehold conformance` with quick cases: our own node keeps the contract, and a fetcher that breaks one rule
fails at that rule. `make soak PART=conformance` plays everything."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conformance_doubles.broken import FAILING, Broken
from frontier_harness.descendants import kill_all
from frontier_harness.divided import shards_option
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold_cli.exits import ExitCode
from toehold_cli.main import run
from toehold_conformance import kit, processes
from toehold_conformance.cases import ALL
from toehold_conformance.cases.leases import ENDED
from toehold_conformance.cases.outages import LOST
from toehold_conformance.cases.site import SITE

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs more than one loopback address"),
]

FLAGS = ("--frontier", "{frontier}", "--crawl", "{crawl}", "--name", "{name}")
NODE = (str(Path(sys.executable).with_name("toehold-node")), *FLAGS, "--toes", "10", "--warc", "{dir}")
DOUBLE = (sys.executable, str(Path(__file__).parents[1] / "conformance_doubles" / "fetcher.py"), *FLAGS)

SLOW = {
    *("heartbeats", "slow-body", "silent-body", "links-of-a-silent-body", "slow-head", "no-answer"),
    *("robots-drip", "robots-silence", "robots-silent-body"),
}
"""Cases that take seconds."""

QUICK = [case for case in ALL if case.name not in SLOW and case.play in (SITE, LOST)]

FAULTS = (
    Broken.FOLLOWS_REDIRECTS,
    Broken.REPORTS_BEFORE_LINKS,
    Broken.CONNECTS_ANYWHERE,
    Broken.DROPS_BASE,
    Broken.FORGETS_REDIRECTS,
    Broken.COPIES_REDIRECTS_TO_LINKS,
    Broken.KEEPS_ENDED_LEASES,
)


@pytest.fixture(autouse=True)
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frontiers have as many shards as the tests ask for, and all their processes end at once."""
    kill = processes.FrontierProcess.kill

    def kill_them(frontier: processes.FrontierProcess) -> None:
        if frontier._process is not None:
            kill_all(frontier._process.pid)
        kill(frontier)

    monkeypatch.setattr(processes.FrontierProcess, "kill", kill_them)
    monkeypatch.setattr(processes, "FRONTIER", (*processes.FRONTIER, *shards_option(())))


def test_our_own_node_conforms() -> None:
    results = kit.run(NODE, cases=QUICK)
    assert {result.case.name: result.problem for result in results if not result.holds} == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fetcher_that_breaks_a_rule_fails_there(fault: Broken) -> None:
    wanted = FAILING[fault]
    quick = [*QUICK, *(case for case in ALL if case.play is ENDED)]
    cases = [case for case in quick if case.name in wanted or case.name == "links"]
    results = kit.run((*DOUBLE, "--broken", fault), cases=cases)
    assert {result.case.name for result in results if not result.holds} == wanted & {c.name for c in cases}


def test_the_command_prints_results_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["conformance", "--json", "--case", "links", "--case", "statuses-beyond-599", "--", *DOUBLE])
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == ExitCode.DONE
    assert [(each["case"], each["holds"], each["problem"]) for each in printed] == [
        ("statuses-beyond-599", True, ""),
        ("links", True, ""),
    ]


@pytest.mark.parametrize("name", ["user-agent", "one-at-a-time"])
def test_a_case_without_hosts_can_be_judged_alone(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run(["conformance", "--case", name, "--", *DOUBLE]) == ExitCode.DONE
    assert capsys.readouterr().out.splitlines()[-1] == ("The fetcher conforms: 1 of 1 required cases hold.")


def test_a_fetcher_that_ends_at_once_fails_soon(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ends = (sys.executable, "-c", "raise SystemExit('no such flag')")
    code = run(["conformance", "--case", "links", "--logs", str(tmp_path), "--", *ends])
    printed = capsys.readouterr().out
    assert code == ExitCode.FAILED
    assert "The fetcher ended with exit code 1 no such flag" in printed
    assert (tmp_path / "site-1.log").read_text() == "no such flag\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_fetcher(tmp_path: Path, number: signal.Signals) -> None:
    pid_file = tmp_path / "pid"
    fetcher = ("sh", "-c", f"echo $$ > {pid_file}.new && mv {pid_file}.new {pid_file} && exec sleep 600")
    command = [sys.executable, "-m", "toehold_cli", "conformance", "--case", "links", "--", *fetcher]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        eventually(pid_file.exists)
        running.send_signal(number)
        assert running.wait(PATIENCE_S) == ExitCode.INTERRUPTED
    fetcher_pid = int(pid_file.read_text())
    eventually(lambda: is_gone(fetcher_pid))


def test_a_run_that_is_interrupted_while_it_starts_a_fetcher_leaves_none(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    fetcher = ("sh", "-c", f"echo $$ > {pid_file}; kill -TERM $PPID; exec sleep 600")
    command = [sys.executable, "-m", "toehold_cli", "conformance", "--case", "links", "--", *fetcher]
    done = subprocess.run(command, stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)
    assert done.returncode == ExitCode.INTERRUPTED
    fetcher_pid = int(pid_file.read_text())
    eventually(lambda: is_gone(fetcher_pid))


def is_gone(pid: int) -> bool:
    """Whether a process has ended. Its new parent may take a moment to hear of it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "COMMAND is missing"),
        (("--case", "nonsense", "--", "true"), "'nonsense' is not a case"),
        (("--", "/no/such/program"), "/no/such/program cannot be run: No such file or directory"),
    ],
)
def test_wrong_usage_is_told(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    assert run(["conformance", *arguments]) == ExitCode.BAD_INPUT
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("form", [(), ("--json",), ("--markdown",)])
def test_cases_are_listed(capsys: pytest.CaptureFixture[str], form: tuple[str, ...]) -> None:
    assert run(["conformance", "--list", *form]) == ExitCode.DONE
    printed = capsys.readouterr().out
    assert all(case.name in printed for case in ALL)
