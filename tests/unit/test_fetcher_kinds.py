"""A crawl with a kind is served only to callers that offer it, also if they name the crawl."""

from dataclasses import replace

import pytest
from core_doubles.codec import spec_of
from core_doubles.shell import Shell

from frontier_server.core.journey.dispatch import Want
from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.rows import errors
from frontier_server.core.spec.settings import CrawlSettings, PolitenessSettings
from frontier_server.core.state.kinds import Kinds, offered
from frontier_server.core.state.model import EmptyReason, NextAnswer, Report

PLAIN = CrawlSettings(
    allowed_addresses=("loopback",),
    politeness=PolitenessSettings(delay_factor=0, min_delay_ms=0, max_delay_ms=0),
    run_while_empty=True,
)
WAIT_MS = 10_000


def frontier(**kinds: str) -> Shell:
    """A frontier whose crawls, by their names, have these kinds; each has one URI."""
    shell = Shell()
    for name, kind in kinds.items():
        shell.create(name, replace(PLAIN, fetcher=kind))
        shell.launch(name, f"http://{name}.example/")
    return shell


def ask(shell: Shell, *kinds: str, crawl: str | None = None, node: str = "n") -> NextAnswer:
    want = Want(100, kinds=offered(kinds))
    return shell.do(lambda core, now: core.frontier.next(node, "1", want, crawl, now))


def given(shell: Shell, *kinds: str, crawl: str | None = None) -> list[str]:
    """The crawls whose URIs a caller gets that offers these kinds."""
    return sorted(grant.crawl for grant in ask(shell, *kinds, crawl=crawl).grants)


def set_kind(shell: Shell, crawl: str, kind: str) -> None:
    settings = replace(PLAIN, fetcher=kind)
    spec = spec_of(settings)
    shell.do(lambda core, now: core.control.update_crawl(crawl, lambda _: (spec, ["fetcher"]), now))


@pytest.mark.parametrize(
    ("kinds", "crawl", "crawls", "reason"),
    [
        ((), None, ["any"], None),
        (("scrapy",), None, ["any", "spiders"], None),
        (("own",), None, ["any", "owns"], None),
        (("own", "scrapy", "own"), None, ["any", "owns", "spiders"], None),
        (("other",), None, ["any"], None),
        ((), "any", ["any"], None),
        (("scrapy",), "any", ["any"], None),
        ((), "spiders", [], EmptyReason.OTHER_FETCHER),
        (("own",), "spiders", [], EmptyReason.OTHER_FETCHER),
        (("scrapy.2",), "spiders", [], EmptyReason.OTHER_FETCHER),
        (("scrapy",), "spiders", ["spiders"], None),
        (("own", "scrapy"), "spiders", ["spiders"], None),
    ],
)
def test_a_caller_gets_uris_of_the_kinds_that_it_offers_and_of_crawls_without_a_kind(
    kinds: Kinds, crawl: str | None, crawls: list[str], reason: EmptyReason | None
) -> None:
    answer = ask(frontier(any="", spiders="scrapy", owns="own"), *kinds, crawl=crawl)
    assert (sorted(grant.crawl for grant in answer.grants), answer.empty_reason) == (crawls, reason)
    assert not answer.again


def test_the_empty_reason_says_that_all_running_crawls_are_for_other_fetchers() -> None:
    shell = frontier(spiders="scrapy")
    assert ask(shell).empty_reason is EmptyReason.OTHER_FETCHER
    shell.request("spiders", Input.PAUSE)
    assert ask(shell).empty_reason is EmptyReason.NO_CRAWL
    assert ask(shell, crawl="spiders").empty_reason is EmptyReason.PAUSED
    assert ask(shell, "scrapy").empty_reason is EmptyReason.PAUSED
    shell.create("any", PLAIN)
    shell.request("spiders", Input.RESUME)
    assert ask(shell).empty_reason is EmptyReason.NOT_RUNNING, "its own crawl is not launched yet"
    shell.launch("any", "http://any.example/")
    assert given(shell) == ["any"]
    assert ask(shell).empty_reason is EmptyReason.NOTHING_DUE


def test_a_reached_limit_is_the_reason_only_for_fetchers_that_the_crawl_serves() -> None:
    shell = Shell()
    for name, kind in (("any", ""), ("spiders", "scrapy")):
        limits = replace(PLAIN.limits, max_documents=1)
        shell.create(name, replace(PLAIN, fetcher=kind, limits=limits if name == "any" else PLAIN.limits))
        shell.launch(name, f"http://{name}.example/", f"http://{name}.example/2")
    (robots,) = ask(shell).grants
    shell.finish(Report(robots.token, fetch_status=404), node="n")
    assert given(shell) == ["any"]
    assert ask(shell).empty_reason is EmptyReason.LIMIT_REACHED
    assert given(shell, "scrapy") == ["spiders"]
    assert ask(shell, "scrapy").empty_reason is EmptyReason.NOTHING_DUE


def test_a_new_uri_wakes_only_callers_that_its_crawl_serves() -> None:
    shell = frontier(spiders="scrapy")
    leasable = shell.core.frontier.leasable
    assert leasable(None, ("scrapy",)) and leasable("spiders", ("scrapy",))
    assert not leasable() and not leasable("spiders") and not leasable("spiders", ("own",))
    assert leasable("gone"), "a caller that waits for a crawl that is gone is told so"
    set_kind(shell, "spiders", "")
    assert leasable() and leasable("spiders") and leasable(None, ("scrapy",))
    set_kind(shell, "spiders", "own")
    assert not leasable() and not leasable(None, ("scrapy",)) and leasable("spiders", ("own",))


def test_retry_times_follow_only_crawls_that_serve_the_caller() -> None:
    shell = frontier(spiders="scrapy", any="")
    for grant in ask(shell, "scrapy").grants:
        shell.finish(Report(grant.token, fetch_status=503), node="n")
    set_kind(shell, "any", "own")
    frontier_ = shell.core.frontier
    nothing = NextAnswer([], EmptyReason.NOTHING_DUE)
    retry_ms = frontier_.retry_ms(None, ("scrapy",), nothing, 0, shell.now_ms)
    assert 0 < retry_ms < 60_000
    assert frontier_.retry_ms(None, (), nothing, 0, shell.now_ms) == 60_000
    shell.now_ms += retry_ms
    assert ask(shell).empty_reason is EmptyReason.OTHER_FETCHER
    assert given(shell, "scrapy") == ["spiders"], "the one that could not have it has not taken its turn"


def test_a_new_kind_counts_from_the_next_lease_and_leases_out_can_still_be_reported() -> None:
    shell = frontier(docs="")
    (grant,) = ask(shell).grants
    set_kind(shell, "docs", "scrapy")
    shell.finish(Report(grant.token, fetch_status=404), node="n")
    assert ask(shell, crawl="docs").empty_reason is EmptyReason.OTHER_FETCHER
    assert given(shell, "scrapy") == ["docs"]


def test_a_crawl_keeps_its_kind_over_a_restart_and_its_deletion_removes_the_kind() -> None:
    shell = frontier(spiders="scrapy")
    shell.restart()
    assert given(shell) == [] and given(shell, "scrapy") == ["spiders"]
    shell.request("spiders", Input.STOP)
    shell.do(lambda core, now: core.control.delete_crawl("spiders", now, force=True))
    shell.work()
    assert ask(shell, "scrapy").empty_reason is EmptyReason.NO_CRAWL
    assert not shell.core.shard.agenda.served(("scrapy",)), "nothing is left of the kind"


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        (
            ("",),
            "each of fetcher_kinds must be 1 to 64 of the characters a-z, 0-9, ., _ and -, beginning with a "
            "letter or digit, got ''",
        ),
        (("Scrapy",), "got 'Scrapy'"),
        (("a b",), "got 'a b'"),
        (("-a",), "got '-a'"),
        (("a\n",), r"got 'a\n'"),
        (("ä",), "got 'ä'"),
        (("x" * 65,), "got 'xxx"),
        (tuple(f"k{number}" for number in range(17)), "fetcher_kinds must have at most 16 kinds, got 17"),
    ],
)
def test_next_refuses_fetcher_kinds_that_no_crawl_can_have(kinds: Kinds, problem: str) -> None:
    shell = frontier(any="")
    with pytest.raises(errors.InvalidRequest) as refusal:
        ask(shell, *kinds)
    assert problem in str(refusal.value)


@pytest.mark.parametrize("crawl", [None, "spiders"])
def test_explain_and_limited_by_name_the_missing_kind_of_fetcher(crawl: str | None) -> None:
    shell = frontier(spiders="scrapy")
    missing = "No fetcher of kind scrapy has asked for leases since the server started"
    ask(shell, crawl=crawl)  # a node asks in vain
    assert told(shell) == [missing, f"due now, but n{missing[1:]}: start one"]
    assert ask(shell, "scrapy", node="spider", crawl=crawl).grants
    assert missing not in told(shell)
    shell.now_ms += 3 * 60_000
    shell.tick()
    ask(shell, crawl=crawl)
    assert told(shell) == [
        "No fetcher of kind scrapy asks for leases (last asked 3 min ago)",
        "due now, but no fetcher of kind scrapy has asked for leases for 3 min: start one",
    ]


def test_a_crawl_opened_to_any_fetcher_counts_nodes_that_asked_before() -> None:
    shell = frontier(spiders="scrapy")
    ask(shell, crawl="spiders")
    shell.do(lambda core, now: core.frontier.heartbeat("n", "1", [], [], now))
    set_kind(shell, "spiders", "")
    assert "due now, and nodes ask for leases" in told(shell)


def told(shell: Shell) -> list[str]:
    """Why the crawl `spiders` is not going faster, and the first reason that `explain` gives."""
    explained = shell.core.administration.explain("spiders", "", "", shell.now_ms)
    statistics = shell.core.views.statistics("spiders", shell.now_ms)
    return [statistics.limited_by, explained[0].message]
