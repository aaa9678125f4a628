"""`toehold`, and `python -m toehold_client`: the program's first step."""

import gc
import signal
import sys
from typing import NoReturn

_CTRL_C = (signal.SIGINT,)


def main() -> NoReturn:
    """Imports the program and runs it; Ctrl-C while it is being imported ends it as at any other time.

    Imports make objects by the hundred thousand, and hardly any garbage: none is looked for meanwhile.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _CTRL_C)  # raised inside an import it may become any error
    gc.disable()
    from .cli.main import main as toehold

    gc.freeze()
    gc.enable()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _CTRL_C)
    except KeyboardInterrupt:
        sys.exit(130)
    toehold()


if __name__ == "__main__":
    main()
