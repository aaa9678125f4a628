"""What a URI costs its queue's budget (Heritrix 2.5).

The cost is computed once, when the URI is queued, and charged when it is finished.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

# Heritrix's AntiCalendarCostAssignmentPolicy: words of dates, in any place; years of 1900 to 2099.
_CALENDAR = re.compile(
    r"calendar|calendrier|viewcal|year|yr=|month|day|date|jour|event|[^0-9](?:19|20)[0-9][0-9][^0-9]",
    re.IGNORECASE | re.ASCII,
)


def _zero(text: str, via: str) -> int:
    """Nothing: budgets never run out, except by penalties."""
    return 0


def _unit(text: str, via: str) -> int:
    """1, whatever the URI."""
    return 1


def _wag(text: str, via: str) -> int:
    """1; 2 with a query; 3 if the page it was found on is the same but for the query."""
    before, mark, _ = text.partition("?")
    if not mark:
        return 1
    return 3 if via.startswith(before) else 2


def _anti_calendar(text: str, via: str) -> int:
    """1; 2 if something in the URI suggests a calendar."""
    return 2 if _CALENDAR.search(text) else 1


POLICIES: Mapping[str, Callable[[str, str], int]] = MappingProxyType(
    {"zero": _zero, "unit": _unit, "wag": _wag, "anti-calendar": _anti_calendar}
)
"""By name: the cost of a canonical URI that was found on another (`via`, "" for none)."""
