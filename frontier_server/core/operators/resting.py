"""Which hosts of a crawl rest, and why: counted per host, and grouped by the value that lets them rest.

With more than `MOST_LOOKED_AT` resting queues only a part of them is looked at, and the counts are estimates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..rules.politeness import setting_in
from ..state.crawl import Crawl
from ..state.queue import QueueState, WorkQueue

MOST_LOOKED_AT = 1_000
MOST_TOLD = 3  # groups
_ADAPTIVE = "adaptive"
_SETTINGS = {
    "min_delay_seconds": "politeness.min_delay_seconds",
    "max_delay_seconds": "politeness.max_delay_seconds",
    "delay_factor": "politeness.delay_factor",
    "Crawl-delay": "politeness.max_crawl_delay_seconds",
    _ADAPTIVE: "politeness.adaptive",
}


@dataclass(frozen=True, slots=True)
class Waiters:
    """The hosts that wait for the same reason."""

    reason: str
    hosts: Sequence[str]  # those that were looked at
    each: int  # how many hosts each of them stands for

    @property
    def setting(self) -> str:
        """The setting that lets them rest, as a spec file names it; empty for another reason."""
        name = setting_in(self.reason).partition(" = ")[0]
        return _SETTINGS.get(name.partition(",")[0], "")

    @property
    def count(self) -> int:
        """How many hosts they are."""
        return len(self.hosts) * self.each

    @property
    def text(self) -> str:
        """`2 hosts wait 0.3 s`, `a.example waits its Crawl-delay of 5 s`."""
        one = self.count == 1
        who = self.hosts[0] if one else f"{'about ' if self.each > 1 else ''}{self.count} hosts"
        wait, its = ("waits", "its") if one else ("wait", "their")
        name, _, value = setting_in(self.reason).partition(" = ")
        if name == "min_delay_seconds":
            return f"{who} {wait} {value} s"
        if name == "max_delay_seconds":
            return f"{who} {wait} {value} s, the longest delay"
        if name == "delay_factor":
            times = "" if value == "1" else f"{value} times "
            return f"{who} {wait} {times}as long as a fetch takes"
        if name == "Crawl-delay":
            return f"{who} {wait} {its} Crawl-delay of {value} s"
        if name.startswith(_ADAPTIVE):
            return f"{who} {wait} longer than usual ({name})"
        return f"{who} {'rests' if one else 'rest'} ({self.reason or 'no reason is known'})"


def sampled(crawl: Crawl) -> tuple[list[WorkQueue], int]:
    """Resting queues with URIs, among those in memory; and how many queues each of them stands for."""
    step = max(-(-len(crawl.queues.snoozed) // MOST_LOOKED_AT), 1)
    found = [
        queue
        for _, _, serial, queue in crawl.queues.snoozed[::step]
        if serial == queue.snooze_serial and queue.state is QueueState.SNOOZED and queue.row.count
    ]
    return found, step


def waiting(queues: Sequence[WorkQueue], each: int = 1) -> list[Waiters]:
    """The hosts of resting queues by reason, the most numerous first."""
    names: dict[str, dict[str, None]] = {}
    for queue in queues:
        names.setdefault(queue.rest_reason, {})[queue.row.host or queue.row.key] = None
    found = [Waiters(reason, list(hosts), each) for reason, hosts in names.items()]
    return sorted(found, key=lambda waiters: (-len(waiters.hosts), waiters.reason))


def waiting_text(found: Sequence[Waiters]) -> str:
    """`2 hosts wait 0.3 s, a.example waits its Crawl-delay of 5 s`."""
    told = [waiters.text for waiters in found[:MOST_TOLD]]
    more = sum([waiters.count for waiters in found[MOST_TOLD:]])
    if more:
        told.append(f"{more} more {'waits' if more == 1 else 'wait'} for other reasons")
    return ", ".join(told)
