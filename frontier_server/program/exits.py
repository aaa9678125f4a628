"""How the program ends: its exit codes, each with a message for people."""

import sys
from typing import NoReturn

EXIT_USAGE, EXIT_LISTEN, EXIT_DATA, EXIT_STORE, EXIT_DAMAGED, EXIT_IN_USE = 2, 3, 4, 5, 6, 7
EXIT_FENCED = 8
"""Another process owns the log of this member. The supervisor decides who serves it."""
EXIT_SPLIT = 9
"""A split has ended this member's generation of the cluster. The machine ends, too."""
HOPELESS = frozenset({EXIT_USAGE, EXIT_LISTEN, EXIT_DATA, EXIT_DAMAGED, EXIT_IN_USE})
"""Those that another start would end with, too."""


def end(code: int, message: str) -> NoReturn:
    """End the program with a message."""
    print(f"toehold-frontier: {message}", file=sys.stderr, flush=True)
    sys.exit(code)
