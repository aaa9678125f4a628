"""Several leases of a queue at once, gaps between its turns, and requests for particular queues."""

from typing import Any

import pytest
from core_doubles.codec import candidate, override_of
from core_doubles.several_leases import KEY, SECOND, A, B, ask, change, crawl, pages, settings, states, uris

from frontier_server.core import frontier
from frontier_server.core.journey import dispatch
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.rows.errors import InvalidRequest
from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import QueueSettings
from frontier_server.core.state.model import Report
from frontier_server.core.state.queue import QueueState

# Several at once.


def test_a_queue_gives_as_many_leases_as_its_settings_allow_and_is_busy_until_the_last_has_ended() -> None:
    shell = crawl(*pages(A, 5), of=settings(max_leases_per_queue=3))
    out = ask(shell)
    assert uris(out) == pages(A, 3)
    assert states(shell)[KEY] is QueueState.BUSY and ask(shell) == []
    shell.finish(Report(out[1].token, fetch_status=200))
    (fourth,) = ask(shell)
    assert fourth.uri == f"{A}/3"
    shell.finish(*(Report(grant.token, fetch_status=200) for grant in (out[0], out[2], fourth)))
    (fifth,) = ask(shell)
    shell.finish(Report(fifth.token, fetch_status=200))
    assert ask(shell) == [] and shell.count("crawl", "succeeded_count") == 7


def test_one_lease_of_a_queue_is_the_default() -> None:
    shell = crawl(*pages(A, 2), of=settings(max_leases_per_queue=QueueSettings().max_leases_per_queue))
    assert uris(ask(shell)) == [f"{A}/0"] and ask(shell) == []


def test_a_host_gets_no_more_requests_at_once_than_it_may_whatever_its_queues_may_give() -> None:
    """D13's kin: max_parallel holds for the host."""
    shell = crawl(*pages(A, 9), of=settings(max_parallel=2))
    out = ask(shell)
    assert len(out) == 2 and ask(shell) == []
    shell.finish(Report(out[0].token, fetch_status=200))
    assert len(ask(shell)) == 1


def test_rests_of_a_host_are_kept_between_the_starts_of_its_requests() -> None:
    shell = crawl(*pages(A, 4), of=settings(max_parallel=10, min_delay_ms=5 * SECOND))
    begun = []
    for second in range(20):
        begun += [second] * len(ask(shell))
        shell.now_ms += SECOND
        shell.tick()
    assert begun == [0, 5, 10, 15]


def test_a_uri_that_is_handed_back_goes_first_again_and_the_others_stay_out() -> None:
    shell = crawl(*pages(A, 6), of=settings(max_leases_per_queue=4))
    out = ask(shell)
    shell.finish(Report(out[1].token, released=True))
    assert uris(ask(shell)) == [f"{A}/1"]
    assert ask(shell) == []


def test_leases_that_lapse_give_their_uris_back() -> None:
    shell = crawl(*pages(A, 3), of=settings(max_leases_per_queue=2))
    first = ask(shell)
    shell.now_ms += 601 * SECOND
    shell.tick()
    assert uris(ask(shell)) == uris(first)


def test_urgent_uris_go_before_those_that_wait_while_others_are_out() -> None:
    shell = crawl(*pages(A, 2), of=settings(max_leases_per_queue=2))
    out = ask(shell, most=1)
    shell.schedule("crawl", candidate(f"{A}/urgent", directive=1))
    assert uris(out + ask(shell)) == [f"{A}/0", f"{A}/urgent"]


def test_a_restart_knows_which_uris_are_out() -> None:
    shell = crawl(*pages(A, 5), of=settings(max_leases_per_queue=3))
    out = ask(shell, most=2)
    shell.restart()
    assert uris(out + ask(shell)) == pages(A, 3)
    shell.restart()
    results = shell.finish(*(Report(grant.token, fetch_status=200) for grant in out))
    assert {result.disposition for result in results} == {Disposition.SUCCEEDED}
    assert uris(ask(shell)) == [f"{A}/3", f"{A}/4"]


def test_a_queue_that_is_to_be_retired_gives_no_more_and_retires_when_its_last_lease_has_ended() -> None:
    shell = crawl(*pages(A, 5), of=settings(max_leases_per_queue=4))
    out = ask(shell, most=2)
    change(shell, retired=True)
    assert ask(shell) == []
    for grant in out:
        assert states(shell)[KEY] is QueueState.BUSY
        shell.finish(Report(grant.token, fetch_status=200))
    assert states(shell)[KEY] is QueueState.RETIRED


def test_a_queue_that_has_spent_its_budget_gives_no_more_until_its_leases_have_ended() -> None:
    """T-rows of budgets: a session's budget counts what has ended."""
    shell = crawl(*pages(A, 5), of=settings(max_leases_per_queue=2, total_budget=3))
    out = ask(shell)
    assert len(out) == 2
    shell.finish(Report(out[0].token, fetch_status=200))
    more = ask(shell)
    shell.finish(*(Report(grant.token, fetch_status=200) for grant in (out[1], *more)))
    assert ask(shell) == [] and states(shell)[KEY] is QueueState.RETIRED


# What a request wants.


def test_a_turn_gives_one_lease_so_that_queues_take_turns() -> None:
    shell = crawl(*pages(A, 2), *pages(B, 2))
    assert uris(ask(shell)) == [f"{A}/0", f"{B}/0", f"{A}/1", f"{B}/1"]


def test_a_request_for_several_of_a_queue_gets_them_one_after_the_other() -> None:
    shell = crawl(*pages(A, 5), *pages(B, 5))
    assert uris(ask(shell, per_queue=2)) == [*pages(A, 2), *pages(B, 2)]
    assert ask(shell, per_queue=2) == [], "as many are out as the request wants"
    assert uris(ask(shell, per_queue=3)) == [f"{A}/2", f"{B}/2"]
    assert uris(ask(shell)) == [f"{A}/3", f"{B}/3", f"{A}/4", f"{B}/4"], "others may want more"


def test_a_request_gets_no_more_leases_than_it_wants_whatever_it_wants_of_a_queue() -> None:
    shell = crawl(*pages(A, 5))
    assert uris(ask(shell, most=2, per_queue=5)) == pages(A, 2)


def test_a_request_may_limit_the_queues_that_it_gets_leases_of() -> None:
    shell = crawl(*pages(A, 5), *pages(B, 5))
    assert uris(ask(shell, per_queue=3, most_queues=1)) == pages(A, 3)
    assert uris(ask(shell, most_queues=1, name="")) == [f"{B}/0"]


def test_a_request_for_queues_gets_leases_of_these_alone_whatever_goes_before_them() -> None:
    shell = crawl(*pages(A, 2), *pages(B, 3))
    assert uris(ask(shell, queues=("example,b,",))) == [f"{B}/0"]
    assert uris(ask(shell, queues=("b.example",), per_queue=10)) == [f"{B}/1", f"{B}/2"]
    assert ask(shell, queues=("no.such.host", "example,no,")) == []
    assert uris(ask(shell)) == pages(A, 2)


def test_a_queue_that_rests_gives_nothing_to_those_who_name_it() -> None:
    shell = crawl(*pages(A, 2), of=settings(min_delay_ms=SECOND, max_parallel=1, max_leases_per_queue=1))
    (out,) = ask(shell, queues=(KEY,))
    shell.finish(Report(out.token, fetch_status=200))
    assert ask(shell, queues=(KEY,)) == []
    shell.now_ms += SECOND
    assert uris(ask(shell, queues=(KEY,))) == [f"{A}/1"]


def test_a_queue_that_is_asked_for_by_name_keeps_its_one_place_among_the_ready() -> None:
    shell = crawl(*pages(A, 50), *pages(B, 50), of=settings(max_leases_per_queue=1))
    for _ in range(40):
        (out,) = ask(shell, queues=(KEY,))
        shell.finish(Report(out.token, fetch_status=200))
    assert len(shell.core.shard.registry.named("crawl").queues.ready) <= 2


@pytest.mark.parametrize(
    ("want", "told"),
    [
        (Want(0), "max_leases must be between 1 and 1000, got 0"),
        (Want(1, per_queue=-1), "max_leases_per_queue must be at least 0, got -1"),
        (Want(1, most_queues=-2), "max_queues must be at least 0, got -2"),
        (Want(1, queues=("a",) * 101), "queues must have at most 100 keys or hosts, got 101"),
    ],
)
def test_a_request_that_makes_no_sense_is_told_what_would(want: Want, told: str) -> None:
    shell = crawl()
    with pytest.raises(InvalidRequest, match=told):
        shell.do(lambda core, now: core.frontier.next("node", "1", want, "crawl", now))


def test_queues_are_those_of_a_crawl() -> None:
    shell = crawl()
    with pytest.raises(InvalidRequest, match="crawl must be set when queues are named, got none"):
        ask(shell, queues=(KEY,), name="")


# Gaps between turns.


def test_a_gap_lies_between_the_turns_of_a_queue_and_a_turn_gives_all_that_the_request_wants() -> None:
    shell = crawl(*pages(A, 6), of=settings(min_gap_ms=10 * SECOND))
    assert uris(ask(shell, per_queue=2)) == pages(A, 2)
    assert ask(shell) == []
    shell.now_ms += 9 * SECOND
    assert ask(shell) == []
    shell.now_ms += SECOND
    assert uris(ask(shell)) == [f"{A}/2"], "one, if the request does not say how many"
    shell.now_ms += 10 * SECOND
    shell.tick()
    assert shell.core.frontier.leasable("crawl"), "a waiting node is woken"
    assert len(ask(shell, per_queue=100)) == 3


def test_a_gap_is_kept_when_the_leases_of_the_turn_have_ended() -> None:
    shell = crawl(*pages(A, 3), of=settings(min_gap_ms=10 * SECOND))
    (out,) = ask(shell)
    shell.finish(Report(out.token, fetch_status=200))
    assert states(shell)[KEY] is QueueState.SNOOZED and ask(shell) == []
    shell.restart()
    assert ask(shell) == []
    shell.now_ms += 10 * SECOND
    assert uris(ask(shell)) == [f"{A}/1"]


def test_an_operator_gives_a_queue_a_gap_of_its_own_and_takes_it_back() -> None:
    shell = crawl(*pages(A, 5), *pages(B, 5), of=settings(min_gap_ms=SECOND))
    change(shell, min_gap_ms=60 * SECOND)
    ask(shell)
    shell.now_ms += 2 * SECOND
    assert uris(ask(shell)) == [f"{B}/1"]
    shell.now_ms += 58 * SECOND
    change(shell, min_gap_ms=-1)
    assert len(ask(shell)) == 2
    shell.now_ms += SECOND
    assert len(ask(shell)) == 2


def test_an_operator_puts_a_queue_to_rest_until_a_time_and_ends_that() -> None:
    shell = crawl(*pages(A, 5), of=settings(max_leases_per_queue=1))
    change(shell, rest_until_ms=shell.now_ms + 60 * SECOND)
    assert states(shell)[KEY] in (QueueState.SNOOZED, QueueState.INACTIVE) and ask(shell) == []
    shell.restart()
    assert ask(shell) == []
    shell.now_ms += 60 * SECOND
    (out,) = ask(shell)
    change(shell, rest_until_ms=shell.now_ms + 60 * SECOND)
    shell.finish(Report(out.token, fetch_status=200))
    assert ask(shell) == [], "also one whose URI was out"
    change(shell, rest_until_ms=shell.now_ms - 1)
    assert uris(ask(shell)) == [f"{A}/1"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"min_gap_ms": 86_400_001}, "min_gap must be at most 1 day, got 86400001 ms"),
        ({"wake": True, "rest_until_ms": 5}, "wake and rest_until_time must not be set together"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(changes: dict[str, Any], told: str) -> None:
    shell = crawl(*pages(A, 1))
    with pytest.raises(InvalidRequest, match=told):
        change(shell, **changes)


# The order of URIs.


def test_by_time_the_uri_goes_first_that_has_been_due_for_longest() -> None:
    shell = crawl(of=settings(uri_order="due-time"))
    for name, seconds in (("late", 1), ("soon", 500), ("earlier", 60), ("same", 60)):
        offer = candidate(f"{A}/{name}", not_before_ms=shell.now_ms - seconds * SECOND)
        shell.schedule("crawl", offer)
    shell.schedule("crawl", f"{A}/now", candidate(f"{A}/urgent", precedence=0))
    assert uris(ask(shell)) == [f"{A}/{n}" for n in ("urgent", "soon", "earlier", "same", "late", "now")]


def test_by_time_future_uris_have_the_times_when_they_fell_due() -> None:
    shell = crawl(of=settings(uri_order="due-time"))
    shell.schedule("crawl", candidate(f"{A}/second", not_before_ms=shell.now_ms + 20 * SECOND))
    shell.schedule("crawl", candidate(f"{A}/first", not_before_ms=shell.now_ms + 10 * SECOND))
    shell.now_ms += 60 * SECOND
    shell.schedule("crawl", f"{A}/third")
    assert uris(ask(shell)) == [f"{A}/{n}" for n in ("first", "second", "third")]
    shell.restart()
    (view, *_), _ = shell.core.administration.uris("crawl", KEY, 10, b"")
    assert view.due_ms == (shell.now_ms - 50 * SECOND) // SECOND * SECOND


def test_by_time_many_uris_of_one_second_keep_places_of_their_own() -> None:
    shell = crawl(of=settings(uri_order="due-time"))
    due = shell.now_ms - 5 * SECOND
    shell.schedule("crawl", candidate(f"{A}/first", not_before_ms=due))
    number = shell.core.shard.registry.named("crawl").number
    queue = next(iter(q for q in shell.core.shard.crawls[number].queues.recent.values() if q.row.key == KEY))
    queue.row.next_ordinal += 0xFFFF  # as if so many more had come
    shell.schedule("crawl", candidate(f"{A}/second", not_before_ms=due), f"{A}/third")
    assert uris(ask(shell)) == [f"{A}/{n}" for n in ("first", "second", "third")]


def test_by_time_a_uri_that_goes_before_the_first_one_that_memory_knows_is_found() -> None:
    shell = crawl(of=settings(uri_order="due-time", max_leases_per_queue=1))

    def offer(name: str, seconds: int) -> None:
        shell.schedule("crawl", candidate(f"{A}/{name}", not_before_ms=shell.now_ms - seconds * SECOND))

    offer("first", 100)
    offer("last", 10)
    (out,) = ask(shell)
    shell.finish(Report(out.token, fetch_status=200))
    (out,) = ask(shell)
    offer("between", 50)
    shell.finish(Report(out.token, fetch_status=200))
    shell.restart()
    assert uris(ask(shell)) == [f"{A}/between"]


def test_by_time_a_full_second_goes_on_in_the_next_one() -> None:
    """Many URIs of one time, such as those of a sitemap, must not be looked through for each further one."""
    shell = crawl(of=settings(uri_order="due-time"))
    due = (shell.now_ms // SECOND - 5) * SECOND
    shell.schedule("crawl", candidate(f"{A}/first", not_before_ms=due))
    number = shell.core.shard.registry.named("crawl").number
    queue = next(iter(q for q in shell.core.shard.crawls[number].queues.recent.values() if q.row.key == KEY))
    queue.row.next_ordinal += 0xFFFF  # as if so many more had come
    shell.schedule("crawl", candidate(f"{A}/second", not_before_ms=due))
    views, _ = shell.core.administration.uris("crawl", KEY, 10, b"")
    assert [view.due_ms for view in views] == [due, due + SECOND]


def test_by_time_a_uri_that_moves_to_another_queue_keeps_the_time_since_when_it_is_due() -> None:
    shell = crawl(f"{A}/early", of=settings(uri_order="due-time", max_leases_per_queue=1))
    early = shell.now_ms
    shell.now_ms += 60 * SECOND
    override = override_of(queues={"queue_key": "other"})
    shell.do(
        lambda core, now: core.administration.put_override("crawl", "http://(example,a,)", override, now)
    )
    shell.schedule("crawl", candidate(f"{A}/late", not_before_ms=early + 30 * SECOND))
    out = ask(shell)
    shell.finish(*(Report(grant.token, fetch_status=200) for grant in out))
    assert uris(out + ask(shell)) == [f"{A}/early", f"{A}/late"]


# Rows of queues.


def test_the_head_of_a_queue_passes_the_deleted_rows_behind_a_lease_that_took_long() -> None:
    shell = crawl(*pages(A, 30), of=settings(max_leases_per_queue=5))
    queue = next(
        q for q in shell.core.shard.registry.named("crawl").queues.recent.values() if q.row.key == KEY
    )
    long, *others = ask(shell)
    for _ in range(4):
        shell.finish(*(Report(grant.token, fetch_status=200) for grant in others))
        others = ask(shell)
    shell.finish(Report(long.token, fetch_status=200))
    first = min(queue.out)
    assert queue.row.start == first, "nothing that starts at the head walks over what is done"
    shell.restart()
    assert len(ask(shell)) == 1


def test_an_answer_ends_once_its_candidates_have_many_bytes_whatever_turns_they_come_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (dispatch, frontier):
        monkeypatch.setattr(module, "BYTES_PER_CALL", 100_000)
    shell = crawl(*(candidate(uri, annotations=bytes(10_000)) for uri in (*pages(A, 9), *pages(B, 30))))
    shell.create("other", settings())
    shell.schedule("other", *(candidate(uri, annotations=bytes(10_000)) for uri in pages(f"{A}/other", 30)))
    shell.launch("other", f"{A}/other")
    answers = [ask(shell, per_queue=50, name="") for _ in range(9)]
    assert sum(map(len, answers)) >= 9 + 30
    assert max(sum(len(grant.candidate.record) for grant in answer) for answer in answers) < 112_000
