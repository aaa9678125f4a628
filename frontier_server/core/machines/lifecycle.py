"""The crawl machine: a crawl's life as one table (Heritrix's CrawlController, S0).

Its inputs are an operator's requests, the end of seeding, limits, and what the
frontier machine (`target`) has reached.
"""

from dataclasses import dataclass
from enum import Enum

from ..errors import IllegalState
from .target import Target


class CrawlState(Enum):
    """S0.1; the contract's names."""

    NASCENT = "NASCENT"
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    EMPTY = "EMPTY"
    PAUSING = "PAUSING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    FINISHED = "FINISHED"


class ExitStatus(Enum):
    """S0.3; the contract's names."""

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
    """What the machine hears."""

    LAUNCH = "launch"
    RESUME = "resume"
    PAUSE = "pause"
    HOLD = "hold"
    STOP = "stop"
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
    """What an input leads to; None leaves a field as it is."""

    state: CrawlState | None = None
    exit_status: ExitStatus | None = None
    target: Target | None = None
    interrupts: bool = False  # nodes are told to break off what is in flight


_S, _I, _X = CrawlState, Input, ExitStatus
_STAY = Move()
_PAUSE = Move(_S.PAUSING, _X.WAITING_FOR_PAUSE, Target.PAUSE)
_HOLD = Move(_S.PAUSING, _X.WAITING_FOR_PAUSE, Target.HOLD)
_PAUSED = Move(_S.PAUSED, _X.PAUSED)
_STOP = Move(_S.STOPPING, _X.ABORTED, Target.FINISH)
_RUN = Move(_S.RUNNING, _X.RUNNING)
_RESUME = Move(target=Target.RUN)  # RUNNING only when the frontier says so (D13)
_TO_PAUSE, _TO_HOLD = Move(target=Target.PAUSE), Move(target=Target.HOLD)
_DOCUMENTS = Move(_S.STOPPING, _X.FINISHED_DOCUMENT_LIMIT, Target.FINISH)
_DATA = Move(_S.STOPPING, _X.FINISHED_DATA_LIMIT, Target.FINISH)
_TIME = Move(_S.STOPPING, _X.FINISHED_TIME_LIMIT, Target.FINISH)

# What is not here is illegal. _STAY: already so, or under way. A target that is asked for
# already is not asked for again (see `life.hear`).
TABLE: dict[tuple[CrawlState, Input], Move] = {
    (_S.NASCENT, _I.LAUNCH): Move(_S.PREPARING, _X.RUNNING),
    (_S.NASCENT, _I.STOP): Move(_S.FINISHED, _X.ABORTED, Target.FINISH),  # published (D14)
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
    (_S.RUNNING, _I.REACHED_EMPTY): Move(_S.EMPTY),  # published before STOPPING (D1)
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
    (_S.PAUSED, _I.REACHED_PAUSE): _STAY,  # from being held
    (_S.STOPPING, _I.STOP): Move(interrupts=True),  # S0.17
    (_S.STOPPING, _I.REACHED_FINISH): Move(_S.FINISHED),  # exit status as it was (S0.24)
    (_S.FINISHED, _I.STOP): _STAY,
}

CLOCK_RUNS = frozenset((_S.PREPARING, _S.RUNNING, _S.EMPTY, _S.PAUSING, _S.STOPPING))
ENDING = frozenset((_S.STOPPING, _S.FINISHED))


def move(state: CrawlState, given: Input, crawl: str) -> Move:
    """What an input leads to in a state. Raises IllegalState, naming the state."""
    try:
        return TABLE[state, given]
    except KeyError:
        allowed = ", ".join(sorted({s.value for s, i in TABLE if i is given}))
        raise IllegalState(
            f"crawl {crawl!r} is {state.value}; {given.value} is possible when it is {allowed}",
            crawl=crawl,
            state=state.value,
        ) from None
