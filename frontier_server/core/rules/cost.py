"""The cost of a URI to its queue's budget.

It is computed once, when the URI is queued, and charged when the URI is finished.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

# Heritrix's AntiCalendarCostAssignmentPolicy: words of dates, anywhere; years from 1900 to 2099.
_CALENDAR = re.compile(
    r"calendar|calendrier|viewcal|year|yr=|month|day|date|jour|event|[^0-9](?:19|20)[0-9][0-9][^0-9]",
    re.IGNORECASE | re.ASCII,
)


def _zero(text: str, via: str) -> int:
    """0: only penalties use up budgets."""
    return 0


def _unit(text: str, via: str) -> int:
    """1."""
    return 1


def _wag(text: str, via: str) -> int:
    """1; 2 with a query; 3 if only the query differs from the page that it was found on."""
    before, mark, _ = text.partition("?")
    if not mark:
        return 1
    return 3 if via.startswith(before) else 2


def _anti_calendar(text: str, via: str) -> int:
    """1; 2 if the URI looks like a calendar's."""
    return 2 if _CALENDAR.search(text) else 1


POLICIES: Mapping[str, Callable[[str, str], int]] = MappingProxyType(
    {"zero": _zero, "unit": _unit, "wag": _wag, "anti-calendar": _anti_calendar}
)
"""By name: the cost of a canonical URI, given the URI that it was found on (`via`, "" for none)."""
