"""A small model of a log in an object store, and a search through all that its owners can do to one another.

Each step is one request of one owner, which takes effect at once; what an owner knows is what its requests
have shown it. An owner may stand still between any two of them, or for ever. The model follows
`frontier_server/replicated/object_log.py`. A change that an owner appends is a bit, and a checkpoint the sum
of what its owner knew.

A loss is one of these:

* A change that was acknowledged before an owner made its fence, or by an earlier owner at any time, is not
  among what the owner then reads.
* A change is acknowledged, and a later owner has read the log without it.
* A record that an owner must read is not there, and nobody has come after it.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple


class Rules(NamedTuple):
    """What keeps a log whole."""

    looks_again: bool = True
    """An opener that finds a later record than its fence begins anew."""
    keeps_fences: bool = True
    """Fences are never deleted."""
    checks_what_was_read: bool = True
    """An owner that has read the log looks whether it still owns it: otherwise a later one may have deleted
    something, and a late request of an opener may have made a fence in its place."""


ALL_RULES = Rules()


class Bounds(NamedTuple):
    """How much there is of all."""

    owners: int
    places: int
    changes: int  # of each owner
    answers_are_lost: bool = False
    """Whoever asked does not know what has happened, and asks again."""
    requests_are_late: bool = False
    """One request takes effect at some later time; its sender hears nothing, or has sent it again."""


class Step(IntEnum):
    """What an owner does next."""

    LIST = 0
    LOOK = 1  # at the newest record
    FENCE = 2
    COMPARE = 3
    READ = 4
    CHECK = 5
    OWN = 6  # append, write a manifest, or delete
    APPEND = 7  # again, as there was no answer
    MARK = 8  # write the manifest again
    END = 9


class Owner(NamedTuple):
    """An owner of the log, or somebody who is about to become one."""

    step: Step = Step.LIST
    number: int = 0  # the place of its fence
    base: int = 0  # the last manifest that it knows
    due: int = 0  # what was acknowledged when it made its fence
    known: int = 0  # what it has read and appended
    is_whole: bool = True  # whether it has found all records
    appended: int = 0
    manifest: int = 0  # the place of its own
    has_plan: bool = False
    gone: int = 0  # the places that it has still to delete, as bits


NEW = Owner()


class Kind(IntEnum):
    """What a record is."""

    FENCE = 0
    CHANGE = 1
    MANIFEST = 2


class Record(NamedTuple):
    """A record. Those of two owners are never the same: fences have nonces, and later ones epochs."""

    kind: Kind
    maker: int
    epoch: int
    base: int
    changes: int


class State(NamedTuple):
    """All that is."""

    records: tuple[int, ...]  # at each place a number of the model's table of records; 0: none
    acknowledged: int
    late: tuple[int, int]  # a request on its way: a place and a record
    was_late: bool
    owners: tuple[Owner, ...]


class Loss(Exception):
    """What was lost."""


class Model:
    """What can happen."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self._bounds, self._rules = bounds, rules
        self._table: list[Record | None] = [None]
        self._numbers: dict[Record, int] = {}
        self._owner: dict[Owner, Owner] = {NEW: NEW}
        self._owners: dict[tuple[Owner, ...], tuple[Owner, ...]] = {}
        self._places: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.first = State((0,) * (bounds.places + 2), 0, (0, 0), False, (NEW,) * bounds.owners)

    def moves(self, state: State) -> Iterator[State]:
        """All states that the next request can lead to. Raises Loss."""
        if state.late[0]:
            yield self._arrived(state)
        new_before = False
        for who, owner in enumerate(state.owners):
            if owner is NEW:
                if new_before:
                    continue  # those who have not begun are alike
                new_before = True
            yield from _MOVES[owner.step](self, state, who, owner)

    def told(self, before: State, after: State) -> str:
        """What has happened between two states, for people."""
        changed = [
            f"{at}: {self._record(before.records[at])} becomes {self._record(after.records[at])}"
            for at in range(len(before.records))
            if before.records[at] != after.records[at]
        ]
        changed += [
            f"owner {who}: {old.step.name} becomes {new.step.name} ({new.number})"
            for who, (old, new) in enumerate(zip(before.owners, after.owners, strict=True))
            if old != new
        ]
        if before.acknowledged != after.acknowledged:
            changed.append(f"acknowledged: {after.acknowledged:b}")
        return "; ".join(changed)

    # Opening.

    def _list(self, state: State, who: int, owner: Owner) -> Iterator[State]:
        number = max((at for at, record in enumerate(state.records) if record), default=0) + 1
        if number <= self._bounds.places:
            yield self._with(state, who, Owner(Step.LOOK if number > 1 else Step.FENCE, number))

    def _look(self, state: State, who: int, owner: Owner) -> Iterator[State]:
        head = self._table[state.records[owner.number - 1]]
        if head is None:
            yield self._with(state, who, NEW)
        else:
            yield self._with(state, who, Owner(Step.FENCE, owner.number, head.base))

    def _fence(self, state: State, who: int, owner: Owner) -> Iterator[State]:
        is_there = state.records[owner.number] != 0  # then it may be ours, and `due` is of that moment
        due = owner.due if is_there else state.acknowledged
        made = owner._replace(step=Step.COMPARE if self._rules.looks_again else Step.READ, due=due)
        fence = Record(Kind.FENCE, who, owner.number, owner.base, 0)
        for after, answer in self._created(state, owner.number, fence):
            if answer is None:
                yield self._with(after, who, owner._replace(due=due))
            else:
                yield self._with(after, who, made if answer else NEW)

    def _compare(self, state: State, who: int, owner: Owner) -> Iterator[State]:
        is_last = not any(state.records[owner.number + 1 :])
        yield self._with(state, who, owner._replace(step=Step.READ) if is_last else NEW)

    def _read(self, state: State, who: int, owner: Owner) -> Iterator[State]:
        records = [self._table[state.records[at]] for at in range(owner.base or 1, owner.number)]
        known = 0
        for record in records:
            known |= record.changes if record is not None else 0
        is_whole = None not in records
        yield self._with(state, who, owner._replace(step=Step.CHECK, known=known, is_whole=is_whole))

    def _confirm(self, state: State, who: int, owner: Owner) -> Iterator[State]:
        if self._rules.checks_what_was_read and state.records[owner.number + 1]:
            yield self._with(state, who, Owner(Step.END))  # somebody has come after it
            return
        if not owner.is_whole:
            raise Loss(f"owner {who} does not find a record")
        must = owner.due
        for other_who, other in enumerate(state.owners):
            if other.step >= Step.OWN and other.number < owner.number:
                must |= state.acknowledged & self._changes_of(other_who)
        if must & ~owner.known:
            raise Loss(f"owner {who} reads {owner.known:b} and not {must & ~owner.known:b}")
        yield self._with(state, who, owner._replace(step=Step.OWN, due=0))

    # Owning.

    def _own(self, state: State, who: int, owner: Owner) -> Iterator[State]:
        yield from self._append(state, who, owner)
        if not owner.manifest:
            yield from self._mark(state, who, owner)
        elif not owner.has_plan:
            yield self._planned(state, who, owner)
        elif owner.gone:
            yield self._deleted(state, who, owner)

    def _append(self, state: State, who: int, owner: Owner) -> Iterator[State]:
        place = owner.number + 1 + owner.appended + bool(owner.manifest)
        if owner.appended == self._bounds.changes or place > self._bounds.places:
            return
        change = 1 << who * self._bounds.changes + owner.appended
        record = Record(Kind.CHANGE, who, owner.number, owner.base, change)
        for after, answer in self._created(state, place, record):
            if answer is None:
                yield self._with(after, who, owner._replace(step=Step.APPEND))
            elif answer:
                self._check(state, owner, change)
                known, appended = owner.known | change, owner.appended + 1
                now = owner._replace(step=Step.OWN, known=known, appended=appended)
                yield self._with(after, who, now, change)
            else:
                yield self._with(after, who, _ended(owner))

    @staticmethod
    def _check(state: State, owner: Owner, change: int) -> None:
        """That no later owner has read the log without a change."""
        for who, other in enumerate(state.owners):
            if other.step >= Step.OWN and other.number > owner.number and not other.known & change:
                raise Loss(f"{change:b} is acknowledged, and owner {who} has read the log without it")

    def _mark(self, state: State, who: int, owner: Owner) -> Iterator[State]:
        place = owner.number + 1 + owner.appended
        if place > self._bounds.places:
            return
        record = Record(Kind.MANIFEST, who, owner.number, place, owner.known)
        for after, answer in self._created(state, place, record):
            if answer is None:
                yield self._with(after, who, owner._replace(step=Step.MARK))
            elif answer:
                yield self._with(after, who, owner._replace(step=Step.OWN, base=place, manifest=place))
            else:
                yield self._with(after, who, _ended(owner))

    def _planned(self, state: State, who: int, owner: Owner) -> State:
        """Choose what to delete: one record of a row without gaps tells its whole epoch."""
        gone, at = 0, owner.manifest - 1
        while at:
            record = self._table[state.records[at]]
            if record is None:
                at -= 1
                continue
            first = min(record.epoch + 1, at)
            is_kept = record.kind is Kind.FENCE and self._rules.keeps_fences
            while at >= first and state.records[at]:
                gone |= 0 if is_kept else 1 << at
                at -= 1
        return self._with(state, who, owner._replace(has_plan=True, gone=gone))

    def _deleted(self, state: State, who: int, owner: Owner) -> State:
        lowest = owner.gone & -owner.gone
        after = state._replace(records=_replaced(state.records, lowest.bit_length() - 1, 0))
        return self._with(after, who, owner._replace(gone=owner.gone - lowest))

    # Requests.

    def _created(self, state: State, place: int, record: Record) -> Iterator[tuple[State, bool | None]]:
        """What a request to create a record may lead to, and what its sender is told: whether it is there;
        None if nothing."""
        number = self._number(record)
        there = state.records[place]
        if there:
            yield state, there == number
            return
        made = state._replace(records=_replaced(state.records, place, number))
        yield made, True
        if self._bounds.answers_are_lost:
            yield made, None
        if self._bounds.requests_are_late and not state.was_late:
            yield made._replace(late=(place, number), was_late=True), True
            yield state._replace(late=(place, number), was_late=True), None

    def _arrived(self, state: State) -> State:
        """A late request takes effect."""
        place, number = state.late
        state = state._replace(late=(0, 0))
        if state.records[place]:
            return state
        state = state._replace(records=_replaced(state.records, place, number))
        record = self._table[number]
        assert record is not None
        owner = state.owners[record.maker]
        if record.kind is Kind.FENCE and owner.step is Step.FENCE and owner.number == place:
            return self._with(state, record.maker, owner._replace(due=state.acknowledged))
        return state

    def _number(self, record: Record) -> int:
        number = self._numbers.get(record)
        if number is None:
            number = self._numbers[record] = len(self._table)
            self._table.append(record)
        return number

    def _record(self, number: int) -> str:
        record = self._table[number]
        return "nothing" if record is None else f"{record.kind.name} of {record.maker} ({record.changes:b})"

    def _changes_of(self, who: int) -> int:
        return ((1 << self._bounds.changes) - 1) << who * self._bounds.changes

    def _with(self, state: State, who: int, owner: Owner, acknowledged: int = 0) -> State:
        """A state in which an owner has become another one. Equal parts of states are kept once."""
        owner = self._owner.setdefault(owner, owner)
        owners = (*state.owners[:who], owner, *state.owners[who + 1 :])
        return State(
            self._places.setdefault(state.records, state.records),
            state.acknowledged | acknowledged,
            state.late,
            state.was_late,
            self._owners.setdefault(owners, owners),
        )


_MOVES: dict[Step, Callable[[Model, State, int, Owner], Iterator[State]]] = {
    Step.LIST: Model._list,
    Step.LOOK: Model._look,
    Step.FENCE: Model._fence,
    Step.COMPARE: Model._compare,
    Step.READ: Model._read,
    Step.CHECK: Model._confirm,
    Step.OWN: Model._own,
    Step.APPEND: Model._append,
    Step.MARK: Model._mark,
    Step.END: lambda *_: iter(()),
}


def _ended(owner: Owner) -> Owner:
    return Owner(Step.END, owner.number, known=owner.known)


def _replaced(records: tuple[int, ...], place: int, number: int) -> tuple[int, ...]:
    return (*records[:place], number, *records[place + 1 :])


class Searched(NamedTuple):
    """What a search has found."""

    states: int
    loss: str  # empty: there is none
    way: list[str]  # to the loss, one of the shortest


def search(bounds: Bounds, rules: Rules = ALL_RULES) -> Searched:
    """Go through all states, until there is a loss or none is left."""
    model = Model(bounds, rules)
    came_from: dict[State, State | None] = {model.first: None}
    edge = [model.first]
    while edge:
        reached: list[State] = []
        for state in edge:
            try:
                for after in model.moves(state):
                    if after not in came_from:
                        came_from[after] = state
                        reached.append(after)
            except Loss as loss:
                return Searched(len(came_from), str(loss), _way(model, came_from, state))
        edge = reached
    return Searched(len(came_from), "", [])


def _way(model: Model, came_from: dict[State, State | None], state: State) -> list[str]:
    steps: list[str] = []
    while (before := came_from[state]) is not None:
        steps.append(model.told(before, state))
        state = before
    return steps[::-1]
