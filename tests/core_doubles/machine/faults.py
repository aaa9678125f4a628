"""Time, the timer, restarts, and crashes in the middle of anything."""

from core_doubles.machine.base import Base, step
from core_doubles.machine.choices import HOUR_MS
from core_doubles.model import reporting
from core_doubles.shell import PERIOD_MS
from hypothesis import strategies as st

LENGTHS_MS = (1, 100, 1_000, 3_000, 7_000, 20_000, PERIOD_MS, PERIOD_MS + 1, 2_500_000, 25 * HOUR_MS)


class Faults(Base):
    """What nobody asks for."""

    @step(length_ms=st.sampled_from(LENGTHS_MS))
    def pass_time(self, length_ms: int) -> None:
        """Time passes, and the timer is late."""
        self.shell.now_ms += length_ms

    @step(length_ms=st.sampled_from(LENGTHS_MS))
    def be_away(self, length_ms: int) -> None:
        """The server itself was away, and excuses its nodes for it."""
        self.shell.now_ms += length_ms
        self.shell.core.upkeep.excuse(length_ms, self.now_ms)
        self.model.now_ms = self.now_ms
        reporting.excused(self.model, length_ms)

    @step()
    def timer(self) -> None:
        """The timer is on time."""
        self.tick_when_due()

    @step()
    def tick_now(self) -> None:
        """The timer is early."""
        self.tick()

    @step()
    def restart(self) -> None:
        """The server is started anew."""
        self.shell.restart()
        self.restarted()

    @step()
    def crash_in_next_operation(self) -> None:
        """The next operation is worked on, but its changes are never written and its answer never leaves."""
        self.doomed = True
