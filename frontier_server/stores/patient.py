"""Writes that wait out stalls: at a start before serving, and while a store is salvaged."""

import time

import structlog

from ..core.rows.store import Changes, WritableStore, WriteStalled

RETRY_S = 0.01
TELL_EVERY_S = 10.0

_log = structlog.get_logger()


def write_patiently(store: WritableStore, changes: Changes) -> None:
    """Apply a change list, and wait out stalls. Raises StoreFailed. May block for long."""
    told_s = 0.0
    while True:
        try:
            return store.write(changes)
        except WriteStalled as stall:
            if time.monotonic() >= told_s + TELL_EVERY_S:
                told_s = time.monotonic()
                _log.warning("write_stalled", problem=str(stall))
        time.sleep(RETRY_S)
