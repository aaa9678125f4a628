"""The frontier machine: from the state asked for to the state reached.

It knows one crawl's counts in one shard, and nothing of the crawl machine
(`lifecycle`), which sends it numbered requests and hears what was reached, with
the number that it answers (D2).
"""

from enum import Enum


class Target(Enum):
    """What the frontier is asked to reach (Heritrix's Frontier.State)."""

    RUN = "RUN"
    PAUSE = "PAUSE"
    FINISH = "FINISH"


class Reached(Enum):
    """What it has reached."""

    RUN = "RUN"
    EMPTY = "EMPTY"
    PAUSE = "PAUSE"
    FINISH = "FINISH"


# target, whether leases are out, whether anything is left → reached; None: on the way.
TABLE: dict[tuple[Target, bool, bool], Reached | None] = {
    (Target.RUN, False, False): Reached.EMPTY,
    (Target.RUN, False, True): Reached.RUN,
    (Target.RUN, True, False): Reached.RUN,
    (Target.RUN, True, True): Reached.RUN,
    (Target.PAUSE, False, False): Reached.PAUSE,
    (Target.PAUSE, False, True): Reached.PAUSE,
    (Target.PAUSE, True, False): None,
    (Target.PAUSE, True, True): None,
    (Target.FINISH, False, False): Reached.FINISH,
    (Target.FINISH, False, True): Reached.FINISH,
    (Target.FINISH, True, False): None,
    (Target.FINISH, True, True): None,
}


def reached(target: Target, leases_out: int, left: bool, answered: bool) -> Reached | None:
    """What the counts say is reached. A request to run is first answered with RUN."""
    if target is Target.RUN and not answered:
        return Reached.RUN
    return TABLE[target, leases_out > 0, left]
