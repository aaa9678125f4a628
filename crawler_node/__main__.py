"""`toehold-node`, and `python -m crawler_node`: the program's first step."""

import gc
import sys
from typing import Any

from toehold.extras import packages_of

_COLOURS = "rich"


def main() -> None:
    """Import the program in as little time as possible, and run it.

    Imports make objects by the hundred thousand and hardly any garbage, so collecting garbage would only cost
    a quarter of the time. It would find none later either, hence the freeze.
    """
    gc.disable()
    with packages_of("node", "toehold-node"):
        _import_structlog()
        from .program import main as work

    gc.freeze()
    gc.enable()
    work()


def _import_structlog() -> None:
    """Imports structlog without `rich`, a tenth of the start that only colours logs; ours are JSON."""
    modules: dict[str, Any] = sys.modules
    if _COLOURS in modules:
        return
    modules[_COLOURS] = None  # cannot be imported for a moment
    try:
        import structlog  # noqa: F401  later imports find it loaded
    finally:
        del modules[_COLOURS]


if __name__ == "__main__":
    main()
