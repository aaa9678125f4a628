"""Checkpoints that cannot be made of a server at work: who wants one is told, and nothing else happens."""

from pathlib import Path

import grpc
import pytest
from faults.errors import cases, manual
from faults.errors.cases import Case
from faults.errors.trial import Trial
from faults.power.load import Load
from faults.power.program import NONE, PROGRAM
from frontier_harness.calls import Refusal
from frontier_harness.soaking import Soak

ROWS = manual.rows()


class Operators(Load):
    """A load in which an operator to whom a checkpoint is refused makes another a little later."""

    def _copy(self) -> None:
        while self._wait(0.2):
            try:
                self._asks(
                    "checkpoint",
                    lambda _: self._admin("CreateCheckpoint", "somebody"),
                    lambda answer: {"name": answer.checkpoint.checkpoint},
                )
                self.copies += 1
            except grpc.RpcError as problem:
                refusal = Refusal.of(problem)
                if refusal.reason != "DISK_RESERVE":
                    raise
                assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED and refusal.retry_s
                self.refusals.append(f"{refusal.reason}: {refusal.message}")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.trouble, marks=() if case.quick else pytest.mark.soak("errors"))
        for case in cases.AT_CHECKPOINTS
    ],
)
def test_a_checkpoint_that_cannot_be_made_is_refused_and_nothing_is_left_of_it(
    library: Path, tmp_path: Path, soak: Soak, case: Case
) -> None:
    trial = Trial(library, tmp_path, (PROGRAM, NONE), Operators)
    trial.under_load(ROWS[case.row], case.trouble, copies=1)
    there = {path.name for path in (trial.data / "checkpoints").iterdir()}
    found = trial.judged()
    made = set(trial.ledger.checkpoints)
    soak.count(
        faults=trial.trouble.strokes,
        checked=trial.ledger.items,
        lost=len(found.lost),
        doubled=len(found.doubled),
        violated=len(found.violated) + len(there - made),
    )
    assert trial.trouble.strokes and not found.all()
    assert made and there == made
