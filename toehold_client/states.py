"""The states of a crawl, by name: `PAUSED` is CrawlState.CRAWL_STATE_PAUSED."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias, get_args

from toehold.frontier.v1.crawl_pb2 import CrawlState

from .errors import InvalidArgument

StateName: TypeAlias = Literal[
    "NASCENT", "PREPARING", "RUNNING", "EMPTY", "PAUSING", "PAUSED", "STOPPING", "FINISHED"
]
"""The name of a crawl's state."""

State: TypeAlias = "CrawlState.ValueType | StateName"
"""A state as methods take it: a value of the contract's CrawlState, or its name."""

_NAMES: tuple[StateName, ...] = get_args(StateName)
_BY_NAME = {name: CrawlState.Value(f"CRAWL_STATE_{name}") for name in _NAMES}


def states_of(given: State | Collection[State]) -> frozenset[CrawlState.ValueType]:
    """One state or several, as values of the contract. Raises InvalidArgument for anything else."""
    several = given if isinstance(given, Iterable) and not isinstance(given, str | bytes) else (given,)
    states = frozenset(map(_state_of, several))
    if not states:
        raise InvalidArgument(f"states must have at least one of {', '.join(_NAMES)}, got none")
    return states


def state_name(state: CrawlState.ValueType) -> str:
    """The state in one word: `RUNNING`."""
    known = state in CrawlState.values()
    return CrawlState.Name(state).removeprefix("CRAWL_STATE_") if known else str(state)


def _state_of(given: object) -> CrawlState.ValueType:
    for name, state in _BY_NAME.items():
        if given == name or (given == state and not isinstance(given, bool)):
            return state
    message = f"state must be one of {', '.join(_NAMES)}, got {given!r:.80}"
    if isinstance(given, str):
        near = difflib.get_close_matches(given[:80].upper().removeprefix("CRAWL_STATE_"), _NAMES, n=1)
        message += f"; did you mean {near[0]}?" if near else ""
    raise InvalidArgument(message)
