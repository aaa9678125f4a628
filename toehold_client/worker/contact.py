"""Whether the frontier answers, as all calls of a worker see it together."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toehold_client.errors import ToeholdError

from .meaning import Meaning, meaning_of


class ContactLog:
    """What a worker's log says of its frontier, in the worker's own words; nothing where it has none."""

    def lost(self, error: ToeholdError) -> None:
        """The frontier does not answer any more."""

    def back(self, silent_s: float) -> None:
        """It answers again, after so long."""

    def denied(self, error: ToeholdError) -> None:
        """It does not let the worker call."""

    def allowed(self) -> None:
        """It lets the worker call again."""

    def busy(self, error: ToeholdError) -> None:
        """It does not take a call now, which is made again until it does. Told once a call."""

    def failed(self, error: ToeholdError) -> None:
        """It failed at a call, which is made again."""


class Contact:
    """Tells the log once when the frontier is lost, and once when it is back. Thread-safe."""

    def __init__(self, log: ContactLog, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.log = log
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._lost = self._denied = False
        self._answered_at_s = clock_s()

    def __repr__(self) -> str:
        state = "lost" if self._lost else "denied" if self._denied else "answering"
        return f"<Contact {state}, last answer {self._clock_s() - self._answered_at_s:.1f} s ago>"

    @contextmanager
    def noting(self) -> Iterator[None]:
        """A context for one call, whose end is noted."""
        try:
            yield
        except ToeholdError as error:
            self.note(error)
            raise
        self.note(None)

    def note(self, error: ToeholdError | None) -> None:
        """Notes how a call ended; None if as it should."""
        meaning = None if error is None else meaning_of(error)
        if meaning is Meaning.CLOSED:
            return
        with self._lock:
            was_lost, self._lost = self._lost, meaning is Meaning.SILENT
            was_denied = self._denied
            if meaning is None or meaning is Meaning.DENIED:  # other refusals do not tell
                self._denied = meaning is Meaning.DENIED
            is_denied, now_s = self._denied, self._clock_s()
            silent_s = now_s - self._answered_at_s
            if not self._lost:
                self._answered_at_s = now_s
        if error is not None and meaning is Meaning.SILENT and not was_lost:
            self.log.lost(error)
        if was_lost and meaning is not Meaning.SILENT:
            self.log.back(silent_s)
        if error is not None and is_denied and not was_denied:
            self.log.denied(error)
        if was_denied and not is_denied:
            self.log.allowed()

    def answered_at_s(self) -> float:
        """When it answered last, by the monotonic clock; before the first answer, when the worker began."""
        with self._lock:
            return self._answered_at_s
