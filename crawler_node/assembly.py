"""Assembly: a node of one process, put together from its options."""

import os
import threading
import uuid
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from toehold_base.observability.tracing import Tracer
from toehold_client import Credentials
from toehold_client.worker.contact import Contact

from .control.service import NodeServer
from .control.single_process import SingleProcessControl
from .extraction.extract import outlinks
from .extraction.sitemap import sitemaps_of_robots
from .fetching.addresses import Resolver, parse_resolve
from .fetching.cookies import CookieJars
from .fetching.http_fetch import HttpFetcher
from .fetching.shared_cookies import SharedCookies, channel_of
from .leases.frontier import FrontierConnection, NodeLog
from .meter import UNMEASURED, Meter
from .node import Node
from .output.archive import Archive, Writer
from .output.disk import DiskWatch
from .output.hook import Hook, load
from .output.logs import NodeLogs
from .output.mirror import MirrorWriter
from .output.open_file import OutputError
from .output.pages import PagesWriter, TextForm
from .output.rotation import Rotation
from .output.warc import DEFAULT_GZIP_LEVEL, Metadata, WarcWriter
from .process import WORKER_COOKIES, NodeOptions
from .toes.chain import Stages

if TYPE_CHECKING:  # an import takes a tenth of a start
    from .metrics.page import NodeMetrics

MIB = 1 << 20

_T = TypeVar("_T")


class Unusable(Exception):
    """A node cannot work with these options. `option` names the one that makes no sense; empty if a directory
    cannot be used."""

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(message)
        self.option = option


def assembled(
    options: NodeOptions,
    server: NodeServer,
    tracer: Tracer | None = None,
    metrics: "NodeMetrics | None" = None,
) -> Node:
    """Returns a node that is not started; its NodeService is, and its metrics are served. Raises
    Unusable."""
    meter = metrics.meter if metrics is not None else UNMEASURED
    session = uuid.uuid4().hex
    contact = Contact(NodeLog())
    table = _usable("--resolve", lambda: dict(map(parse_resolve, options.resolves)))
    channel = os.environ.pop(WORKER_COOKIES, "") if options.worker is not None else ""
    fetcher = _usable(
        "--ca-file",
        lambda: HttpFetcher(
            Resolver(table),
            cookies=SharedCookies(channel_of(channel)) if channel else CookieJars(),
            ca_file=options.ca_file,
            max_bytes_per_second=options.max_bytes_per_second,
        ),
    )
    frontier, polling = (
        _usable(
            "--frontier",
            lambda: FrontierConnection.connect(
                options.frontier,
                contact,
                options.name,
                session,
                _credentials(options),
                meter,
                options.fetcher_kinds,
            ),
        )
        for _ in range(2)
    )
    logs, archive = _archive(options, meter)
    node = Node(
        frontier=frontier,
        polling=polling,
        contact=contact,
        stages=Stages(fetcher, outlinks, sitemaps_of_robots, archive, logs),
        archive=archive,
        crawl=options.crawl,
        toes=options.toes,
        max_left_behind=options.max_left_behind,
        service_address=options.node_service or server.told_address,
        tracer=tracer,
        meter=meter,
    )
    if metrics is not None:
        metrics.show(node, archive, _directories(options), options.disk_reserve_mib * MIB)
    server.start(SingleProcessControl(node, options.name, options.frontier, session))
    return node


def _credentials(options: NodeOptions) -> Credentials:
    return Credentials(
        tls_ca=options.tls_ca,
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
        token_file=options.token_file,
    )


def _archive(options: NodeOptions, meter: Meter) -> tuple[NodeLogs, Archive]:
    rotation = _usable(
        "--file-prefix",
        lambda: Rotation(options.file_prefix, options.max_file_mib * MIB, options.max_file_hours * 3600),
    )
    hook = options.hook
    function = None if hook is None else _usable("--hook", partial(load, hook))
    try:
        logs = NodeLogs(options.logs)
        writers: list[Writer] = []
        if options.warc is not None:
            writers.append(
                WarcWriter(
                    options.warc,
                    options.name,
                    software=f"Toehold/{version('toehold-crawler')}",
                    metadata=Metadata(options.warc_metadata),
                    gzip_level=options.gzip_level or DEFAULT_GZIP_LEVEL,
                    rotation=rotation,
                )
            )
        if options.pages is not None:
            writers.append(
                PagesWriter(options.pages, options.name, text=TextForm(options.pages_text), rotation=rotation)
            )
        if options.mirror is not None:
            writers.append(MirrorWriter(options.mirror, options.name))
    except OutputError as problem:
        raise Unusable(str(problem)) from problem
    archive = Archive(
        writers,
        disk=DiskWatch(_directories(options), options.disk_reserve_mib * MIB),
        hook=Hook(function, logs) if function is not None else None,
        logs=logs,
        meter=meter,
    )
    # Beside the work, as it may take long. If the process ends too soon, the next one repeats it.
    threading.Thread(target=archive.repair, name="repair", daemon=True).start()
    return logs, archive


def _directories(options: NodeOptions) -> list[Path]:
    """The directories that the node writes to."""
    used = (options.warc, options.pages, options.mirror, options.logs)
    return [path for path in used if isinstance(path, Path)]


def _usable(option: str, make: Callable[[], _T]) -> _T:
    try:
        return make()
    except ValueError as error:
        raise Unusable(str(error), option) from error
