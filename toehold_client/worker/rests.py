"""How long a worker rests between its calls: tries of one that must be answered, polls, and heartbeats."""

from collections.abc import Callable

from toehold.frontier.v1.frontier_pb2 import NextResponse
from toehold_client.errors import RefusedForNow, ToeholdError
from toehold_client.rpc.retry import FIRST_REST_S, LONGEST_REST_S

from .contact import ContactLog
from .meaning import Meaning, meaning_of

CALL_TIMEOUT_S = 15.0
"""How long one call may take; a long poll may take as much longer as it asked to wait."""

DENIED_REST_S = 5.0
"""How long a worker waits after the frontier did not let it call, before it tries again."""

LONGEST_HEARTBEAT_REST_S = 5.0
"""The longest rest after a heartbeat that failed, whatever the frontier asks for: one that was started again
keeps a lease for one period only."""

MAX_FAILURES = 5
"""How often a call is made that fails for no named reason, before that counts as a refusal."""

SHORTEST_POLL_REST_S, LONGEST_POLL_REST_S = 0.05, 60.0
"""The rest between polls, within which the frontier may choose."""


class Abandoned(Exception):
    """This process has given up before the frontier answered."""


class Rests:
    """The growing rests between tries of one thing: from a tenth of a second to two."""

    FIRST_S = FIRST_REST_S
    LONGEST_S = LONGEST_REST_S
    LONGEST_ASKED_S = 60.0
    """The longest rest that a busy frontier may ask for."""

    def __init__(self) -> None:
        self._next_s = self.FIRST_S

    def next_s(self, asked_s: float = 0.0) -> float:
        """The next rest, at least `asked_s`."""
        rest_s = self._next_s
        self._next_s = min(2 * rest_s, self.LONGEST_S)
        return max(rest_s, min(asked_s, self.LONGEST_ASKED_S))

    def after_s(self, error: ToeholdError) -> float:
        """The next rest, as long as this error asks for."""
        if meaning_of(error) is Meaning.DENIED:
            return self.next_s(DENIED_REST_S)
        return self.next_s(error.retry_after_s if isinstance(error, RefusedForNow) else 0.0)


class Tries:
    """The tries of one call that must be answered, such as a report."""

    def __init__(self, log: ContactLog) -> None:
        self._log = log
        self._rests = Rests()
        self._failure_count = 0
        self._told_busy = False

    def rest_s(self, error: ToeholdError) -> float:
        """How long to rest before the next try. Raises the error if it is final, or Abandoned if this process
        has closed its client."""
        match meaning_of(error):
            case Meaning.SILENT | Meaning.DENIED:
                pass  # the contact tells it
            case Meaning.BUSY:
                if not self._told_busy:
                    self._log.busy(error)
                self._told_busy = True
            case Meaning.FAILED:
                self._failure_count += 1
                if self._failure_count == MAX_FAILURES:
                    raise error
                self._log.failed(error)
            case Meaning.CLOSED:
                raise Abandoned from error
            case _:
                raise error
        return self._rests.after_s(error)


class CallPace:
    """The pace of calls that go on whatever the frontier answers: polls and heartbeats.

    `refused` hears of refusals, after which the next call is made all the same.
    """

    def __init__(
        self, refused: Callable[[ToeholdError], None], longest_s: float = Rests.LONGEST_ASKED_S
    ) -> None:
        self._refused = refused
        self._longest_s = longest_s
        self._rests = Rests()

    def answered(self) -> None:
        """A call was answered, so rests begin short again."""
        self._rests = Rests()

    def rest_s(self, error: ToeholdError) -> float:
        """How long to rest after a call that failed. Raises SessionSuperseded, or Abandoned if this process
        has closed its client."""
        match meaning_of(error):
            case Meaning.SUPERSEDED:
                raise error
            case Meaning.CLOSED:
                raise Abandoned from error
            case meaning if meaning.passes:
                return min(self._rests.after_s(error), self._longest_s)
        self._refused(error)
        return Rests.LONGEST_S


def poll_rest_s(answer: NextResponse) -> float:
    """How long to rest after a poll that brought no lease."""
    asked_s = answer.retry_duration.ToTimedelta().total_seconds()
    return min(max(asked_s, SHORTEST_POLL_REST_S), LONGEST_POLL_REST_S)
