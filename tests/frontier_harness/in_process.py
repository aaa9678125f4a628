"""A frontier in the test's own process: a runner over a store that the test controls, and both services."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc
from core_doubles.placing import SUFFIXES

from frontier_server import wire
from frontier_server.config import Config
from frontier_server.core.core import Core
from frontier_server.core.opening import opening
from frontier_server.core.opening.registry import MakeCrawl, made_of
from frontier_server.core.opening.shard import Shard
from frontier_server.core.rows.store import WritableStore
from frontier_server.logs.crawl_log import CrawlLogs
from frontier_server.logs.job_feed import JobFeed
from frontier_server.logs.job_log import JobLogs
from frontier_server.service import MAX_RECEIVED_BYTES, Arrivals, register
from frontier_server.shell.clock import Clock
from frontier_server.shell.exchange import Exchange
from frontier_server.shell.runner import Runner
from frontier_server.stores.checkpoints import Checkpoints
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2_grpc, frontier_pb2_grpc
from toehold_base.serving.addresses import Address

from .waiting import PATIENCE_S

SECRET = b"0123456789abcdef"


def config(
    data: Path, lease_ms: int = 30_000, disk_reserve_bytes: int = 0, heartbeat_ms: int = 3_000
) -> Config:
    return Config(data, Address("127.0.0.1", 0), lease_ms, heartbeat_ms, disk_reserve_bytes, sync=True)


def opened(store: WritableStore, settings: Config, make: MakeCrawl = made_of) -> tuple[Core, Clock]:
    """A frontier over a store, which becomes one of ours if it is empty."""
    row = opening.read_server_row(store)
    if row is None:
        store.write(opening.new_store(SECRET, 0, SUFFIXES))
        store.flush()
    clock = Clock(row.time_ms if row is not None else 0)
    codec = wire.ContractCodec()
    incarnation = secrets.randbits(32)
    now_ms = clock.now_ms()
    shard = Shard(
        store, codec, wire.settings_with, "1.2.3", settings.lease_ms, now_ms, incarnation, make=make
    )
    return Core(shard), clock


@contextlib.asynccontextmanager
async def running(
    store: WritableStore, settings: Config, job_logs: JobLogs | None = None, make: MakeCrawl = made_of
) -> AsyncIterator[Runner]:
    """A runner, closed at the end. A test that holds flushes lets them go before."""
    core, clock = opened(store, settings, make)
    feed = JobFeed(job_logs or JobLogs(settings.data), core)
    runner = Runner(
        core,
        store,
        clock,
        settings.data,
        settings.disk_reserve_bytes,
        settings.heartbeat_ms,
        feed,
    )
    try:
        yield runner
    finally:
        # Where it hangs, tests must go on.
        await asyncio.wait_for(runner.close(), PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Served:
    """Both services over an asynchronous channel, and what is behind them."""

    address: str
    runner: Runner
    exchange: Exchange
    logs: CrawlLogs
    job_logs: JobLogs
    arrivals: Arrivals
    channel: grpc.aio.Channel
    frontier: frontier_pb2_grpc.FrontierServiceAsyncStub
    admin: admin_pb2_grpc.FrontierAdminServiceAsyncStub


@contextlib.asynccontextmanager
async def serving(store: WritableStore, settings: Config) -> AsyncIterator[Served]:
    """Both services on a free port of loopback."""
    job_logs = JobLogs(settings.data)
    async with running(store, settings, job_logs) as runner:
        logs = CrawlLogs(runner, job_logs, settings.data)
        limit = MAX_RECEIVED_BYTES
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", limit)])
        exchange = Exchange(runner)
        arrivals = register(
            server, exchange, settings, logs, Checkpoints(settings.data, cast(RocksStore, store)), 1
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        options = [("grpc.use_local_subchannel_pool", 1)]
        address = f"127.0.0.1:{port}"
        async with grpc.aio.insecure_channel(address, options) as channel:
            frontier = frontier_pb2_grpc.FrontierServiceStub(channel)
            admin = admin_pb2_grpc.FrontierAdminServiceStub(channel)
            try:
                yield Served(address, runner, exchange, logs, job_logs, arrivals, channel, frontier, admin)
            finally:
                runner.begin_close()
                await server.stop(0)
