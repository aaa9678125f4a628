"""A spec with thousands of hosts and patterns holds nobody up: it is read beside the frontier."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from frontier_harness.calls import refusal, spec
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import hosted

from frontier_server.core.state import meaning, spec_problems
from frontier_server.core.uri import assign
from toehold.frontier.v1 import crawl_pb2

Spied = dict[str, set[int]]


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> Spied:
    """In which threads each of those that take long was done."""
    threads: Spied = {}

    def spy(module: object, name: str) -> None:
        plain: Callable[..., Any] = getattr(module, name)

        def recorded(*given: Any) -> Any:
            threads.setdefault(name, set()).add(threading.get_ident())
            return plain(*given)

        monkeypatch.setattr(module, name, recorded)

    spy(spec_problems, "problems")
    spy(assign, "groups_of")
    spy(meaning, "ScopeRules")
    spy(meaning, "parse_authority")
    return threads


def large(which: str) -> crawl_pb2.CrawlSpec:
    """A spec that no other test has."""
    made = spec()
    made.scope.hosts.extend(f"{which}{number}.example" for number in range(50))
    made.scope.accept_patterns.extend(f".*/{which}/{number}" for number in range(10))
    made.groups.add(name=which, hosts=[f"{which}.group.example"])
    return made


def test_a_crawl_is_created_and_changed_without_reading_its_spec_between_operations(
    tmp_path: Path, spied: Spied
) -> None:
    with hosted(HeldStore(), tmp_path) as at:
        loop = at.look(lambda _: threading.get_ident())
        at.stubs.create("t", large("created"))
        assert spied.keys() == {"problems", "groups_of", "ScopeRules", "parse_authority"}
        assert loop not in set().union(*spied.values())
        spied.clear()
        scope = large("created").scope
        scope.hosts.append("added.example")
        at.stubs.update("t", scope=scope)
        assert spied.keys() >= {"problems", "ScopeRules", "parse_authority"}
        assert loop not in set().union(*spied.values())
        assert "added.example" in at.stubs.describe("t").spec.scope.hosts


def test_what_is_wrong_with_a_large_spec_is_told_all_the_same(tmp_path: Path, spied: Spied) -> None:
    with hosted(HeldStore(), tmp_path) as at:
        wrong = large("wrong")
        wrong.scope.hosts.append("no host/")
        problem = refusal(lambda: at.stubs.create("t", wrong))
        assert (problem.code, problem.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_SPEC")
        assert "scope.hosts[50]" in problem.message
        at.stubs.create("t", large("right"))
        problem = refusal(lambda: at.stubs.update("t", scope=wrong.scope))
        assert "scope.hosts[50]" in problem.message
        assert at.stubs.describe("t").spec.scope.hosts == large("right").scope.hosts
        assert at.look(lambda _: threading.get_ident()) not in set().union(*spied.values())
