"""`toehold-node`, and `python -m crawler_node`: the program's first step."""

import gc
import sys
from typing import Any

_COLOURS = "rich"


def main() -> None:
    """Import the program in as little time as possible, and run it.

    Imports make objects by the hundred thousand, and hardly any garbage: looking for some costs a quarter of
    the time, and is pointless later, too.
    """
    gc.disable()
    _import_structlog()
    from .program import main as work

    gc.freeze()
    gc.enable()
    work()


def _import_structlog() -> None:
    """structlog imports `rich` where it is there, a tenth of the start, to colour logs; ours are JSON."""
    modules: dict[str, Any] = sys.modules
    if _COLOURS in modules:
        return
    modules[_COLOURS] = None  # not to be had, for a moment
    try:
        import structlog  # noqa: F401  others find it imported
    finally:
        del modules[_COLOURS]


if __name__ == "__main__":
    main()
