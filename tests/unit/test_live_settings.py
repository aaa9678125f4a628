"""Settings changed while a crawl lives: validated first, then all at once, from the next decision on."""

from dataclasses import replace
from typing import Any

import pytest
from core_doubles.codec import candidate, settings_of, spec_of
from core_doubles.lives import (
    NAME,
    QUICK,
    SEEDS,
    advance,
    created,
    fetch,
    fetch_all,
    fetching,
    in_state,
    launched,
)
from core_doubles.rebuilt import as_rebuilt
from core_doubles.shell import Shell
from core_doubles.stillness import still

from frontier_server.core.machines.lifecycle import CrawlState, ExitStatus, Input
from frontier_server.core.rows.errors import CrawlFinished, CrawlTornDown, InvalidSpec, UnknownCrawl
from frontier_server.core.spec.settings import (
    CrawlSettings,
    FetchSettings,
    GroupSettings,
    IdentitySettings,
    LimitSettings,
    PolitenessSettings,
    QueueSettings,
    ReseedSettings,
    RetrySettings,
    RevisitSettings,
    Rewrite,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.state import meaning, spec_problems
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import CrawlView, EmptyReason, Grant, Report, Verdict
from frontier_server.core.state.queue import QueueState

S = CrawlState
LIVE = [state for state in CrawlState if state is not S.FINISHED]


def settings(shell: Shell) -> CrawlSettings:
    """What a crawl's spec says now."""
    return settings_of(shell.core.views.crawl(NAME).spec)


def update(shell: Shell, by: str = "", **changes: Any) -> CrawlView:
    """Change parts of a crawl's spec; what it is then."""

    def amended(spec: bytes) -> tuple[bytes, list[str]]:
        return spec_of(replace(settings_of(spec), **changes)), sorted(changes)

    return shell.do(lambda core, now: core.control.update_crawl(NAME, amended, now, by))


# What may be changed, and when.


@pytest.mark.parametrize("state", LIVE)
def test_a_crawl_can_be_changed_in_each_state_but_the_last(state: CrawlState) -> None:
    shell = in_state(state)
    view = update(shell, by="me", max_toes=3, weight=9)
    assert (view.state, settings_of(view.spec)) == (state, settings(shell))
    assert (settings(shell).max_toes, settings(shell).weight) == (3, 9)
    told = [row.fields for row in shell.events(NAME) if row.kind == "operator_acted"]
    assert told == [{"operator": "me", "action": "update", "detail": "max_toes, weight"}]
    as_rebuilt(shell)


def test_a_crawl_that_has_finished_cannot() -> None:
    shell = in_state(S.FINISHED)
    with still(shell, NAME), pytest.raises(CrawlFinished, match="ABORTED"):
        update(shell, max_toes=3)
    shell.do(lambda core, now: core.control.tear_down(NAME, now))
    shell.work()
    shell.log()
    with still(shell, NAME), pytest.raises(CrawlTornDown, match="torn down"):
        update(shell, max_toes=3)


def test_a_crawl_that_there_is_not_cannot() -> None:
    with pytest.raises(UnknownCrawl, match=NAME):
        update(Shell(), max_toes=3)


def test_a_change_that_changes_nothing_is_no_event_and_no_write() -> None:
    shell = launched()
    with still(shell, NAME):
        update(shell, by="me", max_toes=0)


def test_a_change_outlives_a_restart_and_one_that_is_lost_was_never_made() -> None:
    shell = launched()
    update(shell, max_toes=3)
    shell.restart()
    assert settings(shell).max_toes == 3

    def lost(spec: bytes) -> tuple[bytes, list[str]]:
        return spec_of(replace(settings_of(spec), max_toes=4)), ["max_toes"]

    shell.lose(lambda core, now: core.control.update_crawl(NAME, lost, now))
    assert settings(shell).max_toes == 3


# What may not.

GROUPS = (GroupSettings("shop", ("alpha.example", "beta.example"), 2, 500),)
SCOPE = ScopeSettings(hosts=("alpha.example", "other.example"))
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "other rules of identity": ("identity", {"identity": IdentitySettings(rules=("strip-www",))}),
    "other rewrites": ("identity", {"identity": IdentitySettings(rewrites=(Rewrite("a", "b"),))}),
    "another partition": ("queues.partition", {"queues": QueueSettings(partition="registered-domain")}),
    "a group less": ("groups", {"groups": ()}),
    "a group more": ("groups", {"groups": (*GROUPS, GroupSettings("more", ("gamma.example",)))}),
    "a group of other hosts": ("groups", {"groups": (GroupSettings("shop", ("alpha.example",)),)}),
    "a group with another name": ("groups", {"groups": (replace(GROUPS[0], name="store"),)}),
    "a host less": ("scope.hosts", {"scope": ScopeSettings(hosts=("alpha.example",))}),
    "rests of its own": ("politeness.across_crawls", {"politeness": replace(QUICK, across_crawls=False)}),
    "what makes no sense": ("max_toes", {"max_toes": -1}),
    "a pause without end": ("pause_timeout", {"pause_timeout_ms": 0}),
    "an end without end": ("stop_timeout", {"stop_timeout_ms": 86_400_001}),
    "statistics without pause": ("statistics_interval", {"statistics_interval_ms": 999}),
}


@pytest.mark.sampled("what", REFUSED)
@pytest.mark.sampled("state", [S.NASCENT, S.RUNNING, S.PAUSED])
def test_what_a_uris_place_depends_on_and_what_makes_no_sense_is_refused(
    state: CrawlState, what: str
) -> None:
    """All or nothing: what was asked for beside it is not done either."""
    path, changes = REFUSED[what]
    shell = in_state(state, groups=GROUPS, scope=SCOPE)
    before = settings(shell)
    crawl = shell.core.shard.registry.named(NAME)
    memory = (crawl.spec, crawl.settings, crawl.scope_rules)
    with still(shell, NAME), pytest.raises(InvalidSpec, match=path.replace(".", r"\.")) as refused:
        update(shell, by="me", **{"weight": 9, **changes})
    assert list(refused.value.metadata) == [path]
    assert settings(shell) == before
    assert (crawl.spec, crawl.settings, crawl.scope_rules) == memory
    as_rebuilt(shell)


def test_all_that_is_wrong_is_told_at_once() -> None:
    shell = launched(groups=GROUPS, scope=SCOPE)
    with pytest.raises(InvalidSpec) as refused:
        update(
            shell,
            max_toes=-1,
            groups=(),
            scope=ScopeSettings(hosts=("alpha.example",)),
            queues=QueueSettings(partition="registered-domain", session_budget=-7),
        )
    assert set(refused.value.metadata) == {
        "max_toes",
        "groups",
        "scope.hosts",
        "queues.partition",
        "queues.session_budget",
    }
    assert "other.example" in refused.value.metadata["scope.hosts"], "which host is missing"


def test_how_much_is_asked_of_a_group_at_once_may_be_changed() -> None:
    one, two = (replace(GROUPS[0], max_parallel=most, min_gap_ms=0) for most in (1, 2))
    shell = launched(groups=(one,))

    def of_group(grants: list[Grant]) -> list[Grant]:
        return [grant for grant in grants if grant.uri.split("/")[2] in one.hosts]

    (grant,) = of_group(shell.grants())
    update(shell, groups=(two,))
    fetch(shell, grant)
    assert len(of_group(shell.grants())) == 2


# Limits lowered.


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (LimitSettings(max_documents=1), ExitStatus.FINISHED_DOCUMENT_LIMIT),
        (LimitSettings(max_bytes=10), ExitStatus.FINISHED_DATA_LIMIT),
        (LimitSettings(max_elapsed_ms=1_000), ExitStatus.FINISHED_TIME_LIMIT),
    ],
)
@pytest.mark.parametrize("state", [S.RUNNING, S.EMPTY])
def test_a_limit_lowered_to_what_is_reached_ends_the_crawl(
    state: CrawlState, limits: LimitSettings, status: ExitStatus
) -> None:
    """Also one that waits in EMPTY, where nothing else would look at limits."""
    shell, (grant,) = fetching(SEEDS[0], run_while_empty=True)
    shell.finish(Report(grant.token, fetch_status=200, body_bytes=10))
    if state is S.RUNNING:
        shell.schedule(NAME, f"{SEEDS[0]}more")
    assert shell.state(NAME) is state
    shell.now_ms += 1_000
    view = update(shell, limits=limits)
    assert (view.state, view.exit_status) == (S.FINISHED, status)
    assert [row.kind for row in shell.events(NAME)][-4] == "limit_reached"


def test_a_document_limit_lowered_below_what_is_out_ends_the_crawl_with_the_last_of_that() -> None:
    shell, grants = fetching(most=3)
    update(shell, limits=LimitSettings(max_documents=2))
    assert shell.state(NAME) is S.RUNNING
    assert shell.next(NAME).empty_reason is EmptyReason.LIMIT_REACHED
    fetch(shell, *grants)
    assert shell.core.views.crawl(NAME).exit_status is ExitStatus.FINISHED_DOCUMENT_LIMIT


def test_a_limit_lowered_during_a_pause_ends_the_crawl_when_it_is_resumed() -> None:
    shell, (grant,) = fetching(most=1)
    fetch(shell, grant)
    shell.request(NAME, Input.PAUSE)
    assert update(shell, limits=LimitSettings(max_documents=1)).state is S.PAUSED
    assert shell.request(NAME, Input.RESUME) is S.FINISHED
    assert shell.states(NAME)[-3:] == ["RUNNING", "STOPPING", "FINISHED"]


def test_a_limit_raised_in_time_lets_the_crawl_go_on() -> None:
    shell, (grant,) = fetching(most=1, limits=LimitSettings(max_documents=1))
    assert shell.next(NAME).empty_reason is EmptyReason.LIMIT_REACHED
    update(shell, limits=LimitSettings(max_documents=2))
    (second,) = shell.grants()
    fetch(shell, grant, second)
    assert shell.count(NAME, "succeeded_count") == 2
    assert shell.core.views.crawl(NAME).exit_status is ExitStatus.FINISHED_DOCUMENT_LIMIT


def test_a_limit_of_time_set_while_it_runs_wakes_the_timer() -> None:
    shell = launched()
    shell.now_ms += 5_000
    shell.tick()
    update(shell, limits=LimitSettings(max_elapsed_ms=7_000))
    assert shell.core.upkeep.next_due_ms() == shell.now_ms + 2_000
    advance(shell)
    assert shell.core.views.crawl(NAME).exit_status is ExitStatus.FINISHED_TIME_LIMIT


# The most toes.


def test_no_more_uris_are_out_than_toes_are_allowed() -> None:
    """Heritrix: maxToeThreads. robots.txt occupies a toe as any page does."""
    shell = launched(max_toes=2)
    first, _ = shell.grants()
    assert shell.next(NAME).empty_reason is EmptyReason.NOTHING_DUE
    fetch(shell, first)
    assert len(shell.grants()) == 1
    assert shell.core.nodes.leases_out == 2


def test_the_bound_holds_for_all_nodes_together() -> None:
    shell = launched(max_toes=3)
    assert len(shell.grants(most=2, node="one")) == 2
    assert len(shell.grants(most=2, node="two")) == 1


def test_more_toes_count_at_once_and_the_waiting_node_is_told() -> None:
    shell = launched(max_toes=1)
    shell.grants()
    assert not shell.core.frontier.leasable()
    update(shell, max_toes=3)
    assert shell.core.frontier.leasable()
    assert len(shell.grants()) == 2
    update(shell, max_toes=0)
    assert len(shell.grants()) == 1, "as many as there are hosts"


def test_fewer_toes_take_nothing_back_and_give_nothing_until_it_is_less() -> None:
    shell, grants = fetching(most=3)
    update(shell, max_toes=1)
    assert shell.core.nodes.leases_out == 3
    fetch(shell, *grants[:2])
    assert not shell.grants()
    fetch(shell, grants[2])
    assert len(shell.grants()) == 1


def test_the_bound_of_one_crawl_is_no_other_crawls() -> None:
    shell = launched(max_toes=1)
    shell.create("other", replace(settings(shell), max_toes=0))
    shell.launch("other", *(seed.replace(".example", ".test") for seed in SEEDS))
    grants = shell.grants()
    assert sorted(grant.crawl for grant in grants) == [NAME, *["other"] * 4]


# Empty, and rounds.


def test_a_crawl_that_waits_in_empty_ends_when_nobody_wants_that_any_more() -> None:
    """S0.51, S0.46."""
    shell = in_state(S.EMPTY)
    view = update(shell, run_while_empty=False)
    assert (view.state, view.exit_status) == (S.FINISHED, ExitStatus.FINISHED)
    assert shell.states(NAME)[-3:] == ["EMPTY", "STOPPING", "FINISHED"]


def test_a_crawl_that_is_to_wait_in_empty_does_from_then_on() -> None:
    """S0.51: until a URI comes."""
    shell, grants = fetching(SEEDS[0])
    update(shell, run_while_empty=True)
    fetch(shell, *grants)
    assert shell.state(NAME) is S.EMPTY
    shell.schedule(NAME, f"{SEEDS[0]}more")
    assert shell.state(NAME) is S.RUNNING


def test_rounds_allowed_while_it_waits_in_empty_begin() -> None:
    """S3.2: seeds come anew."""
    shell = in_state(S.EMPTY)
    update(shell, reseed=ReseedSettings(max_rounds=1))
    shell.work()
    assert shell.states(NAME)[-2:] == ["EMPTY", "RUNNING"]
    assert len(shell.grants()) == 1


def test_rounds_allowed_for_later_begin_then() -> None:
    """S3.17: a crawl that awaits its next round is not empty. No timer fires in vain until then."""
    shell = in_state(S.EMPTY)
    shell.tick()
    assert update(shell, reseed=ReseedSettings(max_rounds=1, min_interval_ms=5_000)).state is S.RUNNING
    assert not shell.grants()
    assert shell.core.upkeep.next_due_ms() == shell.core.views.crawl(NAME).launch_ms + 5_000
    advance(shell)
    shell.work()
    assert len(shell.grants()) == 1


def test_rounds_forbidden_while_it_waits_for_one_let_it_end() -> None:
    shell = launched(SEEDS[0], reseed=ReseedSettings(max_rounds=5, min_interval_ms=3_600_000))
    fetch_all(shell)
    assert shell.state(NAME) is S.RUNNING
    assert update(shell, reseed=ReseedSettings()).state is S.FINISHED


# Scope.


def test_a_host_that_is_added_is_in_scope_from_then_on() -> None:
    shell = launched()
    link = candidate("http://new.example/", via=SEEDS[0], path="L")
    assert shell.schedule(NAME, link) == [Verdict.OUT_OF_SCOPE]
    update(shell, scope=ScopeSettings(hosts=("new.example",)))
    assert shell.schedule(NAME, link) == [Verdict.QUEUED]
    shell.restart()
    other = candidate("http://new.example/other", via=SEEDS[0], path="L")
    assert shell.schedule(NAME, other) == [Verdict.QUEUED]


def test_hops_patterns_and_prefixes_count_from_then_on() -> None:
    shell = launched()
    deep = candidate(f"{SEEDS[0]}deep", via=SEEDS[0], path="LLL")
    pdf = candidate(f"{SEEDS[0]}a.pdf", via=SEEDS[0], path="L")
    abroad = candidate("http://abroad.example/", via=SEEDS[0], path="L")
    narrow = ScopeSettings(max_link_hops=2, reject_patterns=(".*[.]pdf",))
    update(shell, scope=narrow)
    assert shell.schedule(NAME, deep, pdf, abroad) == [
        Verdict.TOO_MANY_HOPS,
        Verdict.OUT_OF_SCOPE,
        Verdict.OUT_OF_SCOPE,
    ]
    update(shell, scope=ScopeSettings(max_link_hops=3, surt_prefixes=("+http://(example,abroad,",)))
    assert shell.schedule(NAME, deep, pdf, abroad) == [Verdict.QUEUED] * 3


@pytest.mark.interpreted
def test_a_useless_pattern_of_an_older_server_does_not_block_other_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    glob = ScopeSettings(reject_patterns=("http://a.example/docs/*",))
    with monkeypatch.context() as older:
        older.setattr(spec_problems, "slip", lambda pattern: "")
        shell = launched()
        update(shell, scope=glob)
    meaning.problems.cache_clear()
    update(shell, politeness=QUICK)
    update(shell, scope=replace(glob, max_link_hops=3))
    with pytest.raises(InvalidSpec, match=r"scope.reject_patterns\[1\] must be a pattern, got a glob"):
        update(shell, scope=replace(glob, reject_patterns=(*glob.reject_patterns, ".*/*")))


def test_what_was_taken_in_under_an_earlier_scope_stays() -> None:
    shell = launched()
    pdf = candidate(f"{SEEDS[0]}a.pdf", via=SEEDS[0], path="L")
    shell.schedule(NAME, pdf)
    update(shell, scope=ScopeSettings(reject_patterns=(".*[.]pdf",)))
    assert shell.count(NAME, "queued_count") == 5
    assert shell.schedule(NAME, pdf) == [Verdict.OUT_OF_SCOPE], "though its text was seen before"


# Other parts.


def test_politeness_counts_from_the_next_report_on() -> None:
    shell, (first, *_) = fetching(SEEDS[0])
    shell.schedule(NAME, f"{SEEDS[0]}1", f"{SEEDS[0]}2")
    update(shell, politeness=PolitenessSettings(min_delay_ms=10_000))
    fetch(shell, first)
    assert not shell.grants()
    shell.now_ms += 10_000
    (second,) = shell.grants()
    update(shell, politeness=QUICK)
    fetch(shell, second)
    assert len(shell.grants()) == 1


def test_a_policy_of_fetches_counts_for_the_next_lease_and_the_old_one_is_still_known() -> None:
    shell, (first, *_) = fetching()
    fetch(shell, first)
    update(shell, contact="https://example.org/bot", fetch=FetchSettings(max_bytes=7))
    shell.schedule(NAME, f"{first.uri}more")
    (second,) = shell.grants()
    before, after = (shell.core.frontier.policy(NAME, grant.fetch_policy_id) for grant in (first, second))
    assert (before.fetch.max_bytes, after.fetch.max_bytes) == (FetchSettings().max_bytes, 7)
    assert after.user_agent.endswith("(+https://example.org/bot)")


def test_tries_and_revisits_count_for_the_next_report() -> None:
    shell, (first, second) = fetching(most=2)
    update(shell, retry=RetrySettings(max_attempts=1), revisit=RevisitSettings(policy="fixed"))
    shell.finish(Report(first.token, fetch_status=-2), Report(second.token, fetch_status=200))
    assert shell.count(NAME, "failed_count") == 1, "no second try"
    assert shell.count(NAME, "future_count") == 2, "each comes again, in a week"


def test_the_validity_of_robots_txt_counts_for_those_that_are_known_too() -> None:
    shell, (page,) = fetching(SEEDS[0], robots=RobotsSettings(validity_ms=1_000))
    shell.schedule(NAME, f"{SEEDS[0]}1", f"{SEEDS[0]}2")
    fetch(shell, page)
    shell.now_ms += 1_000
    update(shell, robots=RobotsSettings(validity_ms=3_600_000))
    (page,) = shell.grants()
    assert not page.robots
    fetch(shell, page)
    update(shell, robots=RobotsSettings(validity_ms=1_000))
    (again,) = shell.grants()
    assert again.robots


def test_queues_that_wait_get_the_precedence_that_follows_by_a_job() -> None:
    """T2: each inactive queue is at its place; a floor that is lowered bars them."""
    shell = launched(run_while_empty=True)
    update(shell, queues=QueueSettings(base_precedence=200, precedence_floor=100))
    assert shell.core.upkeep.has_work
    shell.work()
    queues, _ = shell.core.administration.queues(NAME, None, 10, b"")
    assert {(queue.state, queue.precedence) for queue in queues} == {(QueueState.INELIGIBLE, 200)}
    kinds = [job.kind for job in shell.core.administration.jobs(NAME)]
    assert kinds[-1] == JobKind.APPRAISE_QUEUES.value
    update(shell, queues=QueueSettings())
    shell.work()
    assert len(shell.grants()) == 4


def test_before_its_launch_a_crawl_has_no_queues_to_look_at() -> None:
    shell = created(*SEEDS)
    update(shell, queues=QueueSettings(base_precedence=7))
    assert not shell.core.upkeep.has_work
    shell.do(lambda core, now: core.control.launch(NAME, now))
    shell.work()
    queues, _ = shell.core.administration.queues(NAME, None, 10, b"")
    assert {queue.precedence for queue in queues} == {7}


def test_overrides_go_over_what_was_changed() -> None:
    shell = launched(SEEDS[0])
    override = b'{"queues":{"error_penalty":1}}'
    shell.do(lambda core, now: core.administration.put_override(NAME, SEEDS[0], override, now))
    fetch(shell, *shell.grants())
    (page,) = shell.grants()
    update(shell, queues=QueueSettings(error_penalty=50, session_budget=9))
    shell.finish(Report(page.token, fetch_status=-4))
    (queue,) = shell.core.administration.queue(NAME, "example,alpha,")
    assert queue.expenditure == 2, "its cost, and the penalty of the override"


def test_bounds_may_be_changed_while_they_are_waited_for() -> None:
    shell, grants = fetching(pause_timeout_ms=600_000, stop_timeout_ms=600_000)
    shell.request(NAME, Input.PAUSE)
    shell.now_ms += 5_000
    update(shell, pause_timeout_ms=5_000)
    assert shell.core.upkeep.next_due_ms() == shell.now_ms
    shell.tick()
    assert shell.state(NAME) is S.PAUSED
    shell.request(NAME, Input.RESUME)
    assert len(shell.grants()) == len(grants)
    shell.request(NAME, Input.STOP)
    update(shell, stop_timeout_ms=1_000)
    advance(shell)
    assert shell.state(NAME) is S.FINISHED


def test_statistics_are_told_at_the_new_pace() -> None:
    shell, grants = fetching(most=4)
    update(shell, statistics_interval_ms=1_000)
    fetch(shell, grants[0])
    shell.now_ms += 1_000
    shell.tick()
    assert [row.kind for row in shell.events(NAME)].count("statistics") == 1


def test_whether_it_pauses_at_its_start_may_be_changed_until_then() -> None:
    """S0.11"""
    shell = in_state(S.PREPARING)
    update(shell, pause_at_start=True)
    shell.work()
    assert shell.state(NAME) is S.PAUSED


def test_a_change_elsewhere_reads_no_pattern_and_no_group_anew() -> None:
    """A spec may have thousands of them, and nothing else is done meanwhile."""
    shell = Shell()
    scope = ScopeSettings(reject_patterns=(".*logout.*",))
    before = CrawlSettings(
        allowed_addresses=("loopback",), scope=scope, groups=(GroupSettings("shop", ("a.example",)),)
    )
    shell.create("crawl", before)
    crawl = shell.core.shard.registry.names["crawl"]
    rules, groups = crawl.scope_rules, crawl.group_of_host

    def update(after: CrawlSettings) -> None:
        shell.do(
            lambda core, now: core.control.update_crawl(
                "crawl", lambda spec: (spec_of(after), ["something"]), now
            )
        )

    update(replace(before, max_toes=7))
    assert crawl.settings.max_toes == 7
    assert crawl.scope_rules is rules and crawl.group_of_host is groups == {"a.example": "shop"}
    update(replace(before, scope=replace(scope, reject_patterns=(".*login.*",))))
    assert crawl.scope_rules is not rules
