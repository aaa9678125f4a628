"""Leases out: when they lapse, and who holds them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.rows.keys import Token, encode_token
from frontier_server.core.rows.records import LeaseRow
from frontier_server.core.spec.settings import FetchSettings
from frontier_server.core.state.leases import Lease, LeaseTable
from frontier_server.core.state.nodes import MAX_NODES, MAX_TOE_STEPS

SECRET = b"0123456789abcdef"
PERIOD_MS = 1_000
NEVER_MS = 10**9


def table() -> LeaseTable:
    """A table without leases."""
    return LeaseTable(SECRET, PERIOD_MS, 0)


def lease(
    serial: int, deadline_ms: int = PERIOD_MS, hard_ms: int = NEVER_MS, node: str = "node", session: str = "1"
) -> Lease:
    """A lease of a page."""
    row = LeaseRow(node, session, b"partition&queue.", b"suffix..", b"subject.", 1, 0)
    return Lease(1, serial, row, deadline_ms, hard_ms)


def lapse_all(leases: LeaseTable, now_ms: int) -> list[int]:
    """The serial numbers of all leases that lapse now."""
    lapsed = []
    while (late := leases.lapsed(now_ms)) is not None:
        lapsed.append(late.serial)
        leases.remove(late)
    return lapsed


def test_a_lease_is_found_by_its_token_until_it_is_removed() -> None:
    leases, out = table(), lease(7)
    token = leases.add(out)
    said = leases.genuine(token)
    assert said == Token(1, b"partitio", 7, b"subject.", False)
    assert leases.out(token) is out and len(leases) == 1 and list(leases) == [out]
    leases.remove(out)
    assert leases.out(token) is None and len(leases) == 0 and leases.genuine(token) == said


@pytest.mark.parametrize(
    "wrong", [{"partition": b"another."}, {"fingerprint": b"another."}, {"robots": True}]
)
def test_a_lease_is_found_by_no_token_that_says_anything_else_of_it(wrong: dict[str, Any]) -> None:
    leases, out = table(), lease(7)
    leases.add(out)
    assert leases.out(encode_token(out.said, SECRET)) is out
    assert leases.out(encode_token(out.said._replace(**wrong), SECRET)) is None


def test_a_token_of_another_server_is_not_genuine() -> None:
    assert table().genuine(LeaseTable(b"another secret..", PERIOD_MS, 0).add(lease(1))) is None


def test_a_lease_lapses_at_its_deadline_and_not_before() -> None:
    leases = table()
    leases.add(lease(1))
    assert leases.next_deadline_ms() == PERIOD_MS
    assert leases.lapsed(PERIOD_MS - 1) is None
    assert lapse_all(leases, PERIOD_MS) == [1]
    assert leases.lapsed(NEVER_MS) is None


def test_leases_lapse_in_the_order_of_their_deadlines() -> None:
    leases = table()
    for serial, deadline_ms in ((1, 300), (2, 100), (3, 200), (4, 500)):
        leases.add(lease(serial, deadline_ms))
    assert lapse_all(leases, 300) == [2, 3, 1]


def test_a_heartbeat_lets_a_lease_live_a_period_from_now() -> None:
    leases, out = table(), lease(1)
    leases.add(out)
    leases.extend(out, 600)
    assert lapse_all(leases, 1_599) == []
    assert lapse_all(leases, 1_600) == [1]


def test_no_lease_outlives_its_hard_limit_heartbeats_or_not() -> None:
    leases, out = table(), lease(1, hard_ms=1_500)
    leases.add(out)
    for now_ms in (500, 1_000, 1_400):
        leases.extend(out, now_ms)
    assert lapse_all(leases, 1_499) == []
    assert lapse_all(leases, 1_500) == [1]


def test_a_hard_limit_is_twice_the_longest_fetch_but_at_least_ten_periods() -> None:
    assert table().longest_ms(FetchSettings(timeout_ms=20_000)) == 40_000
    assert table().longest_ms(FetchSettings(timeout_ms=1)) == 10 * PERIOD_MS


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "extend", "remove", "pass"]), st.integers(0, 9), st.integers(0, 1_500)
        ),
        max_size=60,
    )
)
def test_whatever_happens_exactly_the_overdue_leases_lapse(steps: list[tuple[str, int, int]]) -> None:
    """Against a plain dictionary of deadlines; the next deadline is never later than the first of them."""
    leases = table()
    out: dict[int, Lease] = {}
    now_ms = 0
    for number, (step, pick, length_ms) in enumerate(steps, 1):
        chosen = list(out.values())[pick % len(out)] if out else None
        if step == "add":
            out[number] = lease(number, now_ms + PERIOD_MS, now_ms + 2 * PERIOD_MS)
            leases.add(out[number])
        elif step == "extend" and chosen is not None:
            leases.extend(chosen, now_ms)
        elif step == "remove" and chosen is not None:
            leases.remove(chosen)
            del out[chosen.serial]
        elif step == "pass":
            now_ms += length_ms
            overdue = {serial for serial, one in out.items() if one.deadline_ms <= now_ms}
            assert set(lapse_all(leases, now_ms)) == overdue
            out = {serial: one for serial, one in out.items() if serial not in overdue}
        first_ms = min((one.deadline_ms for one in out.values()), default=None)
        due_ms = leases.next_deadline_ms()
        assert first_ms is None or (due_ms is not None and due_ms <= first_ms)
        assert len(leases) == len(out)


def test_what_is_kept_of_ended_leases_has_an_end() -> None:
    """However many come and go between two deadlines."""
    leases = table()
    for serial in range(10_000):
        out = lease(serial)
        leases.add(out)
        leases.remove(out)
    assert len(leases._deadlines) <= 1_001


# Nodes and sessions.


def test_a_new_session_ends_the_leases_of_the_one_before() -> None:
    leases = table()
    mine, others = [lease(2), lease(1)], lease(3, node="other")
    for out in (*mine, others):
        leases.add(out)
    assert leases.record_seen("node", "2", 0) == [mine[1], mine[0]]
    for out in mine:
        leases.remove(out)
    assert leases.record_seen("node", "2", 0) == []


def test_the_same_session_ends_nothing() -> None:
    leases = table()
    leases.add(lease(1))
    assert leases.record_seen("node", "1", 5) == [] and leases.record_seen("node", "1", 6) == []


def test_a_node_is_known_from_its_leases_after_a_restart() -> None:
    """Another process of that name ends them, as if there had been no restart."""
    leases, out = table(), lease(1)
    leases.add(out)
    assert leases.record_seen("node", "2", 0) == [out]


def test_nodes_are_listed_the_latest_first_with_what_they_do() -> None:
    leases = table()
    leases.record_seen("one", "1", 10)
    leases.record_seen("two", "1", 20)
    leases.add(lease(1, node="one"))
    leases.nodes.note("one", [("FETCHING", 3), ("WRITING", 1)])
    leases.record_seen("one", "1", 30)
    one, two = leases.nodes.views(30)
    assert (one.node, one.session, one.last_seen_ms, one.leased) == ("one", "1", 30, 1)
    assert one.toe_steps == (("FETCHING", 3), ("WRITING", 1))
    assert (two.node, two.last_seen_ms, two.leased, two.toe_steps) == ("two", 20, 0, ())


def test_a_new_session_begins_with_nothing_done() -> None:
    leases = table()
    leases.record_seen("node", "1", 0)
    leases.nodes.note("node", [("FETCHING", 3)])
    leases.record_seen("node", "2", 0)
    assert leases.nodes.views(0)[0].toe_steps == ()


def test_what_is_kept_of_nodes_has_an_end() -> None:
    leases = table()
    for number in range(MAX_NODES + 500):
        leases.record_seen(f"node-{number}", "1", number)
    assert len(leases.nodes.views(1_500)) == MAX_NODES
    leases.nodes.note("node-1400", [(f"STEP-{number}", 1) for number in range(1_000)])
    assert max(len(view.toe_steps) for view in leases.nodes.views(1_500)) == MAX_TOE_STEPS


def test_the_node_that_speaks_is_known_even_if_all_others_hold_leases() -> None:
    """One more than are kept must not end the server."""
    leases = table()
    for number in range(MAX_NODES):
        leases.record_seen(f"node-{number}", "1", 0)
        leases.add(lease(number, node=f"node-{number}"))
    assert leases.record_seen("one-more", "1", 1) == []
    leases.nodes.note("one-more", [("FETCHING", 1)])
    assert leases.nodes.views(1)[0].node == "one-more"
