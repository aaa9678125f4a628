"""`toehold`, and `python -m toehold_client`: the program's first step."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Imports the program and runs it; Ctrl-C while it is being imported ends it as at any other time."""
    try:
        from .cli import main as toehold
    except KeyboardInterrupt:
        sys.exit(130)
    toehold()


if __name__ == "__main__":
    main()
