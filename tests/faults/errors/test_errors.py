"""Disks that fail, fill up or are slow; descriptors and memory that run out: what follows is what the manual
says, and what was acknowledged is there.
"""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.errors import cases, manual, tight_program
from faults.errors.cases import Case
from faults.errors.trial import Trial, run_to_end
from frontier_harness.calls import report
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak

ROWS = manual.rows()


def parametrized(found: tuple[Case, ...]) -> pytest.MarkDecorator:
    """The cases, of which some are for every change and all for the soak."""
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(case, id=case.trouble, marks=() if case.quick else pytest.mark.soak("errors"))
            for case in found
        ],
    )


def few_files(pid: int) -> None:
    """It may open two more."""
    some = len(list(Path(f"/proc/{pid}/fd").iterdir())) + 2
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (some, some))


def little_memory(pid: int) -> None:
    """It may have a MiB more."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    some = pages * resource.getpagesize() + 1024 * 1024
    resource.prlimit(pid, resource.RLIMIT_AS, (some, some))


@pytest.mark.timeout(900)
@parametrized(cases.UNDER_LOAD)
def test_a_server_at_work_meets_trouble_as_the_manual_says_and_has_what_it_acknowledged(
    library: Path, tmp_path: Path, soak: Soak, case: Case
) -> None:
    trial = Trial(library, tmp_path)
    trial.under_load(ROWS[case.row], case.trouble)
    assert trial.trouble.strokes
    assert_all_there(trial, soak)


def assert_all_there(trial: Trial, soak: Soak) -> None:
    """What was acknowledged is there, once."""
    found = trial.judged()
    soak.count(
        faults=max(1, trial.trouble.strokes),
        checked=trial.ledger.items,
        lost=len(found.lost),
        doubled=len(found.doubled),
        violated=len(found.violated),
    )
    assert not found.all()


@pytest.mark.soak("errors")
@pytest.mark.timeout(900)
def test_writes_that_stall_as_the_disk_is_slow_are_waited_out(
    library: Path, tmp_path: Path, soak: Soak
) -> None:
    trial = Trial(library, tmp_path, program=(tight_program.__file__,))
    trial.under_load(ROWS[cases.STALL], "write *.sst slow 400")
    assert_all_there(trial, soak)


@pytest.mark.soak("errors")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("row", "limit"), [(cases.FILES, few_files), (cases.MEMORY, little_memory)])
def test_a_server_that_gets_no_more_of_the_machine_ends_and_has_what_it_acknowledged(
    library: Path, tmp_path: Path, soak: Soak, row: str, limit: Callable[[int], None]
) -> None:
    trial = Trial(library, tmp_path)
    trial.under_load(ROWS[row], "", limit)
    assert_all_there(trial, soak)


@pytest.mark.undivided("is about one store")
@parametrized(cases.AT_START)
def test_a_server_that_meets_trouble_at_its_start_says_what_the_manual_says_and_starts_when_it_is_over(
    library: Path, tmp_path: Path, soak: Soak, case: Case
) -> None:
    trial, row = Trial(library, tmp_path), ROWS[case.row]
    with ServerProcess(trial.data) as server:
        server.stubs.launch("t", "http://a.example/")
        (lease,) = server.stubs.pages("t", 1)
        assert server.stubs.finish(report(lease)) == [("SUCCEEDED", False)]
        server.stop()  # what it has written is in files of rows, beside the log
    trial.trouble.begin(case.trouble)
    code, said = run_to_end(trial.data, trial.trouble.environment, ("-m", "frontier_server"))
    soak.count(faults=trial.trouble.strokes, checked=1)
    assert trial.trouble.strokes
    assert code in row.exit_codes and row.is_told(said), (code, said)
    with ServerProcess(trial.data) as server:
        assert server.stubs.finish(report(lease)) == [("SUCCEEDED", True)]
