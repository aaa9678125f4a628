"""SetPoolSize: how many toe threads nodes are told to have, all of them or one by its name."""

from pathlib import Path

import pytest
from frontier_harness.calls import INVALID, TIMEOUT_S, Stubs, refused
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted

from toehold.frontier.v1 import admin_pb2


def put(stubs: Stubs, size: int | None, node: str = "") -> None:
    stubs.admin.SetPoolSize(admin_pb2.SetPoolSizeRequest(node=node, size=size), timeout=TIMEOUT_S)


def heard(stubs: Stubs, node: str) -> int | None:
    """What a node's heartbeat is told; None if nothing."""
    answer = stubs.heartbeat(node=node)
    return answer.pool_size if answer.HasField("pool_size") else None


def shown(stubs: Stubs) -> dict[str, int | None]:
    """The nodes, and their sizes as operators see them."""
    answer = stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=TIMEOUT_S)
    return {node.node: node.pool_size if node.HasField("pool_size") else None for node in answer.nodes}


def test_nodes_have_as_many_as_they_were_started_with_until_somebody_says(at: Hosted) -> None:
    assert heard(at.stubs, "one") is None
    assert shown(at.stubs) == {"one": None}


def test_a_size_for_all_is_told_to_each_with_its_next_heartbeat_and_to_new_ones(at: Hosted) -> None:
    """S4.3, S4.5: it may be said again and again."""
    stubs = at.stubs
    assert heard(stubs, "one") is None
    for size in (7, 3, 0, 10_000):
        put(stubs, size)
        assert heard(stubs, "one") == size
        assert heard(stubs, f"new {size}") == size
        assert set(shown(stubs).values()) == {size}


def test_a_node_of_its_own_size_goes_its_own_way(at: Hosted) -> None:
    stubs = at.stubs
    put(stubs, 5, "own")
    assert (heard(stubs, "own"), heard(stubs, "other")) == (5, None)
    put(stubs, 9)
    assert (heard(stubs, "own"), heard(stubs, "other")) == (5, 9)
    assert shown(stubs) == {"own": 5, "other": 9}
    put(stubs, None, "own")
    assert (heard(stubs, "own"), heard(stubs, "other")) == (9, 9)
    put(stubs, None)
    assert (heard(stubs, "own"), heard(stubs, "other")) == (None, None)


def test_no_size_and_size_0_are_different_things(at: Hosted) -> None:
    put(at.stubs, 0, "rests")
    put(at.stubs, 4)
    assert (heard(at.stubs, "rests"), heard(at.stubs, "works")) == (0, 4)


def test_a_size_belongs_to_the_name_whatever_the_session(at: Hosted) -> None:
    put(at.stubs, 5, "node")
    assert at.stubs.heartbeat(session="one").pool_size == 5
    assert at.stubs.heartbeat(session="two").pool_size == 5


def test_sizes_survive_a_restart(tmp_path: Path) -> None:
    store = HeldStore()
    with hosted(store, tmp_path) as at:
        put(at.stubs, 5, "own")
        put(at.stubs, 0)
    with hosted(store, tmp_path) as at:
        assert (heard(at.stubs, "own"), heard(at.stubs, "other")) == (5, 0)


@pytest.mark.parametrize("size", [-1, 10_001, 2**31 - 1, -(2**31)])
def test_a_size_that_no_pool_has_is_refused_and_changes_nothing(at: Hosted, size: int) -> None:
    put(at.stubs, 5)
    problem = refused(lambda: put(at.stubs, size), INVALID, "INVALID_ARGUMENT_VALUE", str(size), "10000")
    assert problem.metadata == {"field": "size"}
    refused(lambda: put(at.stubs, size, "one"), INVALID, "INVALID_ARGUMENT_VALUE", str(size))
    assert heard(at.stubs, "one") == 5


def test_a_name_that_no_node_has_is_refused(at: Hosted) -> None:
    problem = refused(lambda: put(at.stubs, 5, "x" * 129), INVALID, "INVALID_ARGUMENT_VALUE", "129", "128")
    assert problem.metadata == {"field": "node"}
    put(at.stubs, 5, "x" * 128)
    assert heard(at.stubs, "x" * 128) == 5


def test_no_more_names_are_kept_than_there_may_be_nodes_until_some_are_taken_back(at: Hosted) -> None:
    stubs = at.stubs
    for number in range(1000):
        put(stubs, 1, f"node {number}")
    problem = refused(lambda: put(stubs, 1, "one more"), INVALID, "INVALID_ARGUMENT_VALUE", "1000")
    assert problem.metadata == {"field": "node"}
    put(stubs, 2, "node 7")  # which is known
    put(stubs, None, "one more")  # of which there is nothing to take back
    put(stubs, None, "node 8")
    put(stubs, 1, "one more")
    assert (heard(stubs, "node 7"), heard(stubs, "one more"), heard(stubs, "node 8")) == (2, 1, None)


def test_a_size_for_all_can_be_set_beside_as_many_names_as_there_may_be(at: Hosted) -> None:
    stubs = at.stubs
    for number in range(1000):
        put(stubs, 1, f"node {number}")
    put(stubs, 4)
    assert (heard(stubs, "another"), heard(stubs, "node 1")) == (4, 1)
