"""The server with buffers so small that flushes and compactions are always under way, and with one promise
broken if it is told so: `program.py MUTANT [flags …]`, where `none` breaks nothing.
"""

import asyncio
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frontier_server.core.core import Core
from frontier_server.core.jobs import importing
from frontier_server.core.rows.store import Changes, Family, WriteStalled
from frontier_server.core.state.model import NextAnswer
from frontier_server.core.state.sessions import PREFIX
from frontier_server.logs import crawl_log, cut_logs, job_feed, log_check
from frontier_server.logs.crawl_log import CrawlLogs
from frontier_server.logs.job_feed import JobFeed
from frontier_server.program import program
from frontier_server.shell.exchange import Exchange
from frontier_server.shell.followers import Followers
from frontier_server.shell.runner import News, Runner
from frontier_server.stores import checkpoints, copies, rocks
from frontier_server.stores.rocks import RocksStore
from toehold_base import durable

KIB = 1024
STALL_EVERY, STALLS, STALL_TELLING = 40, 2, 4  # writes
NONE = "none"


def small_buffers() -> None:
    """Logs are begun, and buffers flushed, after a few hundred rows; jobs have many slices; crawl logs are
    synced often, and tried again soon."""
    vars(rocks)["LOG_BYTES"] = 64 * KIB
    vars(importing)["ROWS_PER_SLICE"] = 3
    vars(crawl_log)["SYNC_EVERY_S"] = vars(crawl_log)["RETRY_S"] = vars(job_feed)["RETRY_S"] = 0.5


def writes_that_stall() -> None:
    """Now and then the store takes no write for some moments, as when its flushes cannot keep up, and every
    fourth time it is to take one that tells of an event."""
    write, times, telling = RocksStore.write, itertools.count(1), itertools.count(1)
    refused: list[Changes] = []  # the last one, which is tried again

    def stalling(store: RocksStore, changes: Changes) -> None:
        tells = any(family is Family.EVENTS for family, _ in changes)
        stalls = next(times) % STALL_EVERY < STALLS or (tells and next(telling) % STALL_TELLING == 0)
        if stalls and changes not in refused:
            refused[:] = [changes]
            raise WriteStalled("the test wants it")
        write(store, changes)

    vars_of(RocksStore, write=stalling)


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
    for module in (program, checkpoints, copies, cut_logs, durable, log_check):
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

    async def undurable(following: Followers, crawl: str, number: int, sequence: int) -> Any:
        def question(core: Core, _: int) -> tuple[Any, Changes]:
            view = core.views.crawl(crawl, number)
            return (core.history.events_after(crawl, sequence), view), {}

        return (await following._runner.apply(question))[0]

    vars_of(Followers, _read=undurable)


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
    """Rows of a kind are written behind the others, once these are durable, instead of with them."""

    def mutate() -> None:
        write = RocksStore.write

        def twice(store: RocksStore, changes: Changes) -> None:
            late = {row: value for row, value in changes.items() if row[0] is family}
            write(store, {row: value for row, value in changes.items() if row not in late})
            if late:
                store.flush()
                write(store, late)

        vars_of(RocksStore, write=twice)

    return mutate


def cursors_ahead_of_slices() -> None:
    """How far a job has come is written and made durable before what it has done."""
    write = RocksStore.write

    def twice(store: RocksStore, changes: Changes) -> None:
        cursors = {row: value for row, value in changes.items() if row[0] is Family.JOBS}
        if cursors:
            write(store, cursors)
            store.flush()
        write(store, {row: value for row, value in changes.items() if row not in cursors})

    vars_of(RocksStore, write=twice)


def sessions_are_not_stored() -> None:
    """Nobody knows after a restart who had the name of a node."""
    write = RocksStore.write

    def some(store: RocksStore, changes: Changes) -> None:
        sessions = {row for row in changes if row[0] is Family.CRAWLS and row[1].startswith(PREFIX)}
        write(store, {row: value for row, value in changes.items() if row not in sessions})

    vars_of(RocksStore, write=some)


def news_are_collected_while_writes_stall() -> None:
    """job.log is told of what is in memory only."""
    collect = JobFeed.collect

    def of_all(feed: JobFeed) -> list[News]:
        feed.note()
        return collect(feed)

    vars_of(JobFeed, collect=of_all)


def a_sync_of_crawl_log_is_tried_again() -> None:
    """After a sync that has failed the next one of the same file is believed."""
    vars_of(CrawlLogs, _put_off=lambda logs, number, crawl, problem: None)


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
    "the sessions of nodes are not stored": sessions_are_not_stored,
    "a job's cursor is durable before its slice": cursors_ahead_of_slices,
    "news are collected while writes stall": news_are_collected_while_writes_stall,
    "a sync of crawl.log that failed is tried again": a_sync_of_crawl_log_is_tried_again,
    "the rests of hosts are not stored": without(Family.HOSTS),
    "a crawl's counters are written apart": apart(Family.CRAWLS),
    "an index is written apart": apart(Family.INDEX),
}
"""Promises of the server's that can be broken, and how."""

PROGRAM = str(Path(__file__))


if __name__ == "__main__":
    mutant, *flags = sys.argv[1:]
    small_buffers()
    writes_that_stall()
    if mutant != NONE:
        MUTANTS[mutant]()
    program.main(flags)
