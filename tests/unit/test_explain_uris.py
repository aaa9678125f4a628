"""Why a URI is not fetched now, or never was."""

from dataclasses import replace

import pytest
from core_doubles.codec import candidate, override_of
from core_doubles.explaining import crawl, explained, put_override
from core_doubles.shell import PERIOD_MS, START_MS

from frontier_server.core.spec.settings import RevisitSettings, ScopeSettings
from frontier_server.core.state.model import Reason, Report, Why


def test_a_uri_that_is_out() -> None:
    """To whom, and until when its lease lasts if the node keeps silent."""
    shell = crawl("a/", "a/2")
    (grant,) = shell.grants(node="north")
    leased_ms = shell.now_ms
    expected = Reason(Why.LEASED, "node north is fetching it", leased_ms + PERIOD_MS)
    assert explained(shell, "a/") == [expected]
    shell.now_ms += 20_000
    shell.do(lambda core, now: core.frontier.heartbeat("north", "1", [grant.token], [], now))
    assert explained(shell, "a/") == [replace(expected, until_ms=shell.now_ms + PERIOD_MS)]
    assert explained(shell, "a/2") == [
        Reason(Why.LEASED, "node north is fetching http://a/", shell.now_ms + PERIOD_MS),
        Reason(Why.BEHIND_OTHERS, "behind 1 URI of queue a,"),
    ]


def test_a_uri_that_waits_for_its_time() -> None:
    """S2.7."""
    shell = crawl("a/")
    shell.schedule("crawl", candidate("http://a/later", not_before_ms=START_MS + 10**6))
    assert explained(shell, "a/later") == [Reason(Why.FUTURE, "it is not due yet", START_MS + 10**6)]


def test_a_uri_that_waits_for_its_next_visit() -> None:
    """S1.15: and what became of the last one."""
    shell = crawl("a/", revisit=RevisitSettings(policy="fixed", interval_ms=86_400_000))
    shell.finish(Report(shell.grants()[0].token, fetch_status=200))
    finish_ms = shell.now_ms
    shell.now_ms += 7_200_000
    words = "it is not due yet; last visit: SUCCEEDED with fetch status 200, 2 h ago"
    assert explained(shell, "a/") == [Reason(Why.FUTURE, words, finish_ms + 86_400_000)]


@pytest.mark.parametrize(("failed", "why"), [(-10, "the answer was not HTTP"), (-3, "connection lost")])
def test_a_uri_that_rests_alone(failed: int, why: str) -> None:
    """S1.18: also if an earlier visit went well."""
    shell = crawl("a/", revisit=RevisitSettings(policy="fixed", interval_ms=3_600_000))
    words = f"it rests alone, while its queue goes on: retry after fetch status {failed}: {why}: words"
    for status in (failed, 200, failed):
        (grant,) = shell.grants()
        shell.finish(Report(grant.token, fetch_status=status, reason="words" if status < 0 else ""))
        (reason,) = explained(shell, "a/")
        assert (reason.message == words) == (status == failed)
        shell.now_ms = reason.until_ms


@pytest.mark.parametrize(
    ("later_ms", "ago"),
    [(0, "0 s"), (119_000, "119 s"), (120_000, "2 min"), (7_200_000, "2 h"), (2 * 86_400_000, "2 days")],
)
def test_a_uri_that_was_seen_already(later_ms: int, ago: str) -> None:
    """When, and with what result."""
    shell = crawl("a/", run_while_empty=True)
    shell.finish(Report(shell.grants()[0].token, fetch_status=404))
    shell.now_ms += later_ms
    words = f"SUCCEEDED with fetch status 404, {ago} ago"
    assert explained(shell, "a/") == [Reason(Why.SEEN_ALREADY, words)]


def test_a_uri_that_somebody_noted_as_seen() -> None:
    shell = crawl("a/")
    shell.do(lambda core, now: core.administration.record_seen("crawl", ["http://a/x"], now))
    assert explained(shell, "a/x") == [Reason(Why.SEEN_ALREADY, "it was noted as seen 0 s ago")]


SCOPE = ScopeSettings(
    hosts=("news.example",),
    surt_prefixes=("-http://news.example/private/",),
    reject_patterns=(r".*\.gif", r".*calendar.*"),
    max_path_segments=3,
)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("other.example/", "no host, prefix or pattern of the scope lets other.example in"),
        ("a:81/", "no host, prefix or pattern of the scope lets a:81 in"),
        (
            "news.example/private/x",
            "scope.surt_prefixes refuses it: -http://(example,news,)/private/",
        ),
        ("news.example/a/calendar", "scope.reject_patterns[1] refuses it: .*calendar.*"),
        ("news.example/a/b/c/d/e", "scope.max_path_segments refuses it: 3"),
        ("news.example/a/a/a/a/a", "scope.max_path_repetitions refuses it: 2"),
    ],
)
def test_a_uri_that_is_out_of_scope(uri: str, words: str) -> None:
    """By which rule, and what it says."""
    shell = crawl("a/", scope=SCOPE)
    assert explained(shell, uri) == [Reason(Why.OUT_OF_SCOPE, words)]


def test_a_scheme_that_is_out_of_scope() -> None:
    shell = crawl("a/", scope=ScopeSettings(schemes=("http",)))
    (reason,) = shell.core.administration.explain("crawl", "", "https://a/", shell.now_ms)
    assert reason == Reason(Why.OUT_OF_SCOPE, "scope.schemes refuses it: http")


def test_a_uri_that_nobody_has_offered() -> None:
    shell = crawl("a/")
    words = "no page or seed led to it, or only with more hops than the scope allows"
    assert explained(shell, "a/x") == [Reason(Why.NEVER_OFFERED, words)]


def test_a_uri_that_its_settings_retire() -> None:
    shell = crawl("a/", "b/")
    put_override(shell, "a", override_of(queues={"retire": True}))
    shell.work()
    assert explained(shell, "a/")[0] == Reason(
        Why.QUEUE_RETIRED, "queue a, will be retired at its next turn: its settings retire it"
    )
