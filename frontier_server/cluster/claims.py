"""Who serves which member of the frontier: a pure decision of each machine from what it sees of the others.

Each machine renews an object in the bucket. One whose object has not changed for `gone_s`, by the clock of
whoever looks, is gone. A member that no machine which is there holds is an orphan. Orphans go to the machines
that hold the fewest, in an order that is the same for all who see the same. A machine that holds more than
its share gives members back, one after the other.

All of this may be wrong at any time: two machines may see different things. The log of a member lets only the
one that opened it last acknowledge anything. These rules keep mistakes rare:

* A machine decides nothing before it has watched the others for `gone_s` without a pause. If it was frozen or
  cut off, it begins anew. While the bucket is slow, all these times are longer.
* It tells the others what it is about to serve, looks once more, and leaves alone what another one holds, or
  is about to serve, too. Of two that want the same, at least the later one learns so before it opens the log.
* After it was fenced, or could not serve a member, it refuses that member for some time, longer each time,
  and tells so. The member goes to another machine; and nobody gives members back for the sake of one that
  refuses some.
* An orphan that has waited for too long for the machine that should take it is taken by another one.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from hashlib import blake2b
from typing import NamedTuple

SLOW_LOOKS = 4  # of a slow bucket: a machine may be silent for so many
SETTLE_S = 5.0  # after a machine has come or gone, before one gives members back
GIVE_BACK_S = 1.0  # between two members
FENCED_REST_S, FAILED_REST_S, LONGEST_REST_S = 2.0, 20.0, 60.0
GOOD_HOLD_S = 30.0  # then the next rest is a short one again


class Notice(NamedTuple):
    """What a machine tells of itself."""

    holds: frozenset[str]
    """The members that it serves, or is about to."""
    is_leaving: bool = False
    """It stops: it takes none."""
    refuses: frozenset[str] = frozenset()
    """The members that it takes not now."""


class Plan(NamedTuple):
    """What a machine is to do."""

    claim: Collection[str] = ()
    """Tell these, look again, and serve those that are still free."""
    give_back: str = ""


class _Seen(NamedTuple):
    """A machine as it was found."""

    tag: str
    changed_s: float
    notice: Notice
    is_gone: bool = False
    """It was silent for too long, and has not renewed itself since, however patient one is by now."""


class Claims:
    """The decisions of one machine."""

    def __init__(
        self, machine: str, members: Iterable[str], gone_s: float, ordinal: tuple[int, int] | None = None
    ) -> None:
        """With an `ordinal`, which of how many machines this is, it serves its members whatever it sees."""
        self._machine = machine
        self._members = list(members)
        self._gone_s = gone_s
        self._patience_s = gone_s  # for how long a machine may be silent, at present
        self._fixed: list[str] | None = None
        if ordinal is not None:
            self._fixed = self._members[ordinal[0] :: ordinal[1]]
        self._seen: dict[str, _Seen] = {}
        self._looked_s: float | None = None
        self._since_s = 0.0  # it has watched without a pause since then
        self._has_watched = False  # for long enough, at some time since then
        self._changed_s = 0.0  # when a machine came or went last
        self._there: list[str] = []
        self._orphaned_s: dict[str, float] = {}  # by orphan: since when
        self._gave_back_s = 0.0
        self._rests: dict[str, tuple[float, float]] = {}  # by member: until when, and how long
        self._claimed_s: dict[str, float] = {}

    def look(self, machines: Mapping[str, tuple[str, Notice]], now_s: float, took_s: float = 0.0) -> None:
        """Take in what all machines tell, each with a tag that is another one after each renewal. A renewal
        and the look took so long: where the bucket is slow, it is slow for the others, too."""
        passed_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        self._patience_s = max(self._gone_s, SLOW_LOOKS * took_s, self._patience_s - passed_s)
        if self._looked_s is None or passed_s > self._patience_s / 2:
            self._since_s = now_s  # nobody can be called silent who was not listened to
            self._has_watched = False
            self._seen.clear()
            self._orphaned_s.clear()
        self._looked_s = now_s
        self._has_watched = self._has_watched or now_s - self._since_s >= self._patience_s
        before, self._seen = self._seen, {}
        for machine, (tag, notice) in machines.items():
            known = before.get(machine)
            if known is None or known.tag != tag:
                self._seen[machine] = _Seen(tag, now_s, notice)
            else:
                self._seen[machine] = known._replace(notice=notice)
        self._note_gone(now_s)
        there = self.there(now_s)
        if there != self._there:
            self._there, self._changed_s = there, now_s

    def _note_gone(self, now_s: float) -> None:
        """Let machines that are gone stay so: what is done about that takes time, and may take more patience
        than one had when they were given up."""
        there = self.there(now_s)
        for machine in self._seen.keys() - there:
            self._seen[machine] = self._seen[machine]._replace(is_gone=True)

    def there(self, now_s: float) -> list[str]:
        """The machines that are there, with this one."""
        return sorted(
            machine
            for machine, seen in self._seen.items()
            if machine == self._machine or not (seen.is_gone or now_s - seen.changed_s >= self._patience_s)
        )

    def gone(self, silent_s: float, now_s: float) -> list[str]:
        """The machines that this one has watched without a pause, and that have been silent for so long."""
        return [
            machine
            for machine, seen in self._seen.items()
            if machine != self._machine and now_s - seen.changed_s >= silent_s
        ]

    def is_sure(self, now_s: float) -> bool:
        """Whether this machine has watched for long enough to decide."""
        return (
            self._looked_s is not None
            and self._has_watched
            and now_s - self._looked_s <= self._patience_s / 2
        )

    def is_free(self, member: str, now_s: float) -> bool:
        """Whether this machine may open a member: none of the others holds it, or is about to."""
        if self._fixed is not None:
            return True
        return self.is_sure(now_s) and not any(
            member in self._seen[machine].notice.holds
            for machine in self.there(now_s)
            if machine != self._machine
        )

    def fenced(self, member: str, now_s: float) -> None:
        """Another machine has opened the log of a member that this one served, or was about to."""
        self._rest(member, FENCED_REST_S, now_s)

    def failed(self, member: str, now_s: float) -> None:
        """This machine cannot serve a member."""
        self._rest(member, FAILED_REST_S if self._fixed is None else FENCED_REST_S, now_s)

    def _rest(self, member: str, first_s: float, now_s: float) -> None:
        _, last_s = self._rests.get(member, (0.0, 0.0))
        if now_s - self._claimed_s.get(member, now_s) >= GOOD_HOLD_S:
            last_s = 0.0
        rest_s = min(max(2 * last_s, first_s), LONGEST_REST_S)
        self._rests[member] = now_s + rest_s, rest_s

    def refuses(self, now_s: float) -> list[str]:
        """The members that this machine does not take for now."""
        return [member for member, (until_s, _) in self._rests.items() if now_s < until_s]

    def plan(self, holds: Collection[str], serving: Collection[str], now_s: float) -> Plan:
        """What to do, given what this machine holds now, and what of that it may give back."""
        if self._fixed is not None:
            refused = self.refuses(now_s)
            claim = [member for member in self._fixed if member not in holds and member not in refused]
        elif self.is_sure(now_s):
            self._note_gone(now_s)
            there = {machine: self._seen[machine].notice for machine in self.there(now_s)}
            there[self._machine] = Notice(frozenset(holds), refuses=frozenset(self.refuses(now_s)))
            return self._shared(there, serving, now_s)
        else:
            return Plan()
        return self._claiming(claim, now_s)

    def _claiming(self, claim: Collection[str], now_s: float) -> Plan:
        self._claimed_s.update(dict.fromkeys(claim, now_s))
        return Plan(tuple(claim))

    def _shared(self, there: Mapping[str, Notice], serving: Collection[str], now_s: float) -> Plan:
        """What to do, given all that are there."""
        takers = {machine: notice for machine, notice in there.items() if not notice.is_leaving}
        held = frozenset[str]().union(*(notice.holds for notice in there.values()))
        orphans = sorted((member for member in self._members if member not in held), key=_hash)
        self._orphaned_s = {member: self._orphaned_s.get(member, now_s) for member in orphans}
        loads = {machine: len(notice.holds) for machine, notice in takers.items()}
        claim = _assigned(orphans, takers, loads).get(self._machine, [])
        claim += [member for member in self._overdue(loads, now_s) if member not in claim]
        refused = takers[self._machine].refuses
        claim = [member for member in claim if member not in refused]
        if claim:
            return self._claiming(claim, now_s)
        if now_s - self._changed_s < SETTLE_S or now_s - self._gave_back_s < GIVE_BACK_S:
            return Plan()
        sound = {machine: load for machine, load in loads.items() if not takers[machine].refuses}
        if not serving or self._machine not in sound or sound[self._machine] <= _share(self._machine, sound):
            return Plan()
        self._gave_back_s = now_s
        return Plan(give_back=max(serving, key=lambda member: _hash(f"{self._machine}/{member}")))

    def _overdue(self, loads: Mapping[str, int], now_s: float) -> Iterable[str]:
        """The orphans that this machine is to take because those before it have not."""
        place = _ordered(loads).index(self._machine)
        late_s = self._patience_s * (1.5 + place / 5)
        return [member for member, since_s in self._orphaned_s.items() if now_s - since_s >= late_s]


def _assigned(
    orphans: Iterable[str], takers: Mapping[str, Notice], loads: dict[str, int]
) -> dict[str, list[str]]:
    """The orphans that each machine should take; adds them to the loads."""
    assigned: dict[str, list[str]] = {}
    queue = [(load, _hash(machine), machine) for machine, load in loads.items()]
    heapq.heapify(queue)
    for member in orphans:
        refusing = []
        while queue and member in takers[queue[0][2]].refuses:
            refusing.append(heapq.heappop(queue))
        if queue:
            load, order, machine = queue[0]
            heapq.heapreplace(queue, (load + 1, order, machine))
            loads[machine] = load + 1
            assigned.setdefault(machine, []).append(member)
        for each in refusing:
            heapq.heappush(queue, each)
    return assigned


def _share(machine: str, loads: Mapping[str, int]) -> int:
    """How many members a machine should hold. Where the shares cannot be equal, those that hold the most keep
    one more."""
    least, more = divmod(sum(loads.values()), len(loads))
    return least + ((*reversed(_ordered(loads)),).index(machine) < more)


def _ordered(loads: Mapping[str, int]) -> list[str]:
    """The machines, and first those that hold the fewest."""
    return sorted(loads, key=lambda machine: (loads[machine], _hash(machine)))


@cache
def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()
