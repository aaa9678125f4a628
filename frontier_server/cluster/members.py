"""The machines of a cluster as objects in its bucket.

Each machine has two: `machines/NAME/beat` changes with each renewal and is never read, as a list shows that
it has changed; `machines/NAME/notice` has what others must know, and is read when a list shows another one.
"""

import secrets
import time
from collections.abc import Mapping

import msgspec

from ..replicated.buckets import Bucket
from .claims import Notice

FOLDER = "machines/"
FORMAT = 1
SILENT_LOOKS = 3
"""A name is free again when what was told under it has not changed for so many looks."""
STORE_STEP_S = 1.0
"""Stores tell times in whole seconds, rounded down."""
CLOCK_APART_S = 2.0
"""A clock that is nearer to the bucket's counts as right."""
FORGET_S = 3600.0
"""A machine that has been gone for so long is forgotten."""


class Card(msgspec.Struct, omit_defaults=True):
    """What a machine tells of itself."""

    format: int
    cluster: str
    version: str
    run: str
    """Another one after each start."""
    holds: dict[str, int]
    """The members that it serves, or is about to, with the epochs of their logs (0: not opened yet)."""
    host: str
    """Where other machines reach it."""
    ports: dict[str, tuple[int, int]]
    """Of each member that serves: its gRPC server, and its pipe."""
    is_leaving: bool = False
    refuses: list[str] = []
    """The members that it takes not now."""
    clock_ahead_s: int = 0
    """How far its clock is ahead of that of the bucket; 0 if it is right."""
    requests_an_hour: int = 0
    """To the bucket, by all processes of the machine, as they were a minute ago."""


def card_of(data: bytes) -> Card | None:
    """The card in an object; None if it is one of a version that this one cannot know."""
    try:
        return msgspec.json.decode(data, type=Card)
    except msgspec.DecodeError:
        return None


class NameTaken(Exception):
    """Another process renews this machine's objects."""


class Seen(msgspec.Struct):
    """A machine as the last look has found it."""

    tag: str
    card: Card

    @property
    def notice(self) -> Notice:
        """What claims need of it."""
        return Notice(frozenset(self.card.holds), self.card.is_leaving, frozenset(self.card.refuses))


class Members:
    """All machines of a cluster, as one of them knows them. Its methods may block, and raise BucketFailed."""

    def __init__(self, bucket: Bucket, machine: str, cluster: str) -> None:
        self.run = secrets.token_hex(8)
        self._bucket = bucket
        self._machine = machine
        self._cluster = cluster
        self._count = 0
        self._is_named = False  # nobody else has its name, as far as it has seen
        self._former: list[str] = []  # the tags of what another process has told under its name
        self._told = b""
        self._beat_s = (0.0, 0.0)  # when the last renewal began and ended, by this machine's clock
        self.clock_ahead_s = 0.0
        """How far the clock of this machine is ahead of that of the bucket; 0 if it is right."""
        self._cards: dict[str, tuple[str, Card | None]] = {}  # by machine: the tag of its notice

    def renew(self, card: Card) -> None:
        """Tell the others that this machine is there, and what has changed: as soon as looks have shown that
        no other process has its name."""
        if not self._is_named:
            return
        data = msgspec.json.encode(card)
        if data != self._told:
            self._bucket.put(f"{FOLDER}{self._machine}/notice", data)
            self._told = data
        self._count += 1
        began_s = time.time()
        self._bucket.put(f"{FOLDER}{self._machine}/beat", f"{self.run} {self._count}".encode())
        self._beat_s = began_s, time.time()

    def look(self) -> Mapping[str, Seen]:
        """The machines that there are, or were. Raises NameTaken if another process has this one's name."""
        beats: dict[str, str] = {}
        notices: dict[str, str] = {}
        for found in self._bucket.found(FOLDER):
            machine, _, what = found.name.removeprefix(FOLDER).partition("/")
            (beats if what == "beat" else notices)[machine] = found.tag
            if what == "beat" and machine == self._machine:
                self._compare_clocks(found.change_s)
        for machine, tag in notices.items():
            if machine not in self._cards or self._cards[machine][0] != tag:
                self._read(machine, tag)
        for machine in self._cards.keys() - notices.keys():
            del self._cards[machine]
        self._check_name(beats.get(self._machine, ""))
        return {
            machine: Seen(tag, card)
            for machine, tag in beats.items()
            if (card := self._cards.get(machine, ("", None))[1]) is not None
        }

    def _compare_clocks(self, change_s: float) -> None:
        """Note how far this machine's clock is from the bucket's, which has a time for its last renewal."""
        began_s, ended_s = self._beat_s
        if not (began_s and change_s):
            return
        early_s, late_s = began_s - change_s - STORE_STEP_S, ended_s - change_s
        ahead_s = max(early_s, 0.0) or min(late_s, 0.0)
        if abs(ahead_s - self.clock_ahead_s) >= CLOCK_APART_S:  # less is told by the store's whole seconds
            self.clock_ahead_s = ahead_s

    def _check_name(self, beat: str) -> None:
        """Whoever comes to a name that another process renews gives way; so does a process that has stood
        still for so long that another one has its name."""
        _, card = self._cards.get(self._machine, ("", None))
        if self._is_named:
            is_taken = card is not None and bool(self._told) and card.run != self.run
            if card is None:  # it was forgotten
                self._told = b""
        else:
            self._former.append(beat)
            is_taken = bool(beat) and len(set(self._former)) > 1
            self._is_named = not beat or len(self._former) > SILENT_LOOKS
        if is_taken:
            self._is_named = False
            raise NameTaken(
                f"another process of the cluster is called {self._machine}; give each machine a --machine of "
                "its own"
            )

    def _read(self, machine: str, tag: str) -> None:
        data = self._bucket.get(f"{FOLDER}{machine}/notice")
        if data is None:
            return
        card = card_of(data)
        is_ours = card is not None and card.cluster == self._cluster and card.format <= FORMAT
        is_own_name = machine == self._machine  # whoever has it, in whatever generation, has taken it
        self._cards[machine] = tag, card if is_ours or is_own_name else None

    def leave(self) -> None:
        """Let the others know at once that this machine is gone."""
        if self._is_named:
            self.forget(self._machine)

    def forget(self, machine: str) -> None:
        """Remove a machine that is gone."""
        self._bucket.delete([f"{FOLDER}{machine}/{what}" for what in ("beat", "notice")])
