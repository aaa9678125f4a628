"""The frontier machine: from the state asked for to the state reached.

It knows one crawl's counts in one shard, and nothing of the crawl machine
(`lifecycle`), which sends it numbered requests and hears what was reached, with
the number that it answers (D2). A request that follows another replaces it, reached
or not; a FINISH is replaced by none, since the crawl machine has no way out of it (D3).
"""

from enum import Enum


class Target(Enum):
    """What the frontier is asked to reach (Heritrix's Frontier.State)."""

    RUN = "RUN"
    HOLD = "HOLD"
    PAUSE = "PAUSE"
    FINISH = "FINISH"


class Reached(Enum):
    """What it has reached."""

    RUN = "RUN"
    EMPTY = "EMPTY"
    HOLD = "HOLD"
    PAUSE = "PAUSE"
    FINISH = "FINISH"


# target, whether anything is in flight, whether anything is left → reached; None: on the way.
TABLE: dict[tuple[Target, bool, bool], Reached | None] = {
    (Target.RUN, False, False): Reached.EMPTY,
    (Target.RUN, False, True): Reached.RUN,
    (Target.RUN, True, False): Reached.RUN,
    (Target.RUN, True, True): Reached.RUN,
    (Target.HOLD, False, False): Reached.HOLD,
    (Target.HOLD, False, True): Reached.HOLD,
    (Target.HOLD, True, False): None,
    (Target.HOLD, True, True): None,
    (Target.PAUSE, False, False): Reached.PAUSE,
    (Target.PAUSE, False, True): Reached.PAUSE,
    (Target.PAUSE, True, False): None,
    (Target.PAUSE, True, True): None,
    (Target.FINISH, False, False): Reached.FINISH,
    (Target.FINISH, False, True): Reached.FINISH,
    (Target.FINISH, True, False): None,
    (Target.FINISH, True, True): None,
}


def reached(target: Target, in_flight: bool, left: bool, answered: bool) -> Reached | None:
    """What the counts say is reached. A request to run is first answered with RUN."""
    if target is Target.RUN and not answered:
        return Reached.RUN
    return TABLE[target, in_flight, left]
