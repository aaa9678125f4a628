"""The first steps of a server: imports that take as little time as possible, and a gRPC that keeps quiet."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NOT_NEEDED = ("pygments", "rich", "twisted")
"""Packages that structlog and httpx import if they are installed: to colour logs, to log through Twisted, and
for a command line of httpx. Our logs are JSON. They would take a third of a start."""


@contextmanager
def fast_imports() -> Iterator[None]:
    """A context for a server's imports.

    Imports create hundreds of thousands of objects and hardly any garbage. Collecting garbage meanwhile would
    take a quarter of the time; `freeze` spares later collections those objects.
    """
    # gRPC's C core would write lines of its own between those of the log: one for each client that TLS turns
    # away. It looks when it is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    modules: dict[str, Any] = sys.modules
    hidden = [name for name in _NOT_NEEDED if name not in modules]
    modules.update(dict.fromkeys(hidden))  # makes their import fail
    gc.disable()
    try:
        yield
    finally:
        for name in hidden:
            del modules[name]
        gc.freeze()
        gc.enable()
