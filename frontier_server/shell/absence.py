"""How long the server could not answer: stopped (SIGSTOP, a paused machine), starved, or waiting for a disk.

Nodes are not to blame for heartbeats that the server could not receive. The runner answers itself
regularly; the time since its last answer shows how long it was away.
"""


class Absence:
    """Counts how long the server was away beyond a tolerated time."""

    def __init__(self, tolerated_ms: int, now_ms: int) -> None:
        self._tolerated_ms = tolerated_ms
        self._answered_ms = now_ms
        self._told_ms = 0

    def answered(self, now_ms: int) -> int:
        """An answer could leave just now: begin a new count. Returns the milliseconds of the last one."""
        told_ms, self._answered_ms, self._told_ms = self._told_ms, now_ms, 0
        return told_ms

    def more_ms(self, now_ms: int) -> int:
        """How much longer it has been away than the last call said; 0 while it is there."""
        away_ms = now_ms - self._answered_ms - self._tolerated_ms
        more = max(away_ms - self._told_ms, 0)
        self._told_ms += more
        return more
