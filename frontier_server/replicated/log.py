"""The log of a store: what a store of one machine is rebuilt from on another.

A log is a row of records with consecutive numbers. Opening it is the claim: the opener writes a *fence* as
the next record, and no earlier owner can append any more, whatever it believes, however long it was frozen.
The number of the fence is the *epoch* of the new owner. So whoever places stores on machines may be wrong at
any time: two may open a log, and the later one has it.

A *checkpoint* is a copy of the store, and its *manifest* a record that says where the copy's files are, and
from which record on the log goes beyond the copy. Records before the manifest before the last may be deleted,
but never fences: an earlier owner that wakes up would take the place of a missing one for its own next
record.

Every record has a digest, the id of the cluster, the name of the log, and the format. What does not fit is
refused, not believed.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, Protocol


class LogFailed(Exception):
    """The log cannot be used; the message says why, and what would be right."""


class Fenced(LogFailed):
    """Somebody else has opened the log since: nothing can be appended any more."""


class LogDamaged(LogFailed):
    """A record is missing, or is not what was written."""


class OtherCluster(LogFailed):
    """The log belongs to another cluster, or another log was put in its place."""


class LaterFormat(LogFailed):
    """A later version of Toehold has written the log."""


class GivenUp(LogFailed):
    """The caller was told to stop while the storage did not answer."""


class Kind(IntEnum):
    """What a record is."""

    FENCE = 1  # the beginning of an epoch
    CHANGES = 2
    MANIFEST = 3


class Record(NamedTuple):
    """A record as it was written."""

    number: int
    epoch: int
    kind: Kind
    base: int  # the last manifest before it, or itself; 0: none
    payload: bytes


class Log(Protocol):
    """A log. Its methods may block; call them one at a time, in any thread, but `give_up` at any time."""

    @property
    def epoch(self) -> int:
        """The number of this owner's fence; 0 before `open`."""

    @property
    def problem(self) -> str:
        """What the storage said last, while it does not answer; empty if it does."""

    def open(self) -> int:
        """Fence all earlier owners; the epoch. Raises LogFailed."""

    def append(self, payload: bytes) -> int:
        """Append changes; their number. They are durable, and the next owner reads them.

        While the storage does not answer, it tries again. Raises Fenced or LogFailed; then it is not known
        whether the record is there, and no other one may be appended.
        """

    def check(self) -> None:
        """Look whether the log is still this owner's. Raises Fenced if it is not, or LogFailed."""

    def read(self, start: int) -> Iterator[Record]:
        """All records from a number on that were written before this owner's fence, the fences among them.
        Raises LogFailed; Fenced, perhaps at the end only, if some may have been deleted by a later owner."""

    def set_checkpoint(self, payload: bytes) -> int:
        """Append a manifest; its number. Raises like `append`."""

    def checkpoint(self) -> Record | None:
        """The last manifest. Raises LogFailed."""

    def truncate(self, below: int) -> None:
        """Delete records below a number, but no fences. A record may stay for a while. Raises LogFailed."""

    def give_up(self) -> None:
        """End a call that waits for the storage: it raises GivenUp. So do all later ones."""
