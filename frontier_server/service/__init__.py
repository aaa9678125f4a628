"""The two services: per RPC decode, call, encode. No rules."""

import grpc

from toehold.frontier.v1 import admin_pb2, admin_pb2_grpc, frontier_pb2, frontier_pb2_grpc

from ..checkpoints import Checkpoints
from ..config import Config
from ..crawl_log import CrawlLogs
from ..exchange import Exchange
from .answering import MAX_MESSAGE_BYTES, version
from .checkpoints import CheckpointRpcs
from .crawls import CrawlRpcs
from .fetching import FrontierService
from .figures import FiguresRpcs
from .importing import ImportRpcs
from .jobs import JobRpcs
from .outcomes import OutcomeRpcs
from .overrides import OverrideRpcs
from .queues import QueueRpcs
from .uris import UriRpcs

__all__ = [
    "MAX_MESSAGE_BYTES",
    "FrontierAdminService",
    "FrontierService",
    "register",
    "service_names",
    "version",
]


class FrontierAdminService(
    CrawlRpcs, CheckpointRpcs, QueueRpcs, UriRpcs, ImportRpcs, JobRpcs, OverrideRpcs, FiguresRpcs, OutcomeRpcs
):
    """What operators and controllers need."""


def register(
    server: grpc.aio.Server,
    runner: Exchange,
    config: Config,
    logs: CrawlLogs,
    checkpoints: Checkpoints,
    start_ms: int,
) -> None:
    """Let a server serve both services."""
    frontier = FrontierService(runner, config)
    frontier_pb2_grpc.add_FrontierServiceServicer_to_server(frontier, server)
    admin = FrontierAdminService(runner, config, logs, checkpoints, start_ms)
    admin_pb2_grpc.add_FrontierAdminServiceServicer_to_server(admin, server)


def service_names() -> list[str]:
    """The full names of both services."""
    files = (frontier_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR)
    return [file.services_by_name[name].full_name for file in files for name in file.services_by_name]
