"""How long a host rests after an answer: as in Heritrix, and after 429, 503 and Retry-After.

A host that leaves different URIs in a row without an answer rests, too: then not the URIs are at fault.
"""

from typing import NamedTuple

from ..spec.settings import PolitenessSettings
from ..uri.assign import HASH_BYTES, hash64
from .disposition import NO_ANSWER, OVERLOADED, PROTOCOL_ERROR, grown

USUAL_STRAIN = 100  # percent of the usual rest
MAX_STRAIN = 6_400
LEAST_STRAINED_MS = 250  # what a strained host's rest counts as, at least, before it is multiplied
SLOW = 4  # times the usual duration
MAX_UNANSWERED = 3  # different URIs in a row that a host may leave without an answer before it rests
_POLITENESS = "politeness, "
_FAILED = frozenset((-2, -3, -4))  # the host did not answer


class Rest(NamedTuple):
    """A rest after a fetch, and the setting that decided it."""

    ms: int
    setting: str  # `min_delay_seconds = 3`

    @property
    def reason(self) -> str:
        """Why a host rests, as it is stored and told."""
        return f"{_POLITENESS}{self.setting}"


def setting_in(reason: str) -> str:
    """The setting in the reason of a rest; empty if it is a rest for another reason than politeness."""
    return reason.removeprefix(_POLITENESS) if reason.startswith(_POLITENESS) else ""


def rest_after(
    duration_ms: int, crawl_delay_ms: int, politeness: PolitenessSettings, strain: int = USUAL_STRAIN
) -> Rest:
    """The rest after a fetch: by the delay factor, within bounds, or the Crawl-delay if that is longer.

    An adaptive rest grows with the host's strain, up to the same bound.
    """
    own, setting = politeness.delay_factor * duration_ms, ""
    if own <= politeness.min_delay_ms:
        own, setting = (
            float(politeness.min_delay_ms),
            f"min_delay_seconds = {politeness.min_delay_ms / 1000:g}",
        )
    if politeness.adaptive and strain > USUAL_STRAIN:
        own = max(own, LEAST_STRAINED_MS) * strain / USUAL_STRAIN
        setting = f"adaptive, {strain / USUAL_STRAIN:.1f} times the usual rest"
    if own > politeness.max_delay_ms:
        own, setting = (
            float(politeness.max_delay_ms),
            f"max_delay_seconds = {politeness.max_delay_ms / 1000:g}",
        )
    asked_ms = min(crawl_delay_ms, politeness.max_crawl_delay_ms)
    if asked_ms > own:
        return Rest(asked_ms, f"Crawl-delay = {asked_ms / 1000:g}")
    return Rest(int(own), setting or f"delay_factor = {politeness.delay_factor:g}")


def strain_after(strain: int, usual_ms: int, status: int, duration_ms: int) -> tuple[int, int]:
    """A host's strain and its usual duration of an answer, after another fetch."""
    if status in _FAILED or status >= 500 or status in OVERLOADED:
        return min(2 * strain, MAX_STRAIN), usual_ms
    if status <= 0:
        return strain, usual_ms  # says nothing of the host
    slow = usual_ms > 0 and duration_ms > SLOW * usual_ms
    usual_ms = usual_ms + (duration_ms - usual_ms) // 8 if usual_ms else max(duration_ms, 1)
    if slow:
        return min(2 * strain, MAX_STRAIN), max(usual_ms, 1)
    return max(strain * 4 // 5, USUAL_STRAIN), max(usual_ms, 1)


def overloads_after(status: int, overloads: int) -> int:
    """How many 429s and 503s in a row a host has given, including this answer.

    A status that is not HTTP's does not change the count.
    """
    if status in OVERLOADED:
        return overloads + 1
    return 0 if status > 0 else overloads


def unanswered_after(status: int, unanswered: bytes, uri: str) -> bytes:
    """The hashes of the last different URIs that a host has left without an answer in a row.

    `uri` is the one just asked for. A status that tells nothing of the host's answers changes nothing, and so
    does a URI that is among the last.
    """
    if status > 0 or status == PROTOCOL_ERROR:
        return b""
    if status not in NO_ANSWER:
        return unanswered
    asked, places = hash64(uri), range(0, len(unanswered), HASH_BYTES)
    if asked in [unanswered[at : at + HASH_BYTES] for at in places]:
        return unanswered
    return (unanswered + asked)[-MAX_UNANSWERED * HASH_BYTES :]


def is_silent(unanswered: bytes) -> bool:
    """Whether a host that left these URIs without an answer rests after each further one."""
    return len(unanswered) >= MAX_UNANSWERED * HASH_BYTES


def overload_rest_ms(overloads: int, retry_after_ms: int, politeness: PolitenessSettings) -> int:
    """The rest after the last of so many 429s and 503s in a row."""
    own = grown(politeness.overload_delay_ms, 2, overloads - 1, politeness.max_overload_delay_ms)
    return max(int(own), min(retry_after_ms, politeness.max_overload_delay_ms))
