"""UpdateCrawl: settings changed while the crawl lives, checked before they count, all or nothing."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frontier_harness.calls import (
    FINISH,
    INVALID,
    PAUSE,
    PRECONDITION,
    RUN,
    TIMEOUT_S,
    Stubs,
    fresh_name,
    named,
    refused,
    released,
    report,
    seconds,
    seed_of,
    spec,
)
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import Hosted, hosted
from frontier_harness.waiting import eventually
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2


def update(stubs: Stubs, crawl: str, *paths: str, **fields: Any) -> crawl_pb2.CrawlSpec:
    """Change a crawl's spec: the fields at some paths, or those that are given; the spec then."""
    request = admin_pb2.UpdateCrawlRequest(crawl=crawl, spec=crawl_pb2.CrawlSpec(**fields))
    request.update_mask.paths.extend(paths)
    return stubs.admin.UpdateCrawl(request, timeout=TIMEOUT_S).crawl.spec


def told(stubs: Stubs, crawl: str) -> list[str]:
    """What happened to the crawl, in a word each."""
    return [named(event) for event in stubs.events_so_far(crawl)]


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Hosted]:
    with hosted(HeldStore(), tmp_path) as made:
        yield made


# Which fields are changed.


def test_without_a_mask_what_is_given_changes_message_by_message_and_lists_as_a_whole(stubs: Stubs) -> None:
    crawl = fresh_name()
    first = spec(
        limits=crawl_pb2.LimitSpec(max_documents=5, max_bytes=6),
        scope=crawl_pb2.ScopeSpec(max_link_hops=3, reject_patterns=["a", "b"]),
        retry=crawl_pb2.RetrySpec(delay=seconds(1.5)),
    )
    before = stubs.create(crawl, first).spec
    changed = update(
        stubs,
        crawl,
        limits=crawl_pb2.LimitSpec(max_documents=7),
        scope=crawl_pb2.ScopeSpec(reject_patterns=["c"]),
        retry=crawl_pb2.RetrySpec(delay=seconds(2)),
        run_while_empty=True,
    )
    wanted = crawl_pb2.CrawlSpec()
    wanted.CopyFrom(before)
    wanted.limits.max_documents = 7
    wanted.scope.reject_patterns[:] = ["c"]
    wanted.retry.delay.CopyFrom(Duration(seconds=2))
    wanted.run_while_empty = True
    assert changed == wanted == stubs.describe(crawl).spec


def test_with_a_mask_just_what_it_names_changes_and_what_is_not_given_takes_its_default(
    stubs: Stubs,
) -> None:
    crawl = fresh_name()
    stubs.create(
        crawl,
        spec(
            limits=crawl_pb2.LimitSpec(max_documents=5, max_bytes=6),
            scope=crawl_pb2.ScopeSpec(max_link_hops=3, reject_patterns=["a"]),
            max_toes=4,
            weight=9,
        ),
    )
    changed = update(
        stubs,
        crawl,
        *("limits.max_documents", "scope.max_link_hops", "scope.reject_patterns", "max_toes", "stop_timeout"),
        limits=crawl_pb2.LimitSpec(max_documents=7, max_bytes=8),
        weight=2,
        stop_timeout=seconds(5),
    )
    assert (changed.limits.max_documents, changed.limits.max_bytes) == (7, 6)
    assert (changed.scope.max_link_hops, list(changed.scope.reject_patterns)) == (20, [])
    assert (changed.max_toes, changed.weight, changed.stop_timeout) == (0, 9, seconds(5))


def test_a_path_of_a_message_sets_the_whole_of_it(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl, spec(limits=crawl_pb2.LimitSpec(max_documents=5, max_bytes=6)))
    changed = update(stubs, crawl, "limits", limits=crawl_pb2.LimitSpec(max_bytes=7))
    assert (changed.limits.max_documents, changed.limits.max_bytes) == (0, 7)
    changed = update(stubs, crawl, "limits")
    assert (changed.limits.max_documents, changed.limits.max_bytes) == (0, 0)


def test_a_bound_that_follows_another_setting_follows_it_after_a_change_too(stubs: Stubs) -> None:
    """PolitenessSpec.max_delay: 30 s, or `min_delay` if that is longer, unless somebody has set it."""
    crawl = fresh_name()
    stubs.create(crawl, crawl_pb2.CrawlSpec(allowed_addresses=["loopback"]))
    changed = update(stubs, crawl, politeness=crawl_pb2.PolitenessSpec(min_delay=seconds(60)))
    assert changed.politeness.max_delay == seconds(60)
    changed = update(stubs, crawl, "politeness.min_delay")
    assert (changed.politeness.min_delay, changed.politeness.max_delay) == (seconds(3), seconds(30))


@pytest.mark.parametrize(
    "path",
    [
        *("nope", "limits.nope", "limits.max_documents.x", "scope.hosts.x", "groups.name"),
        *("", ".", "limits.", ".limits", "limits..max_documents", "Limits", "limits.maxDocuments"),
        *("limits max_documents", "*", "\N{SNOWMAN}", "x" * 100_000, "limits.host_quota.nope"),
    ],
)
def test_a_path_that_names_no_field_is_refused_and_changes_nothing(stubs: Stubs, path: str) -> None:
    crawl = fresh_name()
    before = stubs.create(crawl)
    problem = refused(
        lambda: update(stubs, crawl, "weight", path, weight=5),
        INVALID,
        "INVALID_ARGUMENT_VALUE",
        repr(path[:40])[1:-1],
    )
    assert problem.metadata == {"field": "update_mask"}
    assert stubs.describe(crawl) == before


def test_more_paths_than_there_are_fields_are_refused(stubs: Stubs) -> None:
    """The server does nothing else while it looks at them."""
    crawl = fresh_name()
    stubs.create(crawl)
    refused(
        lambda: update(stubs, crawl, *["weight"] * 500_000, weight=5), INVALID, "BATCH_TOO_LARGE", "500000"
    )
    assert update(stubs, crawl, *["weight"] * 1000, weight=5).weight == 5


def test_a_change_of_nothing_is_refused(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl)
    refused(lambda: update(stubs, crawl), INVALID, "INVALID_ARGUMENT_VALUE", "nothing")


# What is wrong with it.


def test_what_cannot_be_changed_is_refused_by_its_path(stubs: Stubs) -> None:
    """The place of a URI or of a host would change."""
    crawl = fresh_name()
    group = crawl_pb2.HostGroup(name="g", hosts=["g.example"], max_parallel=2)
    first = spec(groups=[group], scope=crawl_pb2.ScopeSpec(hosts=["kept.example"]))
    before = stubs.create(crawl, first)
    larger = crawl_pb2.HostGroup(name="g", hosts=["g.example", "h.example"])
    other = crawl_pb2.HostGroup(name="h", hosts=["g.example"])
    for path, change in {
        "identity": {"identity": crawl_pb2.IdentitySpec(rules=["strip-www"])},
        "queues.partition": {"queues": crawl_pb2.QueueSpec(partition="registered-domain")},
        "politeness.across_crawls": {"politeness": crawl_pb2.PolitenessSpec(across_crawls=False)},
        "scope.hosts": {"scope": crawl_pb2.ScopeSpec(hosts=["other.example"])},
        "groups": {"groups": [larger]},
        "groups ": {"groups": [other]},
    }.items():
        problem = refused(
            lambda change=change: update(stubs, crawl, **change),  # type: ignore[misc]  # bound by its default
            INVALID,
            "INVALID_SPEC",
            path.strip(),
        )
        assert set(problem.metadata) == {path.strip()}
    for path in ("groups", "scope.hosts", "scope"):
        refused(lambda path=path: update(stubs, crawl, path), INVALID, "INVALID_SPEC")  # type: ignore[misc]  # as above
    assert stubs.describe(crawl) == before


def test_all_that_is_wrong_is_told_at_once_and_nothing_of_it_counts(stubs: Stubs, crawl: str) -> None:
    before, events = stubs.describe(crawl), told(stubs, crawl)
    wrong: dict[str, Any] = {
        "contact": "nobody",
        "weight": 0,
        "max_toes": -1,
        "stop_timeout": seconds(0.5),
        "limits": crawl_pb2.LimitSpec(max_documents=-1, max_bytes=7),
        "identity": crawl_pb2.IdentitySpec(rules=["lower-case"]),
        "queues": crawl_pb2.QueueSpec(partition="registered-domain", cost="nonsense"),
        "figures_interval": seconds(5),
    }
    problem = refused(lambda: update(stubs, crawl, **wrong), INVALID, "INVALID_SPEC", "contact")
    assert set(problem.metadata) == {
        *("contact", "weight", "max_toes", "stop_timeout", "limits.max_documents"),
        *("identity", "queues.partition", "queues.cost"),
    }
    assert stubs.describe(crawl) == before
    assert told(stubs, crawl) == events
    assert len(stubs.pages(crawl)) == 1  # it goes on


def test_enum_values_that_the_contract_does_not_have_are_refused(stubs: Stubs, crawl: str) -> None:
    # Any number may stand for an enum on the wire, whatever the stubs' types say.
    odd: Any = 99
    robots = crawl_pb2.RobotsSpec(unreachable=odd)
    problem = refused(lambda: update(stubs, crawl, robots=robots), INVALID, "INVALID_SPEC", "99")
    assert set(problem.metadata) == {"robots.unreachable"}


@pytest.mark.parametrize("state", ["NASCENT", "RUNNING", "EMPTY", "PAUSING", "PAUSED", "STOPPING"])
def test_a_crawl_is_changed_in_any_state_but_finished(stubs: Stubs, state: str) -> None:
    crawl = fresh_name()
    stubs.create(crawl, spec(run_while_empty=True))
    stubs.seed(crawl, seed_of(crawl))
    if state != "NASCENT":
        stubs.ask("LaunchCrawl", crawl)
        stubs.until(crawl, crawl_pb2.CRAWL_STATE_RUNNING)
    if state in ("EMPTY", "PAUSING", "STOPPING"):
        (lease,) = stubs.pages(crawl)
    if state == "EMPTY":
        stubs.finish(report(lease))
    elif state in ("PAUSING", "PAUSED"):
        stubs.request(crawl, PAUSE)
    elif state == "STOPPING":
        stubs.request(crawl, FINISH)
    assert crawl_pb2.CrawlState.Name(stubs.describe(crawl).status.state) == f"CRAWL_STATE_{state}"
    status = stubs.describe(crawl).status
    assert update(stubs, crawl, weight=7).weight == 7
    assert stubs.describe(crawl).status == status


def test_a_crawl_that_has_finished_is_not_changed_any_more(stubs: Stubs, crawl: str) -> None:
    stubs.request(crawl, FINISH)
    before = stubs.describe(crawl)
    refused(lambda: update(stubs, crawl, weight=7), PRECONDITION, "CRAWL_FINISHED", crawl)
    assert stubs.describe(crawl) == before


# That it counts, and what is told of it.


def test_who_changed_what_is_told_once_and_what_changes_nothing_is_told_of_nobody(at: Hosted) -> None:
    stubs = at.stubs
    stubs.create("t")
    update(stubs, "t", limits=crawl_pb2.LimitSpec(max_documents=7), weight=3)
    update(stubs, "t", limits=crawl_pb2.LimitSpec(max_documents=7), weight=3)
    update(stubs, "t", "max_toes", max_toes=0)
    acted = [event.operator_acted for event in stubs.events_so_far("t") if event.HasField("operator_acted")]
    assert [(each.action, each.detail) for each in acted] == [
        *(("create", ""), ("update", "limits.max_documents, weight"))
    ]


def test_a_change_survives_a_restart(tmp_path: Path) -> None:
    store = HeldStore()
    with hosted(store, tmp_path) as at:
        at.stubs.launch("t", seed_of("t"))
        update(at.stubs, "t", max_toes=3, limits=crawl_pb2.LimitSpec(max_bytes=9))
        changed = at.stubs.describe("t").spec
    with hosted(store, tmp_path) as at:
        assert at.stubs.describe("t").spec == changed
        assert (changed.max_toes, changed.limits.max_bytes) == (3, 9)


def test_changes_of_several_controllers_at_once_lose_nothing_of_each_other(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl)
    fields = ["weight", "max_toes", "outcomes_kept"]

    def change(field: str) -> None:
        for value in range(1, 21):
            update(stubs, crawl, **{field: value})

    threads = [threading.Thread(target=change, args=(field,), daemon=True) for field in fields]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    made = stubs.describe(crawl).spec
    assert [getattr(made, field) for field in fields] == [20, 20, 20]


def test_the_number_of_toes_counts_at_once_up_and_down(at: Hosted) -> None:
    """S4.3 to S4.5, for the crawl: what is out beyond a smaller number comes back by itself."""
    stubs = at.stubs
    hosts = [seed_of("t", f"{letter}.") for letter in "abcdef"]
    stubs.launch("t", *hosts, of=spec(max_toes=2))
    out = stubs.next("t", 100, TIMEOUT_S).leases
    assert len(out) == 2
    assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_NOTHING_DUE
    update(stubs, "t", max_toes=5)
    more = stubs.next("t", 100, TIMEOUT_S).leases
    assert len(more) == 3
    update(stubs, "t", max_toes=1)
    stubs.finish(*(released(lease) for lease in more))
    assert not stubs.next("t").leases
    assert stubs.statistics("t").leased_count == 2  # they are finished as ever
    stubs.finish(*(released(lease) for lease in out))
    assert len(stubs.next("t", 100, TIMEOUT_S).leases) == 1
    update(stubs, "t", "max_toes")
    assert len(stubs.next("t", 100, TIMEOUT_S).leases) == 5


def test_who_waits_for_a_lease_gets_one_when_more_toes_are_allowed(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t", "a."), seed_of("t", "b."), of=spec(max_toes=1))
    assert len(stubs.next("t", 100, TIMEOUT_S).leases) == 1
    request = frontier_pb2.NextRequest(
        crawl="t", node="waits", session="s", max_leases=9, wait_duration=seconds(60)
    )
    waiting: Any = stubs.frontier.Next.future(request, timeout=70)
    eventually(lambda: at.served.runner._next_waiters, "nobody waits")
    update(stubs, "t", max_toes=2)
    assert len(waiting.result(timeout=TIMEOUT_S).leases) == 1


@pytest.mark.parametrize(
    ("limit", "exit_status"),
    [
        ({"max_documents": 2}, "FINISHED_DOCUMENT_LIMIT"),
        ({"max_bytes": 20}, "FINISHED_DATA_LIMIT"),
        ({"max_elapsed": Duration(nanos=1_000_000)}, "FINISHED_TIME_LIMIT"),
    ],
)
@pytest.mark.parametrize("state", ["RUNNING", "EMPTY", "PAUSED"])
def test_a_limit_that_is_reached_already_ends_the_crawl_as_soon_as_it_runs(
    at: Hosted, state: str, limit: dict[str, Any], exit_status: str
) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"), f"{seed_of('t')}more", of=spec(run_while_empty=True))
    for _ in range(2):
        stubs.finish(*(report(lease, body_bytes=10) for lease in stubs.pages("t")))
    if state != "EMPTY":
        stubs.schedule("t", f"{seed_of('t')}left")
    if state == "PAUSED":
        stubs.request("t", PAUSE)
    assert crawl_pb2.CrawlState.Name(stubs.describe("t").status.state) == f"CRAWL_STATE_{state}"
    update(stubs, "t", limits=crawl_pb2.LimitSpec(**limit))
    if state == "PAUSED":
        assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_PAUSED
        stubs.request("t", RUN)
    stubs.until("t", crawl_pb2.CRAWL_STATE_FINISHED)
    status = stubs.describe("t").status
    assert crawl_pb2.ExitStatus.Name(status.exit_status) == f"EXIT_STATUS_{exit_status}"
    (reached,) = [event.limit_reached for event in stubs.events("t") if event.HasField("limit_reached")]
    assert reached.limit == next(iter(limit))


def test_a_limit_that_is_raised_lets_a_crawl_go_on(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch(
        "t",
        *(seed_of("t", f"{letter}.") for letter in "abc"),
        of=spec(limits=crawl_pb2.LimitSpec(max_documents=1)),
    )
    (lease,) = stubs.pages("t")
    assert stubs.next("t").empty_reason == frontier_pb2.EMPTY_REASON_LIMIT_REACHED
    update(stubs, "t", limits=crawl_pb2.LimitSpec(max_documents=2))
    (second,) = stubs.pages("t")
    stubs.finish(report(lease), report(second))
    stubs.until("t", crawl_pb2.CRAWL_STATE_FINISHED)
    assert stubs.statistics("t").succeeded_count == 2


def test_a_crawl_that_waits_while_empty_ends_when_it_need_not_wait_any_more(at: Hosted) -> None:
    """S0.51, switched off while it holds."""
    stubs = at.stubs
    stubs.launch("t", seed_of("t"), of=spec(run_while_empty=True))
    stubs.finish(*(report(lease) for lease in stubs.pages("t")))
    assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_EMPTY
    update(stubs, "t", "run_while_empty")
    assert stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_FINISHED
    assert stubs.describe("t").status.exit_status == crawl_pb2.EXIT_STATUS_FINISHED


def test_politeness_counts_from_the_next_rest_on(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"), f"{seed_of('t')}more", f"{seed_of('t')}another")
    (lease,) = stubs.pages("t")
    update(stubs, "t", politeness=spec(1000).politeness)
    stubs.finish(report(lease))
    answer = stubs.next("t")
    assert answer.empty_reason == frontier_pb2.EMPTY_REASON_NOTHING_DUE
    (queue,) = stubs.queues("t")
    now_ms = stubs.statistics("t").snapshot_time.ToMilliseconds()
    assert queue.wake_time.ToMilliseconds() > now_ms + 900_000


@pytest.mark.parametrize("how", ["politeness", "groups", "override"])
def test_more_requests_at_once_are_made_at_once(at: Hosted, how: str) -> None:
    """They do not wait for the one that is out, which may be slow."""
    stubs = at.stubs
    group = crawl_pb2.HostGroup(name="g", hosts=["a.t.example", "b.t.example", "c.t.example"])
    first = spec(queues=crawl_pb2.QueueSpec(parallel_queues=9))
    seeds = [f"{seed_of('t')}{folder}/" for folder in range(20)]
    if how == "groups":
        first, seeds = spec(groups=[group]), [f"http://{host}/" for host in group.hosts]
    stubs.launch("t", *seeds, of=first)
    (slow,) = stubs.pages("t")
    request = frontier_pb2.NextRequest(
        crawl="t", node="waits", session="s", max_leases=9, wait_duration=seconds(60)
    )
    waiting: Any = stubs.frontier.Next.future(request, timeout=70)
    eventually(lambda: at.served.runner._next_waiters, "nobody waits")
    parallel = crawl_pb2.PolitenessSpec(max_parallel=3)
    if how == "override":
        stubs.ask(
            "PutOverride", "t", override={"surt_prefix": "t.example", "settings": {"politeness": parallel}}
        )
    elif how == "politeness":
        update(stubs, "t", politeness=parallel)
    else:
        group.max_parallel = 3
        update(stubs, "t", groups=[group])
    assert len(waiting.result(timeout=TIMEOUT_S).leases) == 2
    assert stubs.statistics("t").leased_count == 3
    stubs.finish(released(slow))


def test_leases_given_from_now_on_are_fetched_by_the_new_policy(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t", "a."), seed_of("t", "b."))
    (first,) = stubs.next("t", 1, TIMEOUT_S).leases
    update(stubs, "t", contact="https://example.org/bot", fetch=crawl_pb2.FetchSpec(max_bytes=77))
    answer = stubs.next("t", 1, TIMEOUT_S)
    (second,), (policy,) = answer.leases, answer.fetch_policies
    assert first.fetch_policy_id != second.fetch_policy_id == policy.fetch_policy_id
    assert "https://example.org/bot" in policy.user_agent and policy.max_bytes == 77


def test_the_scope_counts_from_the_next_candidate_on_and_its_hosts_grow(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"))
    uri, elsewhere = f"{seed_of('t')}private/1", "http://elsewhere.example/"
    assert stubs.schedule("t", elsewhere) == ["OUT_OF_SCOPE"]
    update(
        stubs, "t", scope=crawl_pb2.ScopeSpec(hosts=["elsewhere.example"], reject_patterns=[".*/private/.*"])
    )
    assert stubs.schedule("t", elsewhere, uri) == ["QUEUED", "OUT_OF_SCOPE"]
    update(stubs, "t", "scope.reject_patterns")
    assert stubs.schedule("t", uri) == ["QUEUED"]
    assert list(stubs.describe("t").spec.scope.hosts) == ["elsewhere.example"]


def test_queues_that_wait_get_what_a_changed_policy_gives_them(at: Hosted) -> None:
    """D20: with all of them below the floor nothing is left that may be fetched."""
    stubs = at.stubs
    seeds = [seed_of("t", f"{letter}.") for letter in "abc"]
    stubs.launch("t", *seeds, of=spec(pause_with_uris_left=True))
    update(stubs, "t", queues=crawl_pb2.QueueSpec(precedence_floor=0))
    stubs.until("t", crawl_pb2.CRAWL_STATE_PAUSED)
    assert {queue.state for queue in stubs.queues("t")} == {crawl_pb2.QUEUE_STATE_INELIGIBLE}
    assert "ineligible" in stubs.describe("t").status.reason
    assert [word for word in told(stubs, "t") if word != "figures"][-7:] == [
        *("RUNNING", "by update", "job_ended", "EMPTY", "uris_left", "PAUSING", "PAUSED")
    ]
    update(stubs, "t", "queues.precedence_floor")
    eventually(
        lambda: {queue.state for queue in stubs.queues("t")} == {crawl_pb2.QUEUE_STATE_INACTIVE},
        "the queues are not admitted again",
    )
    assert stubs.request("t", RUN).state == crawl_pb2.CRAWL_STATE_RUNNING
    assert len(stubs.next("t", wait_s=TIMEOUT_S).leases) == 3


@pytest.mark.parametrize(
    ("target", "timeout", "end"),
    [(PAUSE, "pause_timeout", "PAUSED"), (FINISH, "stop_timeout", "FINISHED")],
)
def test_a_wait_that_is_under_way_is_cut_short_by_a_shorter_bound(
    at: Hosted, target: crawl_pb2.TargetState.ValueType, timeout: str, end: str
) -> None:
    stubs = at.stubs
    long: dict[str, Any] = {timeout: seconds(86_400)}
    stubs.launch("t", seed_of("t"), of=spec(**long))
    (lease,) = stubs.pages("t")
    stubs.request("t", target)
    update(stubs, "t", **{timeout: seconds(1)})
    eventually(
        lambda: crawl_pb2.CrawlState.Name(stubs.describe("t").status.state) == f"CRAWL_STATE_{end}",
        "the new bound does not count",
    )
    (cancelled,) = [e.flights_cancelled for e in stubs.events_so_far("t") if e.HasField("flights_cancelled")]
    assert (cancelled.leased_count, cancelled.bound) == (1, timeout)
    assert stubs.finish(report(lease)) == [("STALE", False)]


def test_figures_are_told_as_often_as_is_said_now(at: Hosted) -> None:
    stubs = at.stubs
    stubs.launch("t", seed_of("t"), of=spec(figures_interval=seconds(86_400)))
    assert "figures" not in told(stubs, "t")
    update(stubs, "t", figures_interval=seconds(1))
    eventually(lambda: "figures" in told(stubs, "t"), "no figures are told")
