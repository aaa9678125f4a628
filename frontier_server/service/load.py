"""The load of a shard: what it has to do, and what it takes of the machine."""

import asyncio
import os
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toehold.frontier.v1 import admin_pb2
from toehold.shard.v1 import shard_pb2

from ..core.core import Core
from ..shell.exchange import Exchange
from ..stores.log_facts import LogFacts
from ..stores.logged import LoggedStore

SAMPLE_EVERY_S = 2.0
SAMPLES = 6  # rates are over the time between the first and the last
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Sample:
    """What has grown since the start of the process, at one time."""

    at_s: float
    cpu_s: float
    finished: int


class Load:
    """The load of this process, which is a shard. `watch` it."""

    def __init__(self, number: int, exchange: Exchange, store: Path, logged: LoggedStore | None) -> None:
        """`store` is the directory of the store; `logged` is the store, if it has a log."""
        self._number = number
        self._exchange = exchange
        self._runner = exchange.runner
        self._store = store
        self._logged = logged
        self._samples = deque((self._sample(),), SAMPLES)

    async def watch(self) -> None:
        """Take samples, as long as the server runs."""
        while True:
            await asyncio.sleep(SAMPLE_EVERY_S)
            self._samples.append(self._sample())

    async def told(self) -> shard_pb2.TellLoadResponse:
        """The load now. It may be a flush ahead of what is durable, as metrics may: a shard whose log waits
        for its storage tells of that, too."""
        now = self._sample()
        finished_per_s, busy_cores = rates(self._samples[0], now)
        store_bytes = await asyncio.to_thread(_size_bytes, self._store)
        answer, _ = await self._runner.apply(lambda core, now_ms: (_of_core(core, now_ms), {}))
        answer.cpu_seconds, answer.finished_count = now.cpu_s, now.finished
        answer.shard.MergeFrom(
            admin_pb2.Shard(
                shard=self._number,
                present=True,
                finished_per_second=finished_per_s,
                busy_core_count=busy_cores,
                memory_bytes=_memory_bytes(),
                store_bytes=store_bytes,
            )
        )
        if self._logged is not None:
            answer.log_facts.CopyFrom(facts_message(self._logged.facts(self._runner.now_ms())))
        return answer

    def _sample(self) -> Sample:
        return Sample(time.monotonic(), time.process_time(), self._exchange.finished_count)


def rates(first: Sample, last: Sample) -> tuple[float, float]:
    """Reports a second, and cores kept busy, between two samples."""
    passed_s = last.at_s - first.at_s
    if not passed_s:
        return 0.0, 0.0
    return (last.finished - first.finished) / passed_s, (last.cpu_s - first.cpu_s) / passed_s


def facts_message(facts: LogFacts) -> shard_pb2.LogFacts:
    """The facts of a log as a message."""
    return shard_pb2.LogFacts(
        append_count=facts.appends,
        append_seconds=facts.append_s,
        append_quantile_seconds=facts.append_quantile_s,
        tail_row_count=facts.tail_rows,
        tail_record_count=facts.tail_records,
        epoch=facts.epoch,
        restored=facts.is_restored,
        waiting_seconds=facts.waiting_s,
        replica_age_seconds=facts.replica_age_s,
        request_counts=facts.requests,
    )


def _of_core(core: Core, now_ms: int) -> shard_pb2.TellLoadResponse:
    """The part of the load that the core's memory tells."""
    measures = core.measures
    hosts = measures.hosts()
    crawls = [measures.crawl(number) for number in measures.crawls(0)[1]]
    return shard_pb2.TellLoadResponse(
        shard=admin_pb2.Shard(
            queued_count=sum([crawl.counts["queued_count"] for crawl in crawls if crawl is not None]),
            leased_count=core.nodes.leases_out,
        ),
        host_count=len(hosts),
        resting_count=measures.resting(hosts, now_ms),
        node_counts={presence.value: count for presence, count in measures.nodes(now_ms).items()},
    )


def _memory_bytes() -> int:
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _size_bytes(directory: Path) -> int:
    total = 0
    for file in os.scandir(directory):
        with suppress(FileNotFoundError):  # RocksDB has just deleted it
            total += file.stat().st_size
    return total
