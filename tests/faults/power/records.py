"""The journal of a program's file system calls: how its records are laid out, read, and added to.

`journal.c` writes them. A record's position is its number in the journal.
"""

import json
import os
import struct
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

_HEAD = struct.Struct("<IBIQqq")  # length of the whole, kind, process, inode, a, b


class Kind(Enum):
    """What a record tells."""

    CREATE = "C"  # a file, its inode and path
    MKDIR = "D"
    UNLINK = "U"  # of a file or a directory
    RENAME = "N"
    LINK = "L"
    WRITE = "W"  # a: offset
    TRUNCATE = "T"  # a: size
    SYNC = "S"  # begins; a: number
    SYNCED = "E"  # has returned; a: number, b: 0 if well
    RANGE = "R"  # sync_file_range, on which nobody may count
    REFUSED = "X"  # something that is not understood
    MARK = "M"  # of whoever watches the program


class Record(NamedTuple):
    """One entry."""

    kind: Kind
    inode: int = 0
    a: int = 0
    b: int = 0
    data: bytes = b""
    process: int = 0

    @property
    def path(self) -> str:
        """Below the root."""
        return self.data.decode()

    @property
    def paths(self) -> tuple[str, str]:
        """The old and the new one."""
        old, new = self.data.split(b"\0")
        return old.decode(), new.decode()

    def packed(self) -> bytes:
        """As the journal has it."""
        head = _HEAD.pack(
            _HEAD.size + len(self.data), ord(self.kind.value), self.process, self.inode, self.a, self.b
        )
        return head + self.data


def read(journal: Path) -> Iterator[Record]:
    """All records. The last one may be cut short, if a program was killed."""
    with journal.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            length, kind, process, inode, a, b = _HEAD.unpack(head)
            data = file.read(length - _HEAD.size)
            if len(data) == length - _HEAD.size:
                yield Record(Kind(chr(kind)), inode, a, b, data, process)


class Marks:
    """Adds marks to a journal that programs are writing: one order for theirs and ours."""

    def __init__(self, journal: Path) -> None:
        self._descriptor = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, mark: dict[str, Any]) -> None:
        """Append a mark. Used by any threads."""
        text = Record(Kind.MARK, data=json.dumps(mark).encode(), process=os.getpid()).packed()
        if os.write(self._descriptor, text) != len(text):
            raise OSError("a mark could not be written")

    def close(self) -> None:
        """Let the journal go."""
        os.close(self._descriptor)


def mark_of(record: Record) -> dict[str, Any]:
    """What was added."""
    mark: dict[str, Any] = json.loads(record.data)
    return mark
