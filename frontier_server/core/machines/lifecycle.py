"""The crawl machine: a crawl's life as one table (Heritrix's CrawlController).

Its inputs are the operators' requests, the end of seeding, limits, problems, and the states
that the frontier machine (`target`) reaches.
"""

from dataclasses import dataclass
from enum import Enum

from ..rows.errors import IllegalState
from .target import Target


class CrawlState(Enum):
    """The states of a crawl; the contract's names."""

    NASCENT = "NASCENT"
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    EMPTY = "EMPTY"
    PAUSING = "PAUSING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    FINISHED = "FINISHED"


class ExitStatus(Enum):
    """How a crawl ended, or its present course; the contract's names."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    WAITING_FOR_PAUSE = "WAITING_FOR_PAUSE"
    PAUSED = "PAUSED"
    FINISHED = "FINISHED"
    ABORTED = "ABORTED"
    FINISHED_DOCUMENT_LIMIT = "FINISHED_DOCUMENT_LIMIT"
    FINISHED_DATA_LIMIT = "FINISHED_DATA_LIMIT"
    FINISHED_TIME_LIMIT = "FINISHED_TIME_LIMIT"


class Input(Enum):
    """The inputs of the machine."""

    LAUNCH = "launch"
    RESUME = "resume"
    PAUSE = "pause"
    HOLD = "hold"
    STOP = "stop"
    REOPEN = "reopen"
    REOPEN_TO_PAUSE = "reopen, to be paused"
    SEEDED = "all seeds announced"
    SEEDED_TO_PAUSE = "all seeds announced, to be paused"
    PROBLEM = "a problem"
    DOCUMENT_LIMIT = "document limit reached"
    DATA_LIMIT = "byte limit reached"
    TIME_LIMIT = "time limit reached"
    NOTHING_LEFT = "nothing left, and nobody wants to wait"
    REACHED_RUN = "frontier runs"
    REACHED_EMPTY = "frontier is empty"
    REACHED_HOLD = "frontier holds"
    REACHED_PAUSE = "frontier pauses"
    REACHED_FINISH = "frontier has finished"


@dataclass(frozen=True, slots=True)
class Move:
    """The effect of an input; None leaves a field as it is."""

    state: CrawlState | None = None
    exit_status: ExitStatus | None = None
    target: Target | None = None
    interrupts: bool = False  # nodes break off their fetches


_S, _I, _X = CrawlState, Input, ExitStatus
_STAY = Move()
_PAUSE = Move(_S.PAUSING, _X.WAITING_FOR_PAUSE, Target.PAUSE)
_HOLD = Move(_S.PAUSING, _X.WAITING_FOR_PAUSE, Target.HOLD)
_PAUSED = Move(_S.PAUSED, _X.PAUSED)
_STOP = Move(_S.STOPPING, _X.ABORTED, Target.FINISH)
_RUN = Move(_S.RUNNING, _X.RUNNING)
_RESUME = Move(target=Target.RUN)  # RUNNING only when the frontier machine reaches it
_TO_PAUSE, _TO_HOLD = Move(target=Target.PAUSE), Move(target=Target.HOLD)
_DOCUMENTS = Move(_S.STOPPING, _X.FINISHED_DOCUMENT_LIMIT, Target.FINISH)
_DATA = Move(_S.STOPPING, _X.FINISHED_DATA_LIMIT, Target.FINISH)
_TIME = Move(_S.STOPPING, _X.FINISHED_TIME_LIMIT, Target.FINISH)

# All other inputs are illegal. _STAY: already reached, or under way. A repeated request for the same target
# is not a new request (see `life.apply`).
TABLE: dict[tuple[CrawlState, Input], Move] = {
    (_S.NASCENT, _I.LAUNCH): Move(_S.PREPARING, _X.RUNNING),
    (_S.NASCENT, _I.STOP): Move(_S.FINISHED, _X.ABORTED, Target.FINISH),
    (_S.PREPARING, _I.SEEDED): Move(target=Target.RUN),
    (_S.PREPARING, _I.SEEDED_TO_PAUSE): _TO_PAUSE,
    (_S.PREPARING, _I.REACHED_RUN): _RUN,
    (_S.PREPARING, _I.REACHED_PAUSE): _PAUSED,
    (_S.PREPARING, _I.STOP): _STOP,
    (_S.RUNNING, _I.RESUME): _STAY,
    (_S.RUNNING, _I.PAUSE): _PAUSE,
    (_S.RUNNING, _I.HOLD): _HOLD,
    (_S.RUNNING, _I.PROBLEM): _PAUSE,
    (_S.RUNNING, _I.STOP): _STOP,
    (_S.RUNNING, _I.REACHED_EMPTY): Move(_S.EMPTY),  # its event comes before that of STOPPING
    (_S.RUNNING, _I.DOCUMENT_LIMIT): _DOCUMENTS,
    (_S.RUNNING, _I.DATA_LIMIT): _DATA,
    (_S.RUNNING, _I.TIME_LIMIT): _TIME,
    (_S.EMPTY, _I.RESUME): _STAY,
    (_S.EMPTY, _I.PAUSE): _PAUSE,
    (_S.EMPTY, _I.HOLD): _HOLD,
    (_S.EMPTY, _I.PROBLEM): _PAUSE,
    (_S.EMPTY, _I.STOP): _STOP,
    (_S.EMPTY, _I.REACHED_RUN): _RUN,
    (_S.EMPTY, _I.DOCUMENT_LIMIT): _DOCUMENTS,  # a limit may be lowered while it waits
    (_S.EMPTY, _I.DATA_LIMIT): _DATA,
    (_S.EMPTY, _I.TIME_LIMIT): _TIME,
    (_S.EMPTY, _I.NOTHING_LEFT): Move(_S.STOPPING, _X.FINISHED, Target.FINISH),
    (_S.PAUSING, _I.PAUSE): _TO_PAUSE,
    (_S.PAUSING, _I.HOLD): _TO_HOLD,
    (_S.PAUSING, _I.RESUME): _RESUME,
    (_S.PAUSING, _I.STOP): _STOP,
    (_S.PAUSING, _I.REACHED_RUN): _RUN,
    (_S.PAUSING, _I.REACHED_HOLD): _PAUSED,
    (_S.PAUSING, _I.REACHED_PAUSE): _PAUSED,
    (_S.PAUSED, _I.PAUSE): _TO_PAUSE,
    (_S.PAUSED, _I.HOLD): _TO_HOLD,
    (_S.PAUSED, _I.RESUME): _RESUME,
    (_S.PAUSED, _I.STOP): _STOP,
    (_S.PAUSED, _I.REACHED_RUN): _RUN,
    (_S.PAUSED, _I.REACHED_HOLD): _STAY,
    (_S.PAUSED, _I.REACHED_PAUSE): _STAY,  # it was held
    (_S.STOPPING, _I.STOP): Move(interrupts=True),
    (_S.STOPPING, _I.REACHED_FINISH): Move(_S.FINISHED),  # the exit status stays
    (_S.FINISHED, _I.STOP): _STAY,
    (_S.FINISHED, _I.REOPEN): Move(_S.PAUSED, _X.PAUSED, Target.RUN),
    (_S.FINISHED, _I.REOPEN_TO_PAUSE): Move(_S.PAUSED, _X.PAUSED, Target.PAUSE),
}

CLOCK_RUNS = frozenset((_S.PREPARING, _S.RUNNING, _S.EMPTY, _S.PAUSING, _S.STOPPING))
ENDING = frozenset((_S.STOPPING, _S.FINISHED))
_REQUESTED = {
    _I.LAUNCH: "launched",
    _I.RESUME: "resumed",
    _I.PAUSE: "paused",
    _I.HOLD: "held",
    _I.REOPEN: "reopened",
    _I.REOPEN_TO_PAUSE: "reopened",
}


def move(state: CrawlState, given: Input, crawl: str) -> Move:
    """The effect of an input in a state. Raises IllegalState, which names the state."""
    try:
        return TABLE[state, given]
    except KeyError:
        *most, last = sorted({s.value for s, i in TABLE if i is given})
        allowed = f"{', '.join(most)} or {last}" if most else last
        purpose = f"to be {_REQUESTED[given]}" if given in _REQUESTED else f"for the input `{given.value}`"
        raise IllegalState(
            f"crawl {crawl!r} is {state.value}; it must be {allowed} {purpose}",
            crawl=crawl,
            state=state.value,
        ) from None
