"""UpdateCrawl: settings changed while the crawl lives, checked before they count, all or nothing."""

import threading
from typing import Any

import pytest
from frontier_harness.calls import (
    INVALID,
    TIMEOUT_S,
    Stubs,
    fresh_name,
    refused,
    seconds,
    spec,
)
from frontier_harness.hosted import Hosted
from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import crawl_pb2

# Which fields are changed.


def test_without_a_mask_what_is_given_changes_message_by_message_and_lists_as_a_whole(stubs: Stubs) -> None:
    crawl = fresh_name()
    first = spec(
        limits=crawl_pb2.LimitSpec(max_documents=5, max_bytes=6),
        scope=crawl_pb2.ScopeSpec(max_link_hops=3, reject_patterns=["a", "b"]),
        retry=crawl_pb2.RetrySpec(delay=seconds(1.5)),
    )
    before = stubs.create(crawl, first).spec
    changed = stubs.update(
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


@pytest.mark.parametrize("path", ["limits.nope", "x" * 100_000])
def test_a_path_that_names_no_field_is_refused_and_changes_nothing(stubs: Stubs, path: str) -> None:
    crawl = fresh_name()
    before = stubs.create(crawl)
    problem = refused(
        lambda: stubs.update(crawl, "weight", path, weight=5),
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
        lambda: stubs.update(crawl, *["weight"] * 500_000, weight=5), INVALID, "BATCH_TOO_LARGE", "500000"
    )
    assert stubs.update(crawl, *["weight"] * 1000, weight=5).weight == 5


def test_a_change_of_nothing_is_refused(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl)
    refused(lambda: stubs.update(crawl), INVALID, "INVALID_ARGUMENT_VALUE", "at least one setting")


# What is wrong with it.


def test_all_that_is_wrong_is_told_at_once_and_nothing_of_it_counts(stubs: Stubs, crawl: str) -> None:
    before, events = stubs.describe(crawl), stubs.told(crawl)
    wrong: dict[str, Any] = {
        "contact": "nobody",
        "weight": -1,
        "max_toes": -1,
        "stop_timeout": seconds(0.5),
        "limits": crawl_pb2.LimitSpec(max_documents=-1, max_bytes=7),
        "identity": crawl_pb2.IdentitySpec(rules=["lower-case"]),
        "queues": crawl_pb2.QueueSpec(partition="registered-domain", cost="nonsense"),
        "statistics_interval": seconds(5),
    }
    problem = refused(lambda: stubs.update(crawl, **wrong), INVALID, "INVALID_SPEC", "contact")
    assert set(problem.metadata) == {
        *("contact", "weight", "max_toes", "stop_timeout", "limits.max_documents"),
        *("identity", "queues.partition", "queues.cost"),
    }
    assert stubs.describe(crawl) == before
    assert stubs.told(crawl) == events
    assert len(stubs.pages(crawl)) == 1  # it goes on


# That it counts, and what is told of it.


def test_who_changed_what_is_told_once_and_what_changes_nothing_is_told_of_nobody(at: Hosted) -> None:
    stubs = at.stubs
    stubs.create("t")
    stubs.update("t", limits=crawl_pb2.LimitSpec(max_documents=7), weight=3)
    stubs.update("t", limits=crawl_pb2.LimitSpec(max_documents=7), weight=3)
    stubs.update("t", "max_toes", max_toes=0)
    acted = [event.operator_acted for event in stubs.events_so_far("t") if event.HasField("operator_acted")]
    assert [(each.action, each.detail) for each in acted] == [
        *(("create", ""), ("update", "limits.max_documents = 7 (was 0), weight = 3 (was 1)"))
    ]


def test_changes_of_several_controllers_at_once_lose_nothing_of_each_other(stubs: Stubs) -> None:
    crawl = fresh_name()
    stubs.create(crawl)
    fields = ["weight", "max_toes", "outcomes_kept"]

    def change(field: str) -> None:
        for value in range(1, 21):
            stubs.update(crawl, **{field: value})

    threads = [threading.Thread(target=change, args=(field,), daemon=True) for field in fields]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    made = stubs.describe(crawl).spec
    assert [getattr(made, field) for field in fields] == [20, 20, 20]
