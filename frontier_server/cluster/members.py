"""The machines of a cluster as objects in its bucket.

Each machine has two: `machines/NAME/beat` changes with each renewal and is never read, as a list shows that
it has changed; `machines/NAME/notice` has what others must know, and is read when a list shows another one.
"""

import secrets
from collections.abc import Mapping

import msgspec

from ..replicated.buckets import Bucket
from .claims import Notice

FOLDER = "machines/"
FORMAT = 1
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


class NameTaken(Exception):
    """Another process renews this machine's objects."""


class Seen(msgspec.Struct):
    """A machine as the last look has found it."""

    tag: str
    card: Card

    @property
    def notice(self) -> Notice:
        """What claims need of it."""
        return Notice(frozenset(self.card.holds), self.card.is_leaving)


class Members:
    """All machines of a cluster, as one of them knows them. Its methods may block, and raise BucketFailed."""

    def __init__(self, bucket: Bucket, machine: str, cluster: str) -> None:
        self.run = secrets.token_hex(8)
        self._bucket = bucket
        self._machine = machine
        self._cluster = cluster
        self._count = 0
        self._told = b""
        self._cards: dict[str, tuple[str, Card]] = {}  # by machine: the tag of its notice
        self.requests = 0

    def renew(self, card: Card) -> None:
        """Tell the others that this machine is there, and what has changed."""
        data = msgspec.json.encode(card)
        if data != self._told:
            self.requests += 1
            self._bucket.put(f"{FOLDER}{self._machine}/notice", data)
            self._told = data
        self._count += 1
        self.requests += 1
        self._bucket.put(f"{FOLDER}{self._machine}/beat", f"{self.run} {self._count}".encode())

    def look(self) -> Mapping[str, Seen]:
        """The machines that there are, or were. Raises NameTaken if another process has this one's name."""
        self.requests += 1
        beats: dict[str, str] = {}
        notices: dict[str, str] = {}
        for found in self._bucket.found(FOLDER):
            machine, _, what = found.name.removeprefix(FOLDER).partition("/")
            (beats if what == "beat" else notices)[machine] = found.tag
        for machine, tag in notices.items():
            if machine not in self._cards or self._cards[machine][0] != tag:
                self._read(machine, tag)
        for machine in self._cards.keys() - notices.keys():
            del self._cards[machine]
        mine = self._cards.get(self._machine)
        if mine is not None and self._told and mine[1].run != self.run:
            raise NameTaken(
                f"another process of the cluster is called {self._machine}; give each machine a --machine of "
                "its own"
            )
        return {
            machine: Seen(tag, self._cards[machine][1])
            for machine, tag in beats.items()
            if machine in self._cards
        }

    def _read(self, machine: str, tag: str) -> None:
        self.requests += 1
        data = self._bucket.get(f"{FOLDER}{machine}/notice")
        if data is None:
            return
        try:
            card = msgspec.json.decode(data, type=Card)
        except msgspec.DecodeError:
            return  # of a version that this one cannot know: it counts as gone
        if card.cluster == self._cluster and card.format <= FORMAT:
            self._cards[machine] = tag, card

    def leave(self) -> None:
        """Let the others know at once that this machine is gone."""
        self.forget(self._machine)

    def forget(self, machine: str) -> None:
        """Remove a machine that is gone."""
        self.requests += 1
        self._bucket.delete([f"{FOLDER}{machine}/{what}" for what in ("beat", "notice")])
