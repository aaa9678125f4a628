"""Who serves which member: each rule. What comes of all of them is in test_claims_together.py."""

import itertools
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.cluster.claims import (
    FAILED_REST_S,
    FENCED_REST_S,
    GIVE_BACK_S,
    GOOD_HOLD_S,
    LONGEST_REST_S,
    SETTLE_S,
    Claims,
    Notice,
    Plan,
)

GONE_S, RENEW_S, LOOK_S = 2.0, 0.4, 0.25
MEMBERS = [*(f"shard-{number}" for number in range(6)), "front"]
NOTHING = Plan()
_tags = map(str, itertools.count())


def holding(*members: str, is_leaving: bool = False, refuses: Collection[str] = ()) -> Notice:
    return Notice(frozenset(members), is_leaving, frozenset(refuses))


class Looking:
    """A machine that looks at others at each `LOOK_S`, with a clock of its own."""

    def __init__(self, machine: str = "a", members: list[str] = MEMBERS) -> None:
        self.machine = machine
        self.claims = Claims(machine, members, GONE_S)
        self.now_s = 1000.0
        self._tags: dict[str, str] = {}

    def look(self, silent: Collection[str] = (), took_s: float = 0.0, /, **others: Notice) -> None:
        """Look once, a little later. All but the silent ones have renewed themselves."""
        self.now_s += LOOK_S + took_s
        notices = {self.machine: holding(), **others}
        for machine in notices:
            if machine not in silent:
                self._tags[machine] = next(_tags)
        told = {machine: (self._tags[machine], notice) for machine, notice in notices.items()}
        self.claims.look(told, self.now_s, took_s)

    def watch(self, seconds: float, silent: Collection[str] = (), /, **others: Notice) -> "Looking":
        """Look again and again, for so long."""
        for _ in range(round(seconds / LOOK_S)):
            self.look(silent, **others)
        return self

    def plan(self, *holds: str) -> Plan:
        """What it is to do if it serves these."""
        return self.claims.plan(holds, holds, self.now_s)


def settled(*holds: str, machine: str = "a", **others: Notice) -> Looking:
    """A machine that has watched these others long enough for everything."""
    looking = Looking(machine)
    return looking.watch(GONE_S + SETTLE_S + 1, **others, **{machine: holding(*holds)})


# Each rule.


def test_a_machine_decides_nothing_before_it_has_watched_for_long_enough() -> None:
    looking = Looking()
    looking.watch(GONE_S)
    assert not looking.claims.is_sure(looking.now_s)
    assert looking.plan() == NOTHING
    looking.look()
    assert looking.claims.is_sure(looking.now_s)
    assert sorted(looking.plan().claim) == sorted(MEMBERS)


@pytest.mark.parametrize("pause_s", [GONE_S / 2 + 0.1, 3600.0])
def test_a_machine_that_has_not_looked_for_some_time_begins_anew(pause_s: float) -> None:
    looking = settled(b=holding("front"))
    looking.now_s += pause_s
    assert looking.plan() == NOTHING
    looking.look(("b",), b=holding("front"))
    assert looking.claims.there(looking.now_s) == ["a", "b"]
    looking.watch(GONE_S - LOOK_S, ("b",), b=holding("front"))
    assert looking.plan() == NOTHING
    looking.watch(3 * LOOK_S, ("b",), b=holding("front"))
    assert "front" in looking.plan().claim


def test_a_look_that_comes_a_little_late_is_none_that_was_missed() -> None:
    looking = settled()
    looking.now_s += GONE_S / 2 - LOOK_S
    looking.look()
    assert sorted(looking.plan().claim) == sorted(MEMBERS)


def test_a_machine_is_gone_when_it_has_been_silent_for_long_enough() -> None:
    looking = settled(*MEMBERS[1:], b=holding(MEMBERS[0]))
    looking.watch(GONE_S - LOOK_S, ("b",), b=holding(MEMBERS[0]))
    assert not looking.plan(*MEMBERS[1:]).claim
    looking.look(("b",), b=holding(MEMBERS[0]))
    assert looking.plan(*MEMBERS[1:]) == Plan((MEMBERS[0],))


SLOW_S = 4.0  # a renewal and a look at a bucket that takes two seconds for each request


def watched_slowly(looking: Looking, looks: int, silent: Collection[str] = (), /, **others: Notice) -> None:
    """Looks at a slow bucket."""
    for _ in range(looks):
        looking.look(silent, SLOW_S, **others)


def test_a_bucket_that_becomes_slow_makes_no_machine_seem_gone() -> None:
    looking = settled(*MEMBERS[1:], b=holding(MEMBERS[0]))
    for _ in range(20):  # b renews itself in every second look
        watched_slowly(looking, 1, ("b",), b=holding(MEMBERS[0]))
        assert not looking.plan(*MEMBERS[1:]).claim
        watched_slowly(looking, 1, b=holding(MEMBERS[0]))
        assert not looking.plan(*MEMBERS[1:]).claim


def test_a_machine_that_is_lost_while_the_bucket_is_slow_is_replaced() -> None:
    looking = settled(*MEMBERS[1:], b=holding(MEMBERS[0]))
    watched_slowly(looking, 5, ("b",), b=holding(MEMBERS[0]))
    assert looking.plan(*MEMBERS[1:]) == Plan((MEMBERS[0],))


def test_a_machine_that_is_gone_stays_so_when_the_look_before_its_replacement_is_slower() -> None:
    """What a machine is about to serve is one more object to write, and for others one more to read."""
    looking = settled(*MEMBERS[1:], b=holding(MEMBERS[0]))
    watched_slowly(looking, 5, ("b",), b=holding(MEMBERS[0]))
    assert looking.plan(*MEMBERS[1:]) == Plan((MEMBERS[0],))
    looking.look(("b",), 2.5 * SLOW_S, b=holding(MEMBERS[0]))
    assert looking.claims.is_free(MEMBERS[0], looking.now_s)
    looking.look(b=holding(MEMBERS[0]))
    assert not looking.claims.is_free(MEMBERS[0], looking.now_s), "it has renewed itself"


def test_a_machine_that_has_watched_for_long_enough_stays_sure_when_looks_become_slower() -> None:
    looking = settled()
    looking.look((), 2.5 * SLOW_S)
    assert looking.claims.is_sure(looking.now_s)


def test_a_bucket_that_is_fast_again_makes_no_machine_seem_gone() -> None:
    """The others may still wait for answers of before."""
    looking = settled(*MEMBERS[1:], b=holding(MEMBERS[0]))
    watched_slowly(looking, 5, b=holding(MEMBERS[0]))
    looking.watch(SLOW_S, ("b",), b=holding(MEMBERS[0]))
    assert not looking.plan(*MEMBERS[1:]).claim


def test_a_machine_that_has_taken_leave_is_gone_at_once() -> None:
    looking = settled(*MEMBERS[1:], b=holding(MEMBERS[0]))
    looking.look()
    assert looking.plan(*MEMBERS[1:]) == Plan((MEMBERS[0],))


def test_a_machine_that_leaves_takes_nothing_and_keeps_what_it_still_holds() -> None:
    looking = settled(b=holding(MEMBERS[0], is_leaving=True))
    assert sorted(looking.plan().claim) == sorted(MEMBERS[1:])


@given(
    st.dictionaries(st.sampled_from("bcdefgh"), st.sets(st.sampled_from(MEMBERS)), max_size=7),
    st.sampled_from("bcdefgh"),
)
def test_machines_that_see_the_same_share_all_orphans_evenly(held: dict[str, set[str]], leaver: str) -> None:
    notices = {machine: holding(*members, is_leaving=machine == leaver) for machine, members in held.items()}
    notices["a"] = holding()
    takers = [machine for machine in notices if machine != leaver]
    claimed: dict[str, Collection[str]] = {}
    for machine in takers:
        others = {other: notice for other, notice in notices.items() if other != machine}
        looking = Looking(machine).watch(GONE_S + 2 * LOOK_S, **others)
        claimed[machine] = looking.plan(*notices[machine].holds).claim
    taken = [member for members in claimed.values() for member in members]
    assert sorted(taken) == sorted(set(MEMBERS).difference(*(notice.holds for notice in notices.values())))
    loads = {machine: len(notices[machine].holds) + len(claimed[machine]) for machine in takers}
    assert all(loads[machine] <= min(loads.values()) + 1 for machine in takers if claimed[machine])


def test_what_another_one_is_about_to_serve_too_is_not_opened() -> None:
    one, other = settled(b=holding()), settled(machine="b", a=holding())
    claims = one.plan().claim
    one.look(b=holding())  # it has told what it is about to serve, and sees nobody else who is
    assert all(one.claims.is_free(member, one.now_s) for member in claims)
    other.look(a=holding(*claims))  # the other one comes later, or at the same time
    assert not any(other.claims.is_free(member, other.now_s) for member in claims)


def test_nothing_is_opened_after_a_pause() -> None:
    looking = settled()
    looking.now_s += GONE_S
    assert not looking.claims.is_free("front", looking.now_s)
    looking.look()
    assert not looking.claims.is_free("front", looking.now_s)


def test_a_machine_that_was_fenced_leaves_the_member_to_another() -> None:
    one = settled(b=holding(*MEMBERS[1:]))
    other = settled(*MEMBERS[1:], machine="b", a=holding())
    assert one.plan().claim == (MEMBERS[0],)
    one.claims.fenced(MEMBERS[0], one.now_s)
    assert one.claims.refuses(one.now_s) == [MEMBERS[0]]
    assert one.plan().claim == ()
    other.look(a=holding(refuses=[MEMBERS[0]]))
    assert other.plan(*MEMBERS[1:]).claim == (MEMBERS[0],)


def rest_s(looking: Looking) -> float:
    """For how long a machine refuses the front from now on."""
    for tenth in itertools.count():
        if not looking.claims.refuses(looking.now_s + tenth / 10):
            return tenth / 10
    raise AssertionError


@pytest.mark.parametrize(("how", "first_s"), [("fenced", FENCED_REST_S), ("failed", FAILED_REST_S)])
def test_rests_become_longer_and_are_short_again_after_a_good_hold(how: str, first_s: float) -> None:
    looking = settled()
    expected_s = first_s
    for _ in range(7):
        assert "front" in looking.plan().claim
        getattr(looking.claims, how)("front", looking.now_s)
        assert "front" not in looking.plan().claim
        assert rest_s(looking) == pytest.approx(expected_s, abs=0.2)
        looking.watch(LONGEST_REST_S + 1)
        expected_s = min(2 * expected_s, LONGEST_REST_S)
    assert "front" in looking.plan().claim
    looking.watch(GOOD_HOLD_S + 1)
    getattr(looking.claims, how)("front", looking.now_s)
    assert rest_s(looking) == pytest.approx(first_s, abs=0.2)


def test_what_all_refuse_waits_until_one_does_not() -> None:
    looking = settled(b=holding(*MEMBERS[1:], refuses=[MEMBERS[0]]))
    looking.claims.failed(MEMBERS[0], looking.now_s)
    assert looking.plan() == NOTHING
    looking.watch(FAILED_REST_S + 1, b=holding(*MEMBERS[1:], refuses=[MEMBERS[0]]))
    assert looking.plan() == Plan((MEMBERS[0],))


def test_an_orphan_whose_taker_does_not_take_it_goes_to_the_next_one() -> None:
    idle, busy = holding(), holding(*MEMBERS[4:])  # one holds the least, and for some reason takes nothing
    looking = settled(*MEMBERS[1:4], b=idle, c=busy)
    assert looking.plan(*MEMBERS[1:4]).claim == ()
    looking.watch(1.5 * GONE_S, b=idle, c=busy)
    assert looking.plan(*MEMBERS[1:4]).claim == ()
    looking.watch(0.5 * GONE_S, b=idle, c=busy)
    assert looking.plan(*MEMBERS[1:4]).claim == (MEMBERS[0],)


def test_a_machine_with_more_than_its_share_gives_back_one_after_the_other() -> None:
    looking = settled(*MEMBERS, b=holding())
    first = looking.plan(*MEMBERS).give_back
    assert first in MEMBERS
    left = [member for member in MEMBERS if member != first]
    assert looking.plan(*left) == NOTHING
    looking.watch(GIVE_BACK_S + LOOK_S, b=holding(first))
    second = looking.plan(*left).give_back
    left.remove(second)
    looking.watch(GIVE_BACK_S + LOOK_S, b=holding(first, second))
    third = looking.plan(*left).give_back
    left.remove(third)
    looking.watch(10.0, b=holding(first, second, third))
    assert looking.plan(*left) == NOTHING  # 4 and 3 are as even as it goes


def test_only_what_serves_is_given_back() -> None:
    looking = settled(*MEMBERS, b=holding())
    assert looking.claims.plan(MEMBERS, [], looking.now_s) == NOTHING
    assert looking.claims.plan(MEMBERS, ["shard-3"], looking.now_s) == Plan(give_back="shard-3")


def test_nothing_is_given_back_soon_after_a_machine_has_come_or_gone() -> None:
    looking = settled(*MEMBERS, b=holding())
    looking.watch(SETTLE_S - 1, b=holding(), c=holding())
    assert looking.plan(*MEMBERS) == NOTHING
    looking.watch(2.0, b=holding(), c=holding())
    assert looking.plan(*MEMBERS).give_back
    looking.watch(GIVE_BACK_S + LOOK_S, b=holding())
    assert looking.plan(*MEMBERS) == NOTHING


def test_what_a_machine_still_opens_counts_as_its_own() -> None:
    looking = settled(*MEMBERS[:4], b=holding(*MEMBERS[4:]))  # b has told that it is about to serve them
    assert looking.plan(*MEMBERS[:4]) == NOTHING


def test_nothing_is_given_back_for_the_sake_of_a_machine_that_refuses_some() -> None:
    looking = settled(*MEMBERS, b=holding(refuses=["shard-1"]))
    assert looking.plan(*MEMBERS) == NOTHING


@pytest.mark.parametrize("ordinal", range(3))
def test_a_fixed_machine_serves_its_members_whatever_it_sees(ordinal: int) -> None:
    claims = Claims("a", MEMBERS, GONE_S, (ordinal, 3))
    mine = MEMBERS[ordinal::3]
    assert claims.plan([], [], 5.0) == Plan((*mine,))
    assert claims.is_free(mine[0], 5.0)
    assert claims.plan(mine, mine, 5.0) == NOTHING
    claims.failed(mine[0], 5.0)
    assert claims.plan(mine[1:], mine[1:], 5.1) == NOTHING
    assert claims.plan(mine[1:], mine[1:], 5.0 + FENCED_REST_S) == Plan((mine[0],))


def test_fixed_machines_have_all_members_among_them() -> None:
    plans = [Claims("a", MEMBERS, GONE_S, (ordinal, 3)).plan([], [], 0.0) for ordinal in range(3)]
    assert sorted(member for plan in plans for member in plan.claim) == sorted(MEMBERS)


def test_a_machine_is_long_gone_only_if_it_was_watched_all_that_time() -> None:
    looking = settled(b=holding(), c=holding())
    looking.watch(59.0, ("b",), b=holding(), c=holding())
    assert looking.claims.gone(60.0, looking.now_s) == []
    looking.watch(2.0, ("b",), b=holding(), c=holding())
    assert looking.claims.gone(60.0, looking.now_s) == ["b"]
    looking.now_s += 100.0  # without a look
    looking.look(("b", "c"), b=holding(), c=holding())
    assert looking.claims.gone(60.0, looking.now_s) == []
