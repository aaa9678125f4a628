"""A log in an object store: an object for each record, created only if absent.

The names of the objects are the numbers of the records. To append is to create the next one; that fails if
somebody else has created it, so a fence stops its predecessor. But records are deleted, and a slow opener, or
a request that was long on its way, may create one where another has been. Three rules make that harmless:

* After it has made its fence, an opener looks again. If there is a later record, the fence was too low, and
  the opener begins anew. Records are deleted only some time after the manifest that covers them was written,
  so a list may even lag behind by so long.
* Fences are never deleted: each is the very place where the owner before it would append next.
* An owner that has read the log looks whether it still owns it. If so, nobody has deleted what it needed.

`tests/simulation/test_interleavings.py` searches through what three owners can do to each other, and finds a
loss as soon as one of the rules is taken out.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from .buckets import Bucket, BucketFailed
from .log import Fenced, GivenUp, Kind, LogDamaged, Record
from .records import Form

V = TypeVar("V")

FIRST_REST_S, LONGEST_REST_S = 0.05, 2.0  # between two tries
LIST_LAG_S = 60.0
"""How long a list of objects may take to show a new one."""
MISSING_TRIES = 5  # of an opener whose newest record is not there
READERS = 32  # requests at a time
DIGITS = 16
_NONCE_BYTES = 8
_AHEAD = 256  # records that are read before they are asked for

_log = structlog.get_logger()


class ObjectLog:
    """A log in a bucket, below `log/NAME/`."""

    def __init__(
        self,
        bucket: Bucket,
        name: str,
        cluster: str,
        version: str,
        clock_s: Callable[[], float] = time.monotonic,
        waits: Callable[[float], None] | None = None,
    ) -> None:
        """`waits` rests between two tries; by default it ends early at `give_up`."""
        self.epoch = 0
        self.waits_since_s: float | None = None
        """Since when the store has not answered, by the clock; None if it answers."""
        self.problem = ""
        """What it said last, if it does not answer."""
        self._bucket = bucket
        self._folder = f"log/{name}/"
        self._form = Form(cluster, name, version)
        self._clock_s = clock_s
        self._ends = threading.Event()
        self._waits = waits or self._rest
        self._next = 0
        self._base = 0
        self._manifests: list[tuple[int, float]] = []  # that this owner has written, and when
        self._fences_kept = set[int]()  # those known among records that were to be deleted

    def open(self) -> int:
        if self.epoch:
            raise Fenced("a log is opened once")
        at_least, missing = 1, 0
        while True:
            numbers = self._numbers(at_least - 1)
            number = max([*numbers, at_least - 1]) + 1
            head = None if number == 1 else self._found(number - 1)
            if number > 1 and head is None:  # deleted since it was listed, or gone
                missing += 1
                if missing == MISSING_TRIES:
                    raise self._missing(number - 1)
                continue
            base = 0 if head is None else head.base
            fence = Record(number, number, Kind.FENCE, base, b"")
            if not self._created(fence, secrets.token_bytes(_NONCE_BYTES)):
                at_least = number + 1  # also if lists do not show it yet
                continue
            later = self._numbers(number)
            if not later:
                break
            at_least = max(later) + 1
        self.epoch, self._next, self._base = number, number + 1, base
        return number

    def append(self, payload: bytes) -> int:
        return self._appended(Kind.CHANGES, payload)

    def set_checkpoint(self, payload: bytes) -> int:
        number = self._appended(Kind.MANIFEST, payload)
        self._base = number
        self._manifests.append((number, self._clock_s()))
        return number

    def check(self) -> None:
        name = self._place(self._next)
        if not self.epoch or self._asked(lambda: self._bucket.get(name)) is not None:
            raise self._fenced(self._next)

    def checkpoint(self) -> Record | None:
        if not self._base:
            return None
        record = self._record(self._base)
        if record.kind is not Kind.MANIFEST:  # it was deleted, and a late request has made a fence there
            self.check()
            raise self._missing(self._base)
        return record

    def read(self, start: int) -> Iterator[Record]:
        with ThreadPoolExecutor(READERS, "log-reader") as readers:
            for begin in range(start, self.epoch, _AHEAD):
                yield from readers.map(self._record, range(begin, min(begin + _AHEAD, self.epoch)))
        self.check()  # a later owner may have deleted records, and a late request may have made a fence there

    def truncate(self, below: int) -> None:
        settled = [number for number, at_s in self._manifests if self._clock_s() - at_s >= LIST_LAG_S]
        if not settled or below > settled[-1]:
            return  # a list may not show yet what covers these records
        gone = [number for number in self._numbers(0) if number < below and number not in self._fences_kept]
        self._fences_kept |= self._fences(gone)
        names = [self._place(number) for number in gone if number not in self._fences_kept]
        self._asked(lambda: self._bucket.delete(names))
        self._manifests = [each for each in self._manifests if each[0] >= settled[-1]]

    def give_up(self) -> None:
        self._ends.set()

    def _appended(self, kind: Kind, payload: bytes) -> int:
        if not self.epoch:
            raise Fenced("a log must be opened before anything is appended")
        number = self._next
        base = number if kind is Kind.MANIFEST else self._base
        if not self._created(Record(number, self.epoch, kind, base, payload)):
            self._next = self.epoch  # of no use: the fence stands there
            raise self._fenced(number)
        self._next = number + 1
        return number

    def _fenced(self, number: int) -> Fenced:
        return Fenced(
            f"{self._bucket.url}: another process owns {self._folder} (record {number} is not ours)"
        )

    def _created(self, record: Record, nonce: bytes = b"") -> bool:
        """Whether a record is there that was not there before. An answer may be lost, so one that is the same
        is taken for ours."""
        name, data = self._place(record.number), self._form.written(record, nonce)

        def create() -> bool:
            if self._bucket.create(name, data):
                return True
            there = self._bucket.get(name)
            if there is None:  # another request creates it, perhaps an earlier one of ours; or it was deleted
                raise BucketFailed(f"{self._bucket.url}: {name} cannot be created, and is not there")
            return there == data

        return self._asked(create)

    def _fences(self, numbers: list[int]) -> set[int]:
        """The fences among some numbers. One record of a row without gaps tells its whole epoch."""
        fences = set[int]()
        left = sorted(numbers)
        while left:
            record = self._found(last := left[-1])
            if record is None:  # deleted since it was listed
                left.pop()
                continue
            if record.kind is Kind.FENCE:
                fences.add(left.pop())
            while left and left[-1] == last and last > record.epoch:
                left.pop()
                last -= 1
        return fences

    def _numbers(self, after: int) -> list[int]:
        """The numbers of all records after one, as far as a list shows them."""
        last = self._place(after) if after else ""
        found = self._asked(lambda: list(self._bucket.found(self._folder, last)))
        names = [each.name.removeprefix(self._folder) for each in found]
        return [int(name) for name in names if len(name) == DIGITS and name.isdecimal()]

    def _found(self, number: int) -> Record | None:
        data = self._asked(lambda: self._bucket.get(self._place(number)))
        return None if data is None else self._form.read(data, number)

    def _record(self, number: int) -> Record:
        record = self._found(number)
        if record is None:
            self.check()  # a later owner may have deleted it
            raise self._missing(number)
        return record

    def _missing(self, number: int) -> LogDamaged:
        return LogDamaged(f"{self._bucket.url}: {self._place(number)} is missing")

    def _place(self, number: int) -> str:
        return f"{self._folder}{number:0{DIGITS}}"

    def _asked(self, request: Callable[[], V]) -> V:
        """The answer to a request that may be repeated, which it is until there is one. Raises GivenUp."""
        rest_s = FIRST_REST_S
        while not self._ends.is_set():
            try:
                answer = request()
            except BucketFailed as problem:
                self.problem = str(problem)
                if self.waits_since_s is None:
                    self.waits_since_s = self._clock_s()
                    _log.warning("log_waits", log=self._folder, problem=self.problem)
                self._waits(rest_s)
                rest_s = min(2 * rest_s, LONGEST_REST_S)
            else:
                since_s = self.waits_since_s  # other readers wait and are answered at the same time
                if since_s is not None:
                    waited_s = self._clock_s() - since_s
                    _log.info("log_answers", log=self._folder, waited_s=round(waited_s, 1))
                    self.waits_since_s, self.problem = None, ""
                return answer
        raise GivenUp(f"{self.problem or f'{self._bucket.url}: {self._folder}'}: given up")

    def _rest(self, rest_s: float) -> None:
        self._ends.wait(rest_s)
