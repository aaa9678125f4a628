"""Whether anything of a crawl is written: its rows, and its files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from core_doubles.rows import OF_CRAWLS, all_rows_of

from frontier_server.core.rows import keys

from .held_store import HeldStore
from .hosted import Hosted


@contextlib.contextmanager
def still(at: Hosted, store: HeldStore, crawl: str = "t", number: int = 1) -> Iterator[None]:
    """Assert that nothing of a crawl is written inside, be it as it was: no row, and no file."""
    rows = at.look(lambda _: all_rows_of(store, number))
    files = _files(at.data / "crawls" / crawl)
    written = len(store.written)
    yield
    prefix = keys.crawl_prefix(number)
    touched = [
        (family.name, key.hex())
        for changes in store.written[written:]
        for family, key in changes
        if family in OF_CRAWLS and key.startswith(prefix)
    ]
    assert not touched, f"written of crawl {crawl}: {touched}"
    assert at.look(lambda _: all_rows_of(store, number)) == rows
    assert _files(at.data / "crawls" / crawl) == files


def _files(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Name → when it was written, and what is in it."""
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.iterdir()}
