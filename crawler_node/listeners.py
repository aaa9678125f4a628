"""Where a node listens: NodeService, for those who may ask it, and the page of metrics."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import structlog

from toehold_base.access.callers import Callers
from toehold_base.access.callers_file import CallersInvalid
from toehold_base.access.pem import TlsUnusable
from toehold_base.access.server_tls import ServerTls
from toehold_base.serving.addresses import Address, taken
from toehold_client.credentials import SYSTEM

from .control.access import Access
from .control.service import READ_METRICS, NodeServer, ServiceCannotListen, listen_address
from .control.supervisor import Supervisor
from .process import WORKER_TOKEN, NodeOptions

if TYPE_CHECKING:  # an import takes a tenth of a start
    from .metrics.page import NodeMetrics
    from .metrics.workers import WorkersMetrics

log = structlog.get_logger()

_T = TypeVar("_T")


def bound_server(options: NodeOptions) -> NodeServer:
    """The server of NodeService at --listen, for those who may ask the node. Raises click.UsageError."""
    is_safe = options.tls_cert is not None and options.callers is not None
    server = NodeServer(_access(options))
    try:
        server.bind(listen_address(options.listen, options.insecure, is_safe=is_safe))
    except (ValueError, ServiceCannotListen) as error:
        raise click.BadParameter(str(error), param_hint="'--listen'") from error
    return server


def _access(options: NodeOptions) -> Access:
    """The access to the node that its options give."""
    if options.worker is not None:  # only its supervisor
        return Access(token=os.environ.pop(WORKER_TOKEN, ""))
    cert, key, authority = options.tls_cert, options.tls_key, options.tls_ca
    if (cert is None) != (key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together. Give both or neither.")
    if options.mutual_tls and (cert is None or authority in (None, SYSTEM)):
        raise click.UsageError("--mutual-tls needs --tls-cert, --tls-key, and a file as --tls-ca.")
    tls = None
    try:
        if cert is not None and key is not None:
            clients = Path(authority or "") if options.mutual_tls else None
            tls = ServerTls(Path(cert), Path(key), clients, _note_certificates)
        return Access(tls, None if options.callers is None else Callers(options.callers))
    except TlsUnusable as problem:
        raise click.BadParameter(str(problem), param_hint="'--tls-cert'") from problem
    except CallersInvalid as problem:
        raise click.BadParameter(str(problem), param_hint="'--callers'") from problem


def _note_certificates(problem: str) -> None:
    if problem:
        log.error("certificates_unusable", problem=problem, advice="those in use stay")
    else:
        log.info("certificates_reloaded")


def process_metrics(options: NodeOptions) -> "NodeMetrics | None":
    """The metrics of a process, if they are wanted."""
    if options.metrics is None:
        return None
    from .metrics.page import NodeMetrics

    return _at_metrics(options, NodeMetrics)


def workers_metrics(options: NodeOptions, supervisor: Supervisor) -> "WorkersMetrics | None":
    """The metrics of all processes, if they are wanted. They are served from now on."""
    if options.metrics is None:
        return None
    from .metrics.workers import WorkersMetrics

    metrics = _at_metrics(options, lambda address: WorkersMetrics(address, supervisor.workers))
    metrics.start()
    return metrics


def _at_metrics(options: NodeOptions, make: Callable[[Address], _T]) -> _T:
    """Makes a page of metrics at the address that --metrics names."""
    try:
        address = listen_address(options.metrics or "", options.insecure, danger=READ_METRICS)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--metrics'") from error
    try:
        return make(address)
    except OSError as error:
        raise click.BadParameter(taken(address), param_hint="'--metrics'") from error
