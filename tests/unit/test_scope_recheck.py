"""The scope judges a URI again when its turn comes: one that was excluded meanwhile ends as out of scope."""

from dataclasses import replace
from typing import Any

import pytest
from core_doubles.codec import candidate, spec_of
from core_doubles.shell import Shell

from frontier_server.core.rules.disposition import Disposition
from frontier_server.core.spec.settings import (
    CrawlSettings,
    PolitenessSettings,
    RobotsSettings,
    ScopeSettings,
)
from frontier_server.core.state.model import Report, Verdict

HOST = "http://alpha.example"
SETTINGS = CrawlSettings(
    allowed_addresses=("loopback",),
    politeness=PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0),
    robots=RobotsSettings(policy="ignore"),
    run_while_empty=True,
)


def crawl(**scope: Any) -> Shell:
    """A crawl with the seed `/`, from which two redirects and some links came."""
    shell = Shell()
    shell.create("c", replace(SETTINGS, scope=ScopeSettings(**scope)))
    shell.launch("c", f"{HOST}/")
    seed, source = f"{HOST}/", f"{HOST}/"
    shell.schedule(
        "c",
        candidate("http://beta.example/", path="R", via=seed, source=source),
        candidate(f"{HOST}/a", path="L", via=seed, source=source),
        candidate(f"{HOST}/calendar/1", path="L", via=seed, source=source),
        candidate(f"{HOST}/calendar/2", path="LL", via=seed, source=source),
    )
    return shell


def change(shell: Shell, **scope: Any) -> None:
    settings = replace(SETTINGS, scope=ScopeSettings(**scope))
    spec = spec_of(settings)
    shell.do(lambda core, now: core.control.update_crawl("c", lambda _: (spec, ["scope"]), now))


def fetched(shell: Shell) -> list[str]:
    found = []
    while grants := shell.grants("c"):
        for grant in grants:
            found.append(grant.uri.removeprefix(HOST))
            shell.finish(Report(grant.token, fetch_status=200))
    return sorted(found)


ALL = ["/", "/a", "/calendar/1", "/calendar/2", "http://beta.example/"]
CALENDAR = r"https?://[^/]+/calendar/.*"


@pytest.mark.sampled(
    ("scope", "left", "rule"),
    [
        ({}, ALL, ""),
        (
            {"reject_patterns": (r".*\.pdf", CALENDAR)},
            ["/", "/a", "http://beta.example/"],
            "reject_patterns[1]",
        ),
        ({"surt_prefixes": (f"-{HOST}/calendar/",)}, ["/", "/a", "http://beta.example/"], "surt_prefixes"),
        ({"surt_prefixes": ("-beta.example",)}, ALL[:4], "surt_prefixes"),
        ({"required_patterns": (".*/a",)}, ["/", "/a", "http://beta.example/"], "required_patterns"),
        ({"max_link_hops": 1}, ["/", "/a", "/calendar/1", "http://beta.example/"], "max_link_hops"),
        ({"max_redirect_hops": 0}, ALL[:4], "max_redirect_hops"),
        ({"max_path_segments": 1}, ["/", "/a", "http://beta.example/"], "max_path_segments"),
        ({"schemes": ("https",)}, [], "schemes"),
        ({"reject_patterns": (".*",)}, [], "reject_patterns[0]"),
    ],
)
@pytest.mark.sampled("restart", [False, True])
def test_a_waiting_uri_that_is_excluded_ends_at_its_turn_and_names_the_rule(
    scope: dict[str, Any], left: list[str], rule: str, restart: bool
) -> None:
    shell = crawl()
    change(shell, **scope)
    if restart:
        shell.restart()
    assert fetched(shell) == left
    out = [row for row in shell.outcomes("c") if row.fetch_status == -5000]
    assert len(out) == len(ALL) - len(left) == shell.count("c", "disregarded_count")
    assert all(row.disposition == Disposition.DISREGARDED.value for row in out)
    refused = shell.core.administration.refusals("c", "")
    assert [(each.rule, each.refused) for each in refused] == ([(f"scope.{rule}", len(out))] if rule else [])
    for row in out:
        story = shell.core.administration.story("c", row.uri, shell.now_ms)
        assert story.reason == row.reason and story.reason, story
        assert story.fetch_status == -5000


def test_an_excluded_uri_is_fetched_all_the_same_without_recheck() -> None:
    shell = crawl(recheck=False)
    change(shell, recheck=False, reject_patterns=(CALENDAR,))
    assert fetched(shell) == ALL


def test_a_forced_refetch_of_a_page_excluded_meanwhile_ends_as_out_of_scope() -> None:
    shell = crawl()
    assert fetched(shell) == ALL
    change(shell, reject_patterns=(CALENDAR,))
    again = candidate(f"{HOST}/a", refetch_before_ms=shell.now_ms + 1)
    shell.schedule("c", again)
    change(shell, reject_patterns=(".*/a",))
    assert fetched(shell) == []


def test_a_crawl_whose_scope_never_changed_judges_no_uri_again() -> None:
    shell = crawl()
    assert not shell.core.shard.crawls[1].state_row.scope_changed, "so it costs nothing"
    change(shell, max_link_hops=20, recheck=True)
    assert not shell.core.shard.crawls[1].state_row.scope_changed, "nothing changed"


def test_explain_says_that_an_excluded_uri_will_end_at_its_turn() -> None:
    shell = crawl()
    change(shell, reject_patterns=(CALENDAR,))
    uri = f"{HOST}/calendar/1"
    for _ in range(2):  # the pages before it
        (grant,) = shell.grants("c", most=1)
        shell.finish(Report(grant.token, fetch_status=200))
    told = [each.message for each in shell.core.administration.explain("c", "", uri, shell.now_ms)]
    assert f"{uri} ends at its turn: scope.reject_patterns[0] refuses it: {CALENDAR}" in told


def test_explain_says_of_any_uri_that_waits_that_it_will_end() -> None:
    shell = crawl()
    change(shell, reject_patterns=(CALENDAR,))
    uri = f"{HOST}/calendar/2"
    told = [each.message for each in shell.core.administration.explain("c", "", uri, shell.now_ms)]
    assert told[0] == f"{uri} ends at its turn: scope.reject_patterns[0] refuses it: {CALENDAR}", told
    assert sum(uri in each for each in told) == 1
    assert len(shell.core.administration.explain("c", "", f"{HOST}/a", shell.now_ms)) < len(told)


def test_a_question_brings_no_host_into_scope() -> None:
    shell, there = Shell(), "http://beta.example/"
    scope = ScopeSettings(seed_redirects_within_domain=True, accept_patterns=("http://beta.*/",))
    shell.create("c", replace(SETTINGS, scope=scope))
    shell.launch("c", f"{HOST}/")
    redirected = candidate(there, path="R", via=f"{HOST}/", source=f"{HOST}/")
    assert shell.schedule("c", redirected) == [Verdict.QUEUED]
    change(shell)  # from now on the redirect of a seed widens the scope
    shell.core.administration.explain("c", "", there, shell.now_ms)
    offered = candidate(f"{there}x", path="L", via=f"{HOST}/", source=f"{HOST}/")
    assert shell.schedule("c", offered) == [Verdict.OUT_OF_SCOPE]
    assert fetched(shell) == ["/", there]
    again = candidate(f"{there}y", path="L", via=f"{HOST}/", source=f"{HOST}/")
    assert shell.schedule("c", again) == [Verdict.QUEUED], "its turn has widened the scope"


def test_a_lifted_exclusion_lets_in_what_is_new_and_what_is_forgotten() -> None:
    shell = crawl()
    change(shell, reject_patterns=(CALENDAR,))
    assert fetched(shell) == ["/", "/a", "http://beta.example/"]
    change(shell)
    ended, new = f"{HOST}/calendar/1", f"{HOST}/calendar/3"
    links = [candidate(uri, path="L", via=f"{HOST}/", source=f"{HOST}/") for uri in (ended, new)]
    assert shell.schedule("c", *links) == [Verdict.ALREADY_SEEN, Verdict.QUEUED]
    shell.do(lambda core, now: core.administration.forget_seen("c", [ended], now))
    assert shell.schedule("c", links[0]) == [Verdict.QUEUED]
    assert fetched(shell) == ["/calendar/1", "/calendar/3"]
