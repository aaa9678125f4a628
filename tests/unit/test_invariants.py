"""An operation that would leave a contradiction raises InvariantBroken, and stores nothing."""

from collections.abc import Callable

import pytest
from core_doubles.lives import NAME, fetching, quick, report
from core_doubles.shell import CheckedShell, Shell

from frontier_server.core.rows import keys
from frontier_server.core.rows.errors import InvariantBroken
from frontier_server.core.rows.store import Family
from frontier_server.core.state.crawl import Crawl
from frontier_server.core.state.queue import QueueState, WorkQueue

SITE = ["http://alpha.example/1", "http://alpha.example/2", "http://alpha.example/3"]


def lose_a_uri(crawl: Crawl, queue: WorkQueue) -> None:
    queue.row.count = 0


def count_below_nothing(crawl: Crawl, queue: WorkQueue) -> None:
    crawl.counters.queued = 0


def forget_that_it_is_out(crawl: Crawl, queue: WorkQueue) -> None:
    queue.out[b"elsewhere"] = 7


def take_from_memory(crawl: Crawl, queue: WorkQueue) -> None:
    crawl.counters.active_queues += 1


def count_more_pages_than_leases(crawl: Crawl, queue: WorkQueue) -> None:
    crawl.pages_out += 1


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lose_a_uri, "queue 'example,alpha,': it must have at least 0 URIs, got -1"),
        (count_below_nothing, "queued must be at least 0, got -1"),
        (forget_that_it_is_out, "queue 'example,alpha,': of its 2 URIs 1 are out, in 0 leases"),
        (take_from_memory, "2 active queues are counted, but memory has 1"),
        (count_more_pages_than_leases, "of 0 leases out, 1 are pages"),
    ],
)
def test_an_operation_that_leaves_a_contradiction_is_not_stored(
    harm: Callable[[Crawl, WorkQueue], None], says: str
) -> None:
    shell, (grant,) = fetching(*SITE)
    crawl = shell.core.shard.registry.named(NAME)
    (queue,) = crawl.queues.active.values()
    harm(crawl, queue)
    stored = [list(shell.store.scan(family, b"", b"")) for family in Family]
    with pytest.raises(InvariantBroken) as broken:
        shell.finish(report(grant))
    assert says in str(broken.value) and str(broken.value).startswith(f"crawl {NAME}")
    assert [list(shell.store.scan(family, b"", b"")) for family in Family] == stored


def test_a_queue_in_another_state_than_its_leases_say_is_noticed() -> None:
    shell, _ = fetching(*SITE)
    (queue,) = shell.core.shard.registry.named(NAME).queues.active.values()
    queue.state = QueueState.READY
    with pytest.raises(InvariantBroken, match="it is READY, with 1 leases out"):
        shell.schedule(NAME, "http://alpha.example/4")


def delete_a_row(shell: Shell, queue: WorkQueue, row: bytes) -> None:
    shell.store.write({(Family.PENDING, row): None})


def raise_a_head(shell: Shell, queue: WorkQueue, row: bytes) -> None:
    queue.row.heads = {level: ordinal + 2 for level, ordinal in queue.row.heads.items()}


def miscount_precedences(shell: Shell, queue: WorkQueue, row: bytes) -> None:
    queue.row.uri_precedences = {9: queue.row.count}


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (delete_a_row, "4 URIs are counted, {1: 4} by precedence; stored are 3, {1: 3}"),
        (raise_a_head, "is before the head of its level"),
        (miscount_precedences, "4 URIs are counted, {9: 3, 1: 1} by precedence; stored are 4, {1: 4}"),
    ],
)
def test_a_recount_notices_what_the_rows_of_a_queue_contradict(
    harm: Callable[[Shell, WorkQueue, bytes], None], says: str
) -> None:
    shell = CheckedShell()
    shell.create(NAME, quick())
    shell.launch(NAME, *SITE)
    shell.grants()
    (queue,) = shell.core.shard.registry.named(NAME).queues.active.values()
    prefix = keys.queue_row_key(queue.crawl, queue.queue)
    rows = [key for key, _ in shell.store.scan(Family.PENDING, prefix, prefix)]
    harm(shell, queue, rows[-1])
    with pytest.raises(InvariantBroken) as broken:
        shell.schedule(NAME, "http://alpha.example/4")
    assert says in str(broken.value)
