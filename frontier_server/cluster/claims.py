"""Who serves which member of the frontier: a pure decision of each machine from what it sees of the others.

Each machine renews an object in the bucket. One whose object has not changed for `gone_s`, by the clock of
whoever looks, is gone. A member that no machine which is there holds is an orphan. Orphans go to the machines
that hold the fewest; ties are broken by a hash, so that machines which see the same decide the same. A
machine that holds clearly more than another one gives one back.

All of this may be wrong at any time: two machines may see different things. The log of a member lets only the
one that opened it last acknowledge anything. Two rules keep mistakes rare:

* A machine decides nothing before it has watched the others for `gone_s` without a pause. If it was frozen or
  cut off, it begins anew.
* After it was fenced, it rests before it claims the same member again, longer each time.
"""

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

CLEARLY_MORE = 2
SETTLE_S = 5.0  # after a machine has come or gone, before one gives members back
GIVE_BACK_S = 1.0  # between two members
FIRST_REST_S, LONGEST_REST_S = 2.0, 60.0  # after a claim that another machine has fenced
GOOD_HOLD_S = 30.0  # then the next rest is a short one again


class Notice(NamedTuple):
    """What a machine tells of itself."""

    holds: frozenset[str]
    """The members that it serves, or is about to."""
    is_leaving: bool = False
    """It stops: it takes none."""


class Plan(NamedTuple):
    """What a machine is to do."""

    claim: Collection[str] = ()
    give_back: str = ""


class Claims:
    """The decisions of one machine."""

    def __init__(self, machine: str, members: Iterable[str], gone_s: float) -> None:
        self._machine = machine
        self._members = sorted(members)
        self._gone_s = gone_s
        self._seen: dict[str, tuple[str, float, Notice]] = {}  # by machine: its tag, when that changed
        self._looked_s: float | None = None
        self._since_s = 0.0  # it has watched without a pause since then
        self._changed_s = 0.0  # when a machine came or went last
        self._there: frozenset[str] = frozenset()
        self._gave_back_s = 0.0
        self._rests: dict[str, tuple[float, float]] = {}  # by member: until when, and how long
        self._claimed_s: dict[str, float] = {}

    def look(self, machines: Mapping[str, tuple[str, Notice]], now_s: float) -> None:
        """Take in what all machines tell, each with a tag that is another one after each renewal."""
        if self._looked_s is None or now_s - self._looked_s > self._gone_s / 2:
            self._since_s = now_s  # nobody can be called silent who was not listened to
            self._seen.clear()
        self._looked_s = now_s
        for machine, (tag, notice) in machines.items():
            known = self._seen.get(machine)
            changed_s = now_s if known is None or known[0] != tag else known[1]
            self._seen[machine] = tag, changed_s, notice
        for machine in self._seen.keys() - machines.keys():
            del self._seen[machine]
        there = frozenset(self.there(now_s))
        if there != self._there:
            self._there, self._changed_s = there, now_s

    def there(self, now_s: float) -> list[str]:
        """The machines that are there, with this one."""
        return sorted(
            machine
            for machine, (_, changed_s, _) in self._seen.items()
            if machine == self._machine or now_s - changed_s < self._gone_s
        )

    def is_sure(self, now_s: float) -> bool:
        """Whether this machine has watched for long enough to decide."""
        looked_s = self._looked_s
        return (
            looked_s is not None
            and now_s - looked_s <= self._gone_s / 2
            and looked_s - self._since_s >= self._gone_s
        )

    def fenced(self, member: str, now_s: float) -> None:
        """Another machine has opened the log of a member that this one served, or was about to."""
        _, last_s = self._rests.get(member, (0.0, 0.0))
        if now_s - self._claimed_s.get(member, now_s) >= GOOD_HOLD_S:
            last_s = 0.0
        rest_s = min(max(2 * last_s, FIRST_REST_S), LONGEST_REST_S)
        self._rests[member] = now_s + rest_s, rest_s

    def plan(self, holds: Collection[str], now_s: float) -> Plan:
        """What to do, given what this machine holds now."""
        if not self.is_sure(now_s):
            return Plan()
        takers = [machine for machine in self.there(now_s) if not self._seen[machine][2].is_leaving]
        held = {machine: set(self._seen[machine][2].holds) for machine in self.there(now_s)}
        held[self._machine] = set(holds)
        taken = set[str]().union(*held.values())
        orphans = [member for member in self._members if member not in taken]
        loads = {machine: len(held[machine]) for machine in takers}
        claim: list[str] = []
        for member in sorted(orphans, key=_hash):
            if not loads:
                break
            taker = min(loads, key=lambda machine: (loads[machine], _hash(member + "/" + machine)))
            loads[taker] += 1
            if taker == self._machine and now_s >= self._rests.get(member, (0.0, 0.0))[0]:
                claim.append(member)
                self._claimed_s[member] = now_s
        if orphans or claim:
            return Plan(claim)
        return Plan(give_back=self._surplus(loads, holds, now_s))

    def _surplus(self, loads: Mapping[str, int], holds: Collection[str], now_s: float) -> str:
        """The member that this machine is to give back; empty for none."""
        if len(loads) < 2 or self._machine not in loads:
            return ""
        if now_s - self._changed_s < SETTLE_S or now_s - self._gave_back_s < GIVE_BACK_S:
            return ""
        most = max(loads, key=lambda machine: (loads[machine], machine))
        if most != self._machine or loads[most] - min(loads.values()) < CLEARLY_MORE:
            return ""
        self._gave_back_s = now_s
        return max(holds, key=lambda member: _hash(self._machine + "/" + member))


def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()
