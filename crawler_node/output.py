"""Output: an archive made of the settings that a node is started with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .archive import Archive, Writer
from .disk import DEFAULT_RESERVE_BYTES, DiskWatch
from .hook import Hook, HookPage
from .logs import NodeLogs
from .pages import PagesWriter, Text
from .rolling import DEFAULT_ROLLING, Rolling
from .warc import DEFAULT_GZIP_LEVEL, Metadata, WarcWriter


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """What a node writes, and where. Directories are made if they are not there."""

    warc: Path | None = None
    """Where WARC files go; None writes none."""
    pages: Path | None = None
    """Where JSON Lines go; None writes none. At least one of the two is needed."""
    metadata: Metadata = Metadata.VISIT
    gzip_level: int = DEFAULT_GZIP_LEVEL
    text: Text = Text.TEXT
    rolling: Rolling = DEFAULT_ROLLING
    disk_reserve_bytes: int = DEFAULT_RESERVE_BYTES

    def __post_init__(self) -> None:
        if self.warc is None and self.pages is None:
            raise ValueError("pages go nowhere: name a directory for WARC files, for JSON Lines, or for both")


def open_output(
    settings: OutputSettings,
    node: str,
    *,
    hook: Callable[[HookPage], object] | None = None,
    logs: NodeLogs | None = None,
    software: str = "Toehold",
) -> Archive:
    """The archive of a node. Raises OutputError when a directory cannot be used, and ValueError."""
    logs = logs or NodeLogs()
    writers = list(_writers(settings, node, software))
    disk = DiskWatch([writer.directory for writer in writers], settings.disk_reserve_bytes)
    return Archive(writers, disk=disk, hook=None if hook is None else Hook(hook, logs), logs=logs)


def _writers(settings: OutputSettings, node: str, software: str) -> Iterator[Writer]:
    if settings.warc is not None:
        yield WarcWriter(
            settings.warc,
            node,
            software=software,
            metadata=settings.metadata,
            gzip_level=settings.gzip_level,
            rolling=settings.rolling,
        )
    if settings.pages is not None:
        yield PagesWriter(settings.pages, node, text=settings.text, rolling=settings.rolling)
