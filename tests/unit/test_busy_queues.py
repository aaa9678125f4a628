"""A queue that has leases out: its further turns, who goes before it, and what brings it another turn."""

from dataclasses import replace
from typing import Any

import pytest
from core_doubles.codec import candidate, spec_of
from core_doubles.rebuilt import as_rebuilt
from core_doubles.several_leases import KEY, SECOND, A, B, ask, change, crawl, pages, settings, uris
from core_doubles.shell import Shell

from frontier_server.core.core import Core
from frontier_server.core.jobs.steering import QueueChange
from frontier_server.core.journey.kept import SeenFilter
from frontier_server.core.rows.errors import InvalidRequest
from frontier_server.core.rows.store import Changes
from frontier_server.core.spec.settings import CrawlSettings, IdentitySettings, RobotsSettings, ScopeSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Candidate, JobView, Report

OTHER_KEY = "example,b,"
SECURE = "https://a.example"  # the same host in another queue


def at_hosts(shell: Shell, host: str) -> int:
    """How many entries a crawl's line at a host has."""
    number = shell.core.views.crawl("crawl").number
    return len(shell.core.shard.hosts._hosts[host].lines.get(number, ()))


# What brings another turn.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"paused": True}, {"paused": False}),
        ({"retired": True}, {"retired": False}),
        ({"total_budget": 0}, {"total_budget": -1}),
        ({"rest_until_ms": 1_800_000_000_000}, {"wake": True}),
        ({"rest_until_ms": 1_800_000_000_000}, {"rest_until_ms": 0}),
    ],
)
def test_a_change_by_an_operator_shows_at_once_although_leases_are_out(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    shell = crawl(*pages(A, 4), of=settings(max_leases_per_queue=3))
    ask(shell, most=1)
    change(shell, **before)
    assert ask(shell) == []
    change(shell, **after)
    assert uris(ask(shell)) == [f"{A}/1", f"{A}/2"]


def test_a_job_that_unretires_queues_gives_those_with_leases_out_another_turn() -> None:
    shell = crawl(*pages(A, 4), of=settings(max_leases_per_queue=3))
    ask(shell, most=1)
    change(shell, retired=True)
    assert ask(shell) == []
    everything = {"queue_pattern": ".*"}
    shell.do(
        lambda core, now: core.administration.start_job("crawl", JobKind.UNRETIRE_QUEUES, everything, now)
    )
    shell.work()
    assert len(ask(shell)) == 2


def test_new_settings_let_a_queue_give_more_leases_although_one_is_out() -> None:
    def update(of: CrawlSettings) -> None:
        shell.do(lambda core, now: core.control.update_crawl("crawl", lambda _: (spec_of(of), ("q",)), now))

    shell = crawl(*pages(A, 4), of=settings(max_leases_per_queue=1))
    assert len(ask(shell)) == 1 and ask(shell) == []
    update(settings(max_leases_per_queue=3))
    assert shell.core.frontier.leasable("crawl"), "waiting nodes are woken"
    assert len(ask(shell)) == 2


def test_a_queue_that_clears_many_uris_away_goes_on_at_its_next_turn() -> None:
    """Robots.txt forbids more URIs than one request clears away."""
    shell = crawl(of=replace(settings(), robots=RobotsSettings()))
    shell.now_ms += 100_000 * SECOND  # so that its robots.txt is fetched again, after they were taken in
    shell.schedule("crawl", f"{A}/first", *pages(f"{A}/no", 250), f"{A}/last")
    (robots,) = ask(shell)
    shell.finish(Report(robots.token, fetch_status=200, robots_body=b"User-agent: *\nDisallow: /no"))
    out = ask(shell)
    while shell.core.frontier.leasable("crawl") and len(out) < 2:
        out += ask(shell)
    assert uris(out) == [f"{A}/first", f"{A}/last"]


def test_a_queue_of_several_hosts_goes_on_when_one_is_free_although_another_rests() -> None:
    """The first rests until later; the second is busy with another crawl, and free before that."""
    of = settings(max_parallel=1, partition="registered-domain", assignment="registered-domain")
    anywhere = ScopeSettings(accept_patterns=(".*",))
    one, first, second = (f"http://{name}.a.example" for name in ("www", "rests", "busy"))
    shell = crawl(f"{one}/1", f"{first}/1", f"{second}/1", of=replace(of, scope=anywhere))
    (out,) = ask(shell, most=1)
    assert out.uri == f"{one}/1"
    shell.create("other", of)
    shell.launch("other", f"{first}/other", f"{second}/other")
    others = ask(shell, name="other") + ask(shell, name="other")
    token = {grant.uri: grant.token for grant in others}
    shell.finish(Report(token[f"{first}/other"], fetch_status=503, retry_after_ms=300 * SECOND))
    assert ask(shell) == []
    shell.finish(Report(token[f"{second}/other"], fetch_status=200))
    assert uris(ask(shell)) == [f"{second}/1"]
    shell.finish(Report(out.token, released=True))
    assert uris(ask(shell)) == [f"{one}/1"], "the walk goes back to what is handed back"
    assert shell.core.upkeep.next_due_ms() is not None and ask(shell) == []
    shell.now_ms += 300 * SECOND - 1
    assert ask(shell) == []
    shell.now_ms += 1
    shell.tick()
    assert uris(ask(shell)) == [f"{first}/1"], "the rest of its host is over while others are out"


def test_nodes_that_wait_are_woken_for_a_queue_that_another_request_wants_no_more_of() -> None:
    shell = crawl(*pages(A, 4))
    assert len(ask(shell, per_queue=2)) == 2 and ask(shell, per_queue=2) == []
    assert shell.core.frontier.leasable("crawl")
    assert len(ask(shell)) == 2


def test_the_frontier_wakes_when_the_rest_of_a_queue_with_leases_out_is_over() -> None:
    shell = crawl(*pages(A, 2), of=settings(min_delay_ms=5 * SECOND))
    assert len(ask(shell)) == 1 and ask(shell) == []
    assert shell.core.upkeep.next_due_ms() == shell.now_ms + 5 * SECOND
    shell.now_ms += 5 * SECOND
    shell.tick()
    assert shell.core.frontier.leasable("crawl")


def explained(shell: Shell) -> list[str]:
    found = shell.core.administration.explain("crawl", KEY, "", shell.now_ms)
    return [reason.message for reason in found if " is fetching " not in reason.message]


def test_explain_tells_why_a_queue_with_leases_out_gives_no_more() -> None:
    shell = crawl(*pages(A, 4), of=settings(max_parallel=2))
    ask(shell)
    assert explained(shell) == ["host a.example: 2 of at most 2 requests in flight, at node node"]
    shell = crawl(*pages(A, 4), of=settings(min_gap_ms=SECOND))
    ask(shell)
    assert explained(shell) == ["queue example,a, rests: gap between its turns"]
    shell = crawl(*pages(A, 4), of=settings(max_leases_per_queue=2))
    ask(shell)
    assert explained(shell) == []


def test_a_gap_is_kept_also_by_queues_that_give_one_lease_at_a_time() -> None:
    shell = crawl(*pages(A, 2), of=settings(min_gap_ms=10 * SECOND, max_leases_per_queue=1))
    (out,) = ask(shell)
    shell.finish(Report(out.token, fetch_status=200))
    assert ask(shell) == []
    shell.now_ms += 10 * SECOND
    assert uris(ask(shell)) == [f"{A}/1"]


# Who goes first.


def test_a_uri_that_is_handed_back_while_others_are_out_goes_before_other_queues() -> None:
    shell = crawl(*pages(A, 4), *pages(B, 4), of=settings(max_leases_per_queue=2))
    out = ask(shell, most=4)
    shell.finish(*(Report(grant.token, fetch_status=200) for grant in out if grant.uri == f"{B}/0"))
    (token,) = (grant.token for grant in out if grant.uri == f"{A}/0")
    shell.finish(Report(token, released=True))
    assert uris(ask(shell, most=1)) == [f"{A}/0"]


def test_a_queue_of_lower_precedence_does_not_wait_until_all_leases_of_another_have_ended() -> None:
    shell = crawl(*pages(A, 30), of=settings(session_budget=-1))
    change(shell, precedence=5)
    out = ask(shell, most=2)
    shell.schedule("crawl", *pages(B, 5))
    urgent = QueueChange(precedence=1)
    shell.do(lambda core, now: core.administration.change_queue("crawl", OTHER_KEY, urgent, now))
    shell.finish(Report(out[0].token, fetch_status=200))
    assert uris(ask(shell, most=1)) == [f"{B}/0"]


def test_a_lease_that_takes_long_does_not_hold_up_a_queue_whose_session_budget_is_spent() -> None:
    shell = crawl(*pages(A, 20), of=settings(session_budget=3, max_leases_per_queue=2))
    _, out = ask(shell)
    for _ in range(8):
        shell.finish(Report(out.token, fetch_status=200))
        shell.schedule("crawl", f"{B}/{shell.now_ms}")
        grants = ask(shell, most=2)
        of_other = [grant for grant in grants if grant.uri.startswith(B)]
        shell.finish(*(Report(grant.token, fetch_status=200) for grant in of_other))
        shell.now_ms += 1
        (out,) = [grant for grant in (*grants, *ask(shell)) if grant.uri.startswith(A)]


def test_a_queue_whose_session_budget_is_spent_lets_others_go_first_although_leases_are_out() -> None:
    shell = crawl(*pages(A, 20), of=settings(session_budget=3, max_leases_per_queue=2))
    _, out = ask(shell)
    shell.schedule("crawl", *pages(B, 2))
    given = []
    for _ in range(10):
        shell.finish(Report(out.token, fetch_status=200))
        (out,) = ask(shell, most=1)
        given.append(out.uri)
    assert uris_of(B, given[:5]) and len(uris_of(A, given)) >= 7, given


def test_a_new_session_that_begins_while_a_robots_txt_is_awaited_is_stored() -> None:
    """No queue waits to go first, and the turn gives no lease, so only the session's start changes."""
    robots = RobotsSettings(validity_ms=10 * SECOND)
    shell = crawl(*pages(A, 4), of=replace(settings(session_budget=1, max_leases_per_queue=3), robots=robots))
    (robots_txt,) = ask(shell)
    shell.finish(Report(robots_txt.token, fetch_status=404))
    out = ask(shell)
    assert uris(out) == pages(A, 3)
    shell.now_ms += 11 * SECOND
    shell.finish(*(Report(grant.token, fetch_status=200) for grant in out[:2]))
    assert ask(shell) == []
    shell.restart()
    views, _ = shell.core.administration.queues("crawl", None, 9, b"")
    assert [view.session_spent for view in views if view.key == KEY] == [0]


def uris_of(host: str, given: list[str]) -> list[str]:
    return [uri for uri in given if uri.startswith(host)]


def test_a_request_that_names_a_queue_gets_several_of_it_whatever_goes_before_it() -> None:
    shell = crawl(*pages(A, 4))
    change(shell, precedence=5)
    ask(shell, most=1)
    shell.schedule("crawl", f"{B}/0")
    assert uris(ask(shell, queues=(KEY,), per_queue=3)) == [f"{A}/1", f"{A}/2"]
    assert uris(ask(shell, most=1)) == [f"{B}/0"]


def test_a_queue_that_may_give_many_leases_leaves_its_hosts_free_places_to_others_in_turn() -> None:
    shell = crawl(*pages(A, 20), *pages(SECURE, 3), of=settings(max_parallel=2))
    out = ask(shell, per_queue=100)
    given = []
    for _ in range(6):
        shell.finish(Report(out.pop(0).token, fetch_status=200))
        more = ask(shell, per_queue=100)
        given += uris(more)
        out += more
    assert sum(uri.startswith(SECURE) for uri in given) >= 2, given


def test_a_queue_has_one_place_in_a_line_however_often_it_gets_turns_meanwhile() -> None:
    shell = crawl(*pages(A, 9), of=settings(max_parallel=2))
    assert len(ask(shell)) == 2
    for number in range(20):
        assert ask(shell, queues=(KEY,)) == []
        shell.schedule("crawl", f"{A}/more{number}")
        assert ask(shell) == []
    assert at_hosts(shell, "a.example") <= 2
    waiting = crawl(f"{A}/0", f"{SECURE}/0", of=settings(max_parallel=1, max_leases_per_queue=1))
    (out,) = ask(waiting, most=1)
    keys = [view.key for view in waiting.core.administration.queues("crawl", None, 100, b"")[0]]
    other = next(key for key in keys if key not in (out.queue_key, OTHER_KEY))
    for _ in range(20):
        assert ask(waiting, queues=(other,)) == []
    assert at_hosts(waiting, "a.example") == 1
    waiting.finish(Report(out.token, fetch_status=200))
    assert len(ask(waiting)) == 1


def test_a_queue_waits_once_for_the_end_of_a_rest_however_often_it_gets_turns_meanwhile() -> None:
    shell = crawl(*pages(A, 2), of=settings(min_gap_ms=SECOND))
    assert len(ask(shell, most=1)) == 1
    change(shell, rest_until_ms=shell.now_ms + 86_400 * SECOND)
    for number in range(20):
        shell.schedule("crawl", f"{A}/more{number}")
        assert ask(shell) == []
    assert len(shell.core.shard.registry.named("crawl").queues.ready._naps) <= 2
    shell.now_ms += 86_400 * SECOND
    assert uris(ask(shell)) == [f"{A}/1"]


# Keys of many queues.


def test_a_request_for_a_key_of_too_many_queues_is_refused_before_it_changes_anything() -> None:
    shell = crawl(f"{A}/1", of=of_all_hosts())
    shell.schedule("crawl", *of_one_key(101), candidate(f"{A}/later", not_before_ms=shell.now_ms + SECOND))
    shell.now_ms += SECOND
    with pytest.raises(InvalidRequest, match=r"more than 100 queues have the key 'own'.*; name hosts"):
        ask(shell, queues=(KEY, "own"))
    as_rebuilt(shell)
    assert uris(ask(shell, queues=(KEY, "host7.example"), per_queue=9)) == [f"{A}/1", f"{A}/later"]


def test_a_job_for_a_key_ends_although_the_key_has_come_to_have_many_queues() -> None:
    shell = crawl(of=of_all_hosts())
    shell.schedule("crawl", *of_one_key(100))
    parameters = SeenFilter(queue_key="own").parameters() | {"waiting": "true"}

    def start(core: Core, now_ms: int) -> tuple[JobView, Changes]:
        return core.administration.start_job("crawl", JobKind.FORGET_URIS, parameters, now_ms)

    job = shell.do(start)
    shell.schedule("crawl", *of_one_key(120))
    with pytest.raises(InvalidRequest, match="name a host too, or choose URIs by a pattern"):
        shell.do(start)
    shell.work()
    assert shell.core.administration.job("crawl", job.number).changed == 120


def of_all_hosts() -> CrawlSettings:
    """Settings that let URIs of all hosts in, and keep them."""
    anywhere = ScopeSettings(accept_patterns=(".*",))
    return replace(settings(), scope=anywhere, identity=IdentitySettings(keep_uris=True))


def of_one_key(hosts: int) -> list[Candidate]:
    """A URI of each of some hosts, for a queue of one key in each host's partition."""
    return [candidate(f"http://host{number}.example/", queue_key="own") for number in range(hosts)]
