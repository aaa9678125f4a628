"""Refused URIs are counted by rule, and the latest examples of each are kept."""

from dataclasses import replace

from core_doubles.codec import candidate
from core_doubles.lives import NAME, launched, quick
from core_doubles.shell import Shell

from frontier_server.core.journey.refusals import (
    EXAMPLES_KEPT,
    EXAMPLES_PER_CALL,
    EXAMPLES_SHOWN,
    MAX_RULES,
    OTHER,
)
from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import ScopeSettings
from frontier_server.core.state.job import JobKind
from frontier_server.core.state.model import Report, RuleView

HOST = "http://alpha.example"


def rules(shell: Shell, rule: str = "") -> dict[str, RuleView]:
    """The rules that refused URIs, by name."""
    return {view.rule: view for view in shell.core.administration.refusals(NAME, rule)}


def test_each_rule_is_counted_with_its_value() -> None:
    scope = ScopeSettings(reject_patterns=(".*/private/.*",), max_link_hops=1)
    shell = launched(f"{HOST}/", scope=scope)
    shell.schedule(
        NAME,
        candidate("http://elsewhere.example/", via=f"{HOST}/", path="L"),
        candidate("http://elsewhere.example/", via=f"{HOST}/2", path="L"),
        candidate(f"{HOST}/private/1", via=f"{HOST}/", path="L"),
        candidate(f"{HOST}/far", via=f"{HOST}/", path="LL"),
        candidate("ftp://alpha.example/"),
        candidate("http://["),
    )
    found = rules(shell)
    assert {name: view.refused for name, view in found.items()} == {
        "scope.hosts": 2,
        "scope.reject_patterns[0]": 1,
        "scope.max_link_hops": 1,
        "unsupported-scheme": 1,
        "malformed": 1,
    }
    assert next(iter(found)) == "scope.hosts", "the rule that refused most comes first"
    assert found["scope.reject_patterns[0]"].message == "scope.reject_patterns[0] = .*/private/.*"
    assert found["scope.max_link_hops"].message == "scope.max_link_hops = 1"
    (example,) = found["scope.hosts"].examples
    assert (example.uri, example.via, example.path) == ("http://elsewhere.example/", f"{HOST}/", "L")


def test_robots_txt_is_a_rule_too() -> None:
    shell = launched(f"{HOST}/")
    (robots,) = shell.grants()
    body = b"User-agent: *\nDisallow: /private/\n"
    shell.finish(Report(robots.token, fetch_status=200, robots_body=body))
    shell.schedule(NAME, f"{HOST}/private/1")
    assert rules(shell)["robots"].message == "robots.txt"


def test_the_last_hundred_examples_of_a_rule_are_kept_also_after_a_restart() -> None:
    shell = launched(f"{HOST}/")
    for number in range(250):
        shell.schedule(NAME, f"http://elsewhere.example/{number}")
    shell.restart()
    shell.schedule(NAME, "http://elsewhere.example/250")
    (all_of_it,) = rules(shell, "scope.hosts").values()
    wanted = [f"http://elsewhere.example/{number}" for number in range(250, 250 - EXAMPLES_KEPT, -1)]
    assert [each.uri for each in all_of_it.examples] == wanted and all_of_it.refused == 251
    assert len(rules(shell)["scope.hosts"].examples) == EXAMPLES_SHOWN


def test_a_swarm_of_refused_links_brings_few_examples() -> None:
    shell = launched(f"{HOST}/")
    shell.schedule(NAME, *(f"http://elsewhere.example/{number}" for number in range(100)))
    assert len(rules(shell, "scope.hosts")["scope.hosts"].examples) == EXAMPLES_PER_CALL


def test_rules_that_are_counted_by_themselves_have_an_end() -> None:
    patterns = tuple(f".*/{number}" for number in range(MAX_RULES + 20))
    shell = launched(f"{HOST}/", scope=ScopeSettings(reject_patterns=patterns))
    for number in range(MAX_RULES + 20):
        shell.schedule(NAME, f"{HOST}/{number}")
    found = rules(shell)
    assert len(found) == MAX_RULES + 1 and found[OTHER].refused == 20


def test_a_rule_that_was_removed_since_is_said_to_be() -> None:
    shell = launched(f"{HOST}/", scope=ScopeSettings(reject_patterns=(".*private.*",)))
    shell.schedule(NAME, f"{HOST}/private")
    crawl = shell.core.shard.registry.named(NAME)
    crawl.settings = replace(crawl.settings, scope=quick().scope)
    assert rules(shell)["scope.reject_patterns[0]"].message.endswith("which is no longer set")


def test_requisites_of_pages_are_in_scope_on_any_host_if_the_crawl_wants_them() -> None:
    """Heritrix: TransclusionDecideRule."""
    shell = launched(f"{HOST}/", scope=ScopeSettings(page_requisites=True))
    for path in ("E", "LE", "LEE", "LER", "RE"):
        shell.schedule(NAME, candidate(f"http://cdn.example/{path}", via=f"{HOST}/", path=path))
    assert "scope.hosts" not in rules(shell)
    for path in ("L", "LR", "LEL", "X", "R"):
        shell.schedule(NAME, candidate(f"http://other.example/{path}", via=f"{HOST}/", path=f"L{path}"))
    assert rules(shell)["scope.hosts"].refused == 5


def test_examples_are_no_fault_for_a_verification_and_go_with_their_crawl() -> None:
    shell = launched(f"{HOST}/")
    shell.schedule(NAME, "http://elsewhere.example/")
    job = shell.do(lambda core, now: core.administration.start_job(NAME, JobKind.VERIFY, {}, now))
    shell.work()
    assert shell.core.administration.job(NAME, job.number).changed == 0
    shell.request(NAME, Input.STOP)
    shell.do(lambda core, now: core.control.delete_crawl(NAME, now))
    shell.work()
    assert not list(shell.store.scan(Family.INDEX, b"", b""))
