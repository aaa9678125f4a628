"""The node's connection to the frontier: what its log says, and how its calls end once it is closed."""

import pytest
from node_doubles.client import FakeClient
from structlog.testing import capture_logs

from crawler_node.leases.frontier import FrontierConnection
from toehold_client import errors


def failing(*errors: Exception) -> FrontierConnection:
    left = list(errors)

    def fail(*arguments: object) -> list[object]:
        if left:
            raise left.pop(0)
        return []

    return FakeClient(on_finished=fail).as_frontier()  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [errors.InvalidArgument("x"), errors.SessionSuperseded("x")])
def test_a_failed_call_raises_the_clients_error(error: errors.ToeholdError) -> None:
    with pytest.raises(type(error), match="x"):
        failing(error).finished([])


def test_after_closing_every_failure_means_that_the_node_has_closed_its_connection() -> None:
    frontier = failing(*[ValueError("Cannot invoke RPC on closed channel!")] * 2)
    with pytest.raises(ValueError, match="closed channel"):
        frontier.finished([])
    frontier.close()
    with pytest.raises(errors.ClientClosed):
        frontier.finished([])


@pytest.mark.parametrize(
    ("error", "events"),
    [
        (errors.FrontierUnavailable("away"), ["frontier_lost", "frontier_back"]),
        (errors.Unauthenticated("token 07 expired"), ["calls_denied", "calls_allowed"]),
    ],
)
def test_an_outage_and_a_denial_are_two_lines_in_the_nodes_log(
    error: errors.ToeholdError, events: list[str]
) -> None:
    error.request_id = "given"
    frontier = failing(error, error, error)
    with capture_logs() as lines:
        for _ in range(3):
            with pytest.raises(type(error)):
                frontier.finished([])
        for _ in range(2):
            frontier.finished([])
    assert [line["event"] for line in lines] == events
    assert lines[0]["error"] == str(error)
    assert lines[0].get("request_id", "given") == "given"
