"""Signals to a node, and the end of its parent."""

import signal
import threading
from collections.abc import Callable

from toehold_base.observability import logs
from toehold_base.process.parent import watch_parent

from .process import NodeOptions

_END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LOG_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
SIGNALS = (*_END_SIGNALS, *_LOG_SIGNALS)
"""Block these before any thread starts."""


def watch(
    drain: Callable[[], None],
    orphaned: Callable[[], None],
    options: NodeOptions,
    pass_on: Callable[[signal.Signals], None],
) -> None:
    """Obeys signals, and the end of the parent, in threads of their own.

    `pass_on` gets the signals that change the log's level, for further processes.
    """

    def obey(number: signal.Signals) -> None:
        if number in _END_SIGNALS:
            drain()
            return
        logs.change_level("debug" if number is signal.SIGUSR1 else options.log_level)
        pass_on(number)

    threading.Thread(target=_watch_signals, args=(obey,), name="signals", daemon=True).start()
    if options.until_stdin_ends:
        watch_parent(orphaned)


def _watch_signals(obey: Callable[[signal.Signals], None]) -> None:
    # Python runs signal handlers in the main thread. That would sleep on if the system gave the signal to
    # another thread, or just before the main thread began to wait.
    while True:
        obey(signal.Signals(signal.sigwait(SIGNALS)))
