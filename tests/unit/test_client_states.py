"""States of a crawl, as a program may name them."""

from typing import Any, get_args

import pytest

from toehold.frontier.v1.crawl_pb2 import CrawlState
from toehold_client.errors import InvalidArgument
from toehold_client.states import StateName, state_name, states_of

PAUSED, FINISHED = CrawlState.CRAWL_STATE_PAUSED, CrawlState.CRAWL_STATE_FINISHED
ALL = "NASCENT, PREPARING, RUNNING, EMPTY, PAUSING, PAUSED, STOPPING, FINISHED"


def test_the_names_are_those_of_the_contract() -> None:
    assert list(get_args(StateName)) == [state_name(state) for state in CrawlState.values() if state]


def test_a_state_may_be_given_by_name_or_by_value_alone_or_with_others() -> None:
    assert (
        states_of("PAUSED") == states_of(PAUSED) == states_of(["PAUSED"]) == states_of({PAUSED}) == {PAUSED}
    )
    assert states_of({"PAUSED", "FINISHED"}) == states_of((PAUSED, "FINISHED")) == {PAUSED, FINISHED}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("PASUED", f"state must be one of {ALL}, got 'PASUED'; did you mean PAUSED?"),
        ("paused", f"state must be one of {ALL}, got 'paused'; did you mean PAUSED?"),
        ("CRAWL_STATE_PAUSED", f"state must be one of {ALL}, got 'CRAWL_STATE_PAUSED'; did you mean PAUSED?"),
        ("done", f"state must be one of {ALL}, got 'done'"),
        (["PAUSED", "STOPING"], f"state must be one of {ALL}, got 'STOPING'; did you mean STOPPING?"),
        (0, f"state must be one of {ALL}, got 0"),
        (99, f"state must be one of {ALL}, got 99"),
        (True, f"state must be one of {ALL}, got True"),
        (None, f"state must be one of {ALL}, got None"),
        (b"PAUSED", f"state must be one of {ALL}, got b'PAUSED'"),
        ([], f"states must have at least one of {ALL}, got none"),
    ],
)
def test_anything_else_is_refused_with_the_right_names(asked: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        states_of(asked)
    assert str(refused.value) == message
