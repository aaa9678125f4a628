"""The frontier machine: finds the state that a crawl's frontier has reached.

It knows one crawl's counts in one shard, and does not know the crawl machine
(`lifecycle`). That machine sends it numbered requests, and gets each reached state with the
number of its request. A new request replaces the last one, reached or not. After a FINISH
the crawl machine sends another only if the crawl is reopened.
"""

from enum import Enum


class Target(Enum):
    """The state that the frontier should reach (Heritrix's Frontier.State)."""

    RUN = "RUN"
    HOLD = "HOLD"
    PAUSE = "PAUSE"
    FINISH = "FINISH"


class Reached(Enum):
    """The state that the frontier has reached."""

    RUN = "RUN"
    EMPTY = "EMPTY"
    HOLD = "HOLD"
    PAUSE = "PAUSE"
    FINISH = "FINISH"


# target, whether leases are in flight, whether URIs are left → reached; None: on the way.
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
    """The state that the counts show. A request to run is first answered with RUN."""
    if target is Target.RUN and not answered:
        return Reached.RUN
    return TABLE[target, in_flight, left]
