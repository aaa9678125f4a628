"""`toehold-frontier` and `python -m frontier_server` start here."""

import gc
import sys
from typing import Any

from toehold.extras import packages_of

_COLOURS = "rich"


def main() -> None:
    """Import the program fast, and run it.

    Imports create hundreds of thousands of objects and hardly any garbage. Collecting garbage meanwhile
    would take a quarter of the time; `freeze` spares later collections those objects.
    """
    gc.disable()
    with packages_of("frontier", "toehold-frontier"):
        _import_structlog()
        from .program import main as serve

    gc.freeze()
    gc.enable()
    serve()


def _import_structlog() -> None:
    """Import structlog without `rich`, which colours logs and takes a tenth of the start; ours are JSON."""
    modules: dict[str, Any] = sys.modules
    if _COLOURS in modules:
        return
    modules[_COLOURS] = None  # makes its import fail
    try:
        import structlog  # noqa: F401  later imports find it
    finally:
        del modules[_COLOURS]


if __name__ == "__main__":
    main()
