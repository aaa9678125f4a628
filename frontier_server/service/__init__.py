"""The two services: per RPC decode, call, encode. No rules."""

from typing import cast

import grpc

from toehold.frontier.v1 import admin_pb2, frontier_pb2
from toehold.shard.v1 import shard_pb2_grpc

from ..config import Config
from ..logs.crawl_log import CrawlLogs
from ..shell.exchange import Exchange
from ..stores.checkpoints import Checkpoints
from .answers import core_kind, refuse_openly, version
from .arrivals import MAX_RECEIVED_BYTES, Arrivals, Server
from .callers import CallerRpcs
from .checkpoints import CheckpointRpcs
from .crawls import CrawlRpcs
from .fetchers import FrontierService
from .gate import Gate
from .imports import ImportRpcs
from .jobs import JobRpcs
from .load import Load
from .outcomes import OutcomeRpcs
from .overrides import OverrideRpcs
from .queues import QueueRpcs
from .room import MAX_CALLS
from .shard import ShardService
from .statistics import StatisticsRpcs
from .traces import LeaseTraces
from .uris import UriRpcs

_FILES = (frontier_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR)


class FrontierAdminService(
    CrawlRpcs,
    CallerRpcs,
    CheckpointRpcs,
    QueueRpcs,
    UriRpcs,
    ImportRpcs,
    JobRpcs,
    OverrideRpcs,
    StatisticsRpcs,
    OutcomeRpcs,
):
    """The RPCs of operators and controllers."""


def register(
    server: Server,
    exchange: Exchange,
    config: Config,
    logs: CrawlLogs,
    checkpoints: Checkpoints,
    start_ms: int,
    gate: Gate | None = None,
    traces: LeaseTraces | None = None,
) -> Arrivals:
    """Let a server serve both services; the count of their requests."""
    arrivals = Arrivals(gate or Gate(None), exchange.runner.log_check)
    frontier, admin = (file.services_by_name for file in _FILES)
    nodes = FrontierService(exchange, config, traces)
    arrivals.register(server, nodes, frontier["FrontierService"], config.read_only)
    operators = FrontierAdminService(exchange.runner, config, logs, checkpoints, start_ms)
    arrivals.register(server, operators, admin["FrontierAdminService"], config.read_only)
    return arrivals


def register_shard(
    server: Server,
    exchange: Exchange,
    incarnation: int,
    checkpoints: Checkpoints,
    load: Load,
    logs: CrawlLogs,
) -> None:
    """Let the server of a shard serve its front, too."""
    shard = ShardService(exchange, incarnation, checkpoints, load, logs)
    shard_pb2_grpc.add_ShardServiceServicer_to_server(shard, cast(grpc.aio.Server, server))


def service_names() -> list[str]:
    """The full names of both services."""
    return [file.services_by_name[name].full_name for file in _FILES for name in file.services_by_name]
