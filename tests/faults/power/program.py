"""The server with buffers so small that flushes and compactions are always under way, and with one promise
broken if it is told so: `program.py MUTANT [flags …]`, where `none` breaks nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frontier_server import __main__ as program
from frontier_server import checkpoints, crawl_log, cut_logs, durable, log_check
from frontier_server.core.frontier import Frontier
from frontier_server.core.model import NextAnswer
from frontier_server.core.store import Changes, Family
from frontier_server.exchange import Exchange
from frontier_server.following import Following
from frontier_server.runner import Runner
from frontier_server.stores import copying, rocks
from frontier_server.stores.rocks import RocksStore

KIB = 1024
NONE = "none"


def small_buffers() -> None:
    """A log is begun, and what is in the buffers flushed, after a few hundred rows."""
    vars(rocks)["LOG_BYTES"] = 64 * KIB


def log_is_not_synced() -> None:
    """The store's log is written, and never synced."""
    vars_of(RocksStore, flush=lambda store: None)


def answers_before_the_flush() -> None:
    """Nobody waits until what is told is durable; a flush comes some time later."""

    async def durable_soon(runner: Runner, mark: int) -> None:
        runner._flush_wanted.set()

    vars_of(Runner, durable=durable_soon)


def crawl_log_is_not_synced() -> None:
    """The store notes how long a crawl's log is, although that is not on the disk."""
    vars_of(crawl_log._CrawlLog, sync=lambda log: None)


def directories_are_not_synced() -> None:
    """Files are synced, their names are not."""
    for module in (program, checkpoints, copying, cut_logs, durable, log_check):
        if "sync_directory" in vars(module):
            vars(module)["sync_directory"] = lambda directory: None


def flush_covers_later_writes() -> None:
    """Writes that were made while a flush was under way count as durable when it ends."""
    make_durable = Runner._make_durable

    def with_hindsight(runner: Runner, news: Any) -> None:
        make_durable(runner, news)
        runner._durable = runner._written
        for _, waiter in list(runner._durable_waiters):
            waiter.get_loop().call_soon_threadsafe(_done, waiter)

    vars_of(Runner, _make_durable=with_hindsight)


def _done(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def events_before_the_flush() -> None:
    """Followers hear of what is not durable yet."""

    async def undurable(following: Following, crawl: str, number: int, sequence: int) -> Any:
        def question(frontier: Frontier, _: int) -> tuple[Any, Changes]:
            view = frontier.crawl(crawl, number)
            return (frontier.events_after(crawl, sequence), view), {}

        return (await following._runner.apply(question))[0]

    vars_of(Following, _read=undurable)


def leases_before_the_flush() -> None:
    """A node has a lease that is not durable yet."""

    async def granted(exchange: Exchange, answer: NextAnswer, mark: int) -> NextAnswer:
        return answer

    vars_of(Exchange, _granted=granted)


def without(family: Family) -> Callable[[], None]:
    """Rows of a kind are not stored."""

    def mutate() -> None:
        write = RocksStore.write

        def some(store: RocksStore, changes: Changes) -> None:
            write(store, {row: value for row, value in changes.items() if row[0] is not family})

        vars_of(RocksStore, write=some)

    return mutate


def apart(family: Family) -> Callable[[], None]:
    """Rows of a kind are written behind the others, instead of with them."""

    def mutate() -> None:
        write = RocksStore.write

        def twice(store: RocksStore, changes: Changes) -> None:
            late = {row: value for row, value in changes.items() if row[0] is family}
            write(store, {row: value for row, value in changes.items() if row not in late})
            write(store, late)

        vars_of(RocksStore, write=twice)

    return mutate


def vars_of(owner: type, **replaced: Callable[..., Any]) -> None:
    """Put other functions in place of a class's own."""
    for name, function in replaced.items():
        assert hasattr(owner, name)
        setattr(owner, name, function)


MUTANTS: dict[str, Callable[[], None]] = {
    "the store's log is not synced": log_is_not_synced,
    "answers leave before the flush": answers_before_the_flush,
    "a flush covers what was written after it began": flush_covers_later_writes,
    "crawl.log is noted without its sync": crawl_log_is_not_synced,
    "directories are not synced": directories_are_not_synced,
    "events leave before the flush": events_before_the_flush,
    "leases leave before the flush": leases_before_the_flush,
    "leases are not stored": without(Family.LEASES),
    "the rests of hosts are not stored": without(Family.HOSTS),
    "a crawl's counters are written apart": apart(Family.CRAWLS),
    "an index is written apart": apart(Family.INDEX),
}
"""Promises of the server's that can be broken, and how."""

PROGRAM = str(Path(__file__))


if __name__ == "__main__":
    mutant, *flags = sys.argv[1:]
    small_buffers()
    if mutant != NONE:
        MUTANTS[mutant]()
    program.main(flags)
