"""The versions of a crawl's scope and memory, which say how long verdicts on links hold."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from core_doubles.codec import candidate, spec_of
from core_doubles.shell import Shell
from hypothesis import example, given
from hypothesis import strategies as st

from frontier_server.core.spec.settings import CrawlSettings, IdentitySettings, ScopeSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import NO_VERSIONS, Candidate, Verdict

ALPHA, BETA = "http://alpha.example/", "http://beta.example/"
SETTINGS = CrawlSettings(allowed_addresses=("loopback",), identity=IdentitySettings(keep_uris=True))
REFUSED = (Verdict.OUT_OF_SCOPE, Verdict.TOO_MANY_HOPS)
SCOPES = (
    ScopeSettings(max_link_hops=2),
    ScopeSettings(hosts=("beta.example",), max_link_hops=1),
    ScopeSettings(surt_prefixes=("+http://(example,",), max_link_hops=2),
)


def crawling(*names: str) -> Shell:
    shell = Shell()
    for name in names:
        shell.create(name, SETTINGS)
        shell.launch(name, ALPHA)
    return shell


def version(shell: Shell, crawl: str = "crawl") -> bytes:
    return shell.core.frontier.versions(crawl).scope


def change_scope(shell: Shell, scope: ScopeSettings) -> None:
    spec = spec_of(replace(SETTINGS, scope=scope))
    shell.do(lambda core, now: core.control.update_crawl("crawl", lambda _: (spec, ("scope",)), now))


def forget_one(shell: Shell) -> None:
    shell.do(lambda core, now: core.administration.forget_seen("crawl", [f"{ALPHA}a"], now))


def forget_by_a_job(shell: Shell) -> None:
    parameters = {"waiting": "true", "uri_pattern": ".*"}
    shell.do(lambda core, now: core.administration.start_job("crawl", JobKind.FORGET_URIS, parameters, now))
    shell.work()


def test_links_leave_the_version_as_it_is() -> None:
    shell = crawling("crawl")
    before = version(shell)
    shell.schedule(
        "crawl", candidate(f"{ALPHA}a", path="L"), candidate(BETA, path="L"), candidate("x:", path="L")
    )
    assert version(shell) == before != b""


@pytest.mark.parametrize(
    "change",
    [
        lambda shell: shell.schedule("crawl", candidate(BETA, seed=True)),
        lambda shell: shell.schedule("crawl", candidate(BETA, path="R", source=ALPHA)),
        lambda shell: change_scope(shell, SCOPES[1]),
        lambda shell: shell.restart(),
    ],
    ids=["seed", "redirect of a seed", "settings", "start"],
)
def test_seeds_redirects_settings_and_starts_change_the_version_of_the_scope(
    change: Callable[[Shell], object],
) -> None:
    shell = crawling("crawl")
    before = version(shell)
    change(shell)
    assert version(shell) != before


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        (lambda shell: shell.schedule("crawl", candidate(BETA, seed=True)), False),
        (
            lambda shell: shell.do(lambda f, now: f.administration.forget_seen("crawl", [f"{ALPHA}a"], now)),
            True,
        ),
        (forget_by_a_job, True),
        (lambda shell: shell.restart(), True),
    ],
    ids=["seed", "forgotten", "forgotten by a job", "start"],
)
def test_forgetting_and_starts_change_the_version_of_the_memory(
    change: Callable[[Shell], object], changes: bool
) -> None:
    shell = crawling("crawl")
    shell.schedule("crawl", candidate(f"{ALPHA}a", path="L", not_before_ms=shell.now_ms + 10**6))
    before = shell.core.frontier.versions("crawl").seen
    change(shell)
    assert (shell.core.frontier.versions("crawl").seen != before) is changes


def test_each_crawl_has_versions_of_its_own() -> None:
    shell = crawling("one", "other")
    before = version(shell, "one")
    assert before != version(shell, "other")
    shell.schedule("other", candidate(BETA, seed=True))
    assert version(shell, "one") == before


def test_leases_tell_the_version_under_which_they_were_given() -> None:
    shell = crawling("crawl")
    (robots,) = shell.grants("crawl")
    assert robots.versions == shell.core.frontier.versions("crawl")


def test_a_crawl_that_nobody_knows_has_no_version() -> None:
    assert Shell().core.frontier.versions("unknown") == NO_VERSIONS


links = st.builds(
    lambda uri, path: candidate(uri, path=path, source=ALPHA),
    st.sampled_from([f"{ALPHA}a", f"{BETA}a"]),
    st.sampled_from(["L", "L", "L", "LLL", "E", "R"]),
)
steps = st.one_of(links, links, links, st.just(candidate(BETA, seed=True)), st.sampled_from(SCOPES))


@example([candidate(f"{BETA}a", path="L"), candidate(BETA, seed=True), candidate(f"{BETA}a", path="L")])
@given(st.lists(steps, min_size=2, max_size=30))
def test_a_refused_link_is_never_taken_in_while_the_version_stands(
    taken: list[ScopeSettings | Candidate],
) -> None:
    shell = crawling("crawl")
    refused: set[tuple[bytes, str, str]] = set()
    hosts: tuple[str, ...] = ()
    for step in taken:
        if isinstance(step, ScopeSettings):
            hosts = (*hosts, *(host for host in step.hosts if host not in hosts))  # they can only grow
            change_scope(shell, replace(step, hosts=hosts))
            continue
        attempt = version(shell), step.uri, step.path
        (verdict,) = shell.schedule("crawl", step)
        if not (step.seed or "R" in step.path):
            assert attempt not in refused or verdict is not Verdict.QUEUED
            if verdict in REFUSED:
                refused.add(attempt)
