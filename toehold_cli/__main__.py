"""The entry point of `toehold` and `python -m toehold_cli`."""

import gc
import os
import signal
import sys
from typing import NoReturn

from toehold_base.process.extras import packages_of

_CTRL_C = (signal.SIGINT,)


def main() -> NoReturn:
    """Imports the program and runs it. Ctrl-C during the imports ends it as at any other time.

    Imports make many objects but hardly any garbage, so the collector is off meanwhile.
    """
    signal.pthread_sigmask(
        signal.SIG_BLOCK, _CTRL_C
    )  # inside an import, KeyboardInterrupt may become any error
    # gRPC's C core would write a line of its own about each failed handshake. It looks when it is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    gc.disable()
    with packages_of("cli", "toehold"):
        from .main import main as toehold

    gc.freeze()
    gc.enable()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _CTRL_C)
    except KeyboardInterrupt:
        sys.exit(130)
    toehold()


if __name__ == "__main__":
    main()
