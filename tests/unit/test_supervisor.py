"""How toe threads are shared among the processes of a node, and with which code it ends."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_node.control.supervisor import shares, worst
from crawler_node.process import NodeExitCode


@given(st.integers(0, 1000), st.integers(1, 64))
def test_each_process_has_as_many_threads_as_any_other_or_one_less(toes: int, processes: int) -> None:
    each = shares(toes, processes)
    assert sum(each) == toes and len(each) == processes and max(each) - min(each) <= 1


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([0, 0], NodeExitCode.DRAINED),
        ([0, NodeExitCode.WORN_OUT], NodeExitCode.DRAINED),
        ([0, NodeExitCode.UNREPORTED], NodeExitCode.UNREPORTED),
        ([NodeExitCode.SUPERSEDED, 0], NodeExitCode.SUPERSEDED),
        ([NodeExitCode.OUTPUT_UNUSABLE, NodeExitCode.OUTPUT_UNUSABLE], NodeExitCode.OUTPUT_UNUSABLE),
        ([0, -signal.SIGKILL], NodeExitCode.UNREPORTED),
        ([NodeExitCode.SUPERSEDED, -signal.SIGKILL], NodeExitCode.SUPERSEDED),
    ],
)
def test_a_node_ends_with_what_the_first_of_its_processes_has_to_complain_of(
    codes: list[int], code: NodeExitCode
) -> None:
    assert worst(codes) == code
