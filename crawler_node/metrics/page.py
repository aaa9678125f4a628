"""The metrics of a process of a node: its meter, and the page that shows what it has kept."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from toehold_base.observability.metrics_page import Families, Family, MetricsPage, new_registry
from toehold_base.serving.addresses import Address

from ..node import Node
from ..output.archive import Archive
from ..output.warc import WarcWriter
from ..toes.chain import Step
from . import definitions
from .prometheus_meter import PrometheusMeter


class NodeMetrics:
    """The metrics of a process. Give its meter to the node, then `show` the node."""

    def __init__(self, address: Address) -> None:
        """Take an address. Raises OSError if it cannot be taken."""
        self._registry = new_registry()
        self.meter = PrometheusMeter(self._registry)
        self._page = MetricsPage(address, self._registry)

    @property
    def address(self) -> str:
        """Where the page is, HOST:PORT."""
        return self._page.address

    def show(self, node: Node, archive: Archive, directories: Sequence[Path], reserve_bytes: int) -> None:
        """Begin to answer. `directories` are those that the node writes to."""
        self._registry.register(_Reader(lambda: _read(node, archive, directories, reserve_bytes)))
        self._page.start()

    def close(self) -> None:
        """Answer no more."""
        self._page.close()


class _Reader:
    def __init__(self, read: Callable[[], Iterable[Family]]) -> None:
        self.collect = read


def _read(node: Node, archive: Archive, directories: Sequence[Path], reserve_bytes: int) -> Iterable[Family]:
    families = Families(definitions.READ)
    pool, steps = node.pool.statistics(), node.pool.steps()
    for step in Step:
        families.add(definitions.TOES, steps[step], step)
    families.add(definitions.POOL_SIZE, pool.size)
    families.add(definitions.TOES_DIED, pool.died_count)
    families.add(definitions.TOES_KILLED, pool.killed_count)
    families.add(definitions.TOES_LEFT, pool.abandoned_count)
    for stage, count in node.held_counts().items():
        families.add(definitions.LEASES, count, stage.value)
    families.add(definitions.UNREPORTED, node.unreported_count())
    families.add(definitions.OUTBOX, node.outbox_count())
    families.add(definitions.DRAINING, node.draining)
    families.add(definitions.SILENT, node.frontier_silent_s)
    written = [writer.written for writer in archive.writers if isinstance(writer, WarcWriter)]
    families.add(definitions.WARC_FILES, sum(each.files for each in written))
    families.add(definitions.WARC_RECORDS, sum(each.records for each in written))
    families.add(definitions.WARC_BYTES, sum(each.bytes for each in written))
    families.add(definitions.OUTPUT_FAILING, archive.failing)
    families.add(definitions.DISK_RESERVE, reserve_bytes)
    for directory in dict.fromkeys(directories):
        with suppress(OSError):  # then it has no value
            space = os.statvfs(directory)
            families.add(definitions.DISK_FREE, space.f_bavail * space.f_frsize, str(directory))
    families.add(definitions.WORKERS, 1, "answering")
    families.add(definitions.WORKERS, 0, "silent")
    families.add(definitions.RESTARTS, 0)
    families.add(definitions.BUILD_INFO, 1, version("toehold-crawler"))
    return families
