"""Seeds of `toehold crawl` that only the frontier refuses: told, or the end of the crawl."""

import pytest

from toehold.frontier.v1.admin_pb2 import AddSeedsResponse, RejectedSeed
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, Verdict
from toehold_cli.embedded.plan import Plan
from toehold_cli.embedded.resumption import tell_refused
from toehold_cli.exits import BadPlan

LONG = RejectedSeed(uri="https://a.example/long", number=2, verdict=Verdict.VERDICT_TOO_LONG)
TOLD = "the frontier refuses 1 seed:\n  seed 2 (https://a.example/long) is too long"


def plan(*, skip: bool) -> Plan:
    return Plan("crawl", CrawlSpec(), (), skip_bad_seeds=skip)


def test_a_refused_seed_ends_the_crawl_with_its_fault_and_a_remedy() -> None:
    with pytest.raises(BadPlan) as refusal:
        tell_refused(AddSeedsResponse(rejected_count=1, rejected=[LONG]), plan(skip=False), print)
    assert str(refusal.value) == f"{TOLD}\nTo crawl from the other seeds, add --skip-bad-seeds."


def test_refused_seeds_that_are_to_be_skipped_are_told_up_to_a_number() -> None:
    said: list[str] = []
    tell_refused(AddSeedsResponse(rejected_count=1, rejected=[LONG]), plan(skip=True), said.append)
    assert said == [f"Skipped: {TOLD}"]
    tell_refused(AddSeedsResponse(rejected_count=1_012, rejected=[LONG] * 12), plan(skip=True), said.append)
    assert said[1].count("is too long") == 10 and said[1].endswith("\n  and 1 002 more")


def test_nothing_is_told_if_none_is_refused() -> None:
    said: list[str] = []
    tell_refused(AddSeedsResponse(added_count=3), plan(skip=False), said.append)
    assert said == []
