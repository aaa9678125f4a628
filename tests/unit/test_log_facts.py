"""What is told of a store's log: how long appends took, and what a page of metrics shows of it."""

import threading

import pytest

from frontier_server.metrics.definitions import OF_LOGS
from frontier_server.metrics.log import add_logs
from frontier_server.replicated.buckets import Requests
from frontier_server.service.load import facts_message
from frontier_server.stores.log_facts import MEASURED, Appends, LogFacts
from toehold_base.observability.metrics_page import Families

FACTS = LogFacts(
    appends=3,
    append_s=0.75,
    append_quantile_s=0.5,
    tail_rows=7,
    tail_records=4,
    epoch=12,
    is_restored=True,
    waiting_s=1.25,
    replica_age_s=90.5,
    requests={"get": 5, "put": 6},
)
UNUSED = LogFacts(0, 0.0, 0.0, 0, 0, 1, False, 0.0, None, {})


@pytest.mark.parametrize(
    ("took_ms", "quantile_ms"),
    [
        ([], 0),
        ([5], 5),
        ([1] * 99 + [9], 1),
        ([1] * 98 + [9, 9], 9),
        ([1] * 989 + [9] * 11, 9),
        ([1] * 990 + [9] * 10, 1),
        ([9] * MEASURED + [1] * MEASURED, 1),
        ([1] * MEASURED + [9] * 10, 1),
        ([1] * MEASURED + [9] * 11, 9),
    ],
)
def test_of_a_hundred_appends_ninety_nine_took_so_long_at_most(took_ms: list[int], quantile_ms: int) -> None:
    appends = Appends()
    for took in took_ms:
        appends.add(took / 1000)
    count, took_s, quantile_s = appends.told()
    assert (count, quantile_s) == (len(took_ms), quantile_ms / 1000)
    assert took_s == pytest.approx(sum(took_ms) / 1000)


def shown(*logs: tuple[str, LogFacts]) -> dict[tuple[str, ...], float]:
    """The values of a page, by their names, without what all have in common, and their labels."""
    families = Families(OF_LOGS)
    add_logs(families, [(label, facts_message(facts)) for label, facts in logs])
    return {
        (sample.name.removeprefix("toehold_frontier_log_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_page_shows_all_of_a_log_under_its_label() -> None:
    assert shown(("4", FACTS)) == {
        ("appends_total", "4"): 3,
        ("append_seconds_total", "4"): 0.75,
        ("append_quantile_seconds", "4", "0.99"): 0.5,
        ("tail_rows", "4"): 7,
        ("tail_records", "4"): 4,
        ("epoch", "4"): 12,
        ("restored", "4"): 1,
        ("waiting_seconds", "4"): 1.25,
        ("replica_age_seconds", "4"): 90.5,
        ("requests_total", "4", "get"): 5,
        ("requests_total", "4", "put"): 6,
    }


def test_a_log_without_replica_and_appends_has_no_age_and_no_quantile_of_them() -> None:
    found = shown(("4", FACTS), ("coordinator", UNUSED))
    assert {name for name, label, *_ in found if label == "4"} - {
        name for name, label, *_ in found if label == "coordinator"
    } == {"replica_age_seconds", "append_quantile_seconds", "requests_total"}


def test_requests_are_counted_by_any_thread() -> None:
    requests = Requests()

    def count() -> None:
        for _ in range(1_000):
            requests.add("get")
            requests.add("put")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert requests.by_kind() == {"get": 4_000, "put": 4_000}
    assert requests.total() == 8_000
