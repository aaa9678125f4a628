"""How long a host rests after an answer: as in Heritrix, and after 429, 503 and Retry-After."""

from ..spec.settings import PolitenessSettings
from .disposition import OVERLOADED, grown


def rest_ms(duration_ms: int, crawl_delay_ms: int, politeness: PolitenessSettings) -> int:
    """The rest after a fetch: by the delay factor, within bounds, or the Crawl-delay if that is longer."""
    own = min(max(politeness.delay_factor * duration_ms, politeness.min_delay_ms), politeness.max_delay_ms)
    return max(int(own), min(crawl_delay_ms, politeness.max_crawl_delay_ms))


def overloads_after(status: int, overloads: int) -> int:
    """How many 429s and 503s in a row a host has given, including this answer.

    A status that is not HTTP's does not change the count.
    """
    if status in OVERLOADED:
        return overloads + 1
    return 0 if status > 0 else overloads


def overload_rest_ms(overloads: int, retry_after_ms: int, politeness: PolitenessSettings) -> int:
    """The rest after the last of so many 429s and 503s in a row."""
    own = grown(politeness.overload_delay_ms, 2, overloads - 1, politeness.max_overload_delay_ms)
    return max(int(own), min(retry_after_ms, politeness.max_overload_delay_ms))
