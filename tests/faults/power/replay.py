"""What a power cut leaves: the directory after a prefix of a journal, from a seed.

A file's data is durable up to the last sync of it that has returned; the sync covers the writes that were
journaled before it began. What a sync that failed would have covered is gone, whatever later ones say. Of
what came later a cut leaves, as the seed wants: nothing (ABSENT), the beginning up to some byte (TORN), any
pages of it, whatever their order was (PAGES), or all (ALL).

Names come in two kinds. ORDERED, as ext4 has them: changes of names become durable in their order, and any
sync makes all durable that were journaled before it began. STRICT, as POSIX has them: a name is durable when
its directory has been synced after the change; any of the others may be there, each with or without those
beside it. A rename is one change in both: no file system that Toehold is run on tears one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

from faults.power.records import Kind, Record

PAGE = 4096


class Names(Enum):
    """When the name of a file is durable."""

    ORDERED = "ordered"
    STRICT = "strict"


class Left(Enum):
    """What is left of data that nobody has synced."""

    ABSENT = "absent"
    TORN = "torn"
    PAGES = "pages"
    ALL = "all"


class NotUnderstood(Exception):
    """The journal has something that cannot be replayed faithfully."""


class Write(NamedTuple):
    """A change of a file's data: bytes at an offset; without bytes a new size."""

    position: int
    offset: int
    data: bytes | None


@dataclass(eq=False, slots=True)
class File:
    """A file's data: what is durable, and what came since."""

    durable: bytearray = field(default_factory=bytearray)
    since: list[Write] = field(default_factory=list)

    def sync(self, position: int) -> None:
        """Make durable what was journaled before a position."""
        covered = sum(1 for write in self.since if write.position < position)
        for write in self.since[:covered]:
            _apply(self.durable, write)
        del self.since[:covered]

    def forget(self, position: int) -> None:
        """A sync has failed: the system has forgotten what was journaled before it, and says at the next sync
        that all is well. The file has holes there."""
        self.since = [
            write._replace(data=write.data and bytes(len(write.data))) if write.position < position else write
            for write in self.since
        ]

    def after_cut(self, left: Left, chance: Random) -> bytes:
        """Its bytes."""
        if not self.since or left is Left.ABSENT:
            return bytes(self.durable)
        if left is Left.PAGES and all(write.data is not None for write in self.since):
            return self._pages(chance)
        data = bytearray(self.durable)
        whole = len(self.since) if left is Left.ALL else chance.randrange(len(self.since))
        for write in self.since[:whole]:
            _apply(data, write)
        if whole < len(self.since):
            part = self.since[whole]
            if part.data:
                _apply(data, part._replace(data=part.data[: chance.randrange(len(part.data))]))
        return bytes(data)

    def _pages(self, chance: Random) -> bytes:
        """Each page as it was after some of the writes, or none; the size is one that it had."""
        sizes = [len(self.durable)]
        for write in self.since:
            sizes.append(max(sizes[-1], write.offset + len(write.data or b"")))
        size = chance.choice(sizes)
        data = bytearray(size)
        kept = min(size, len(self.durable))
        data[:kept] = self.durable[:kept]
        reached: dict[int, int] = {}  # page → how many of the writes it has seen
        for number, write in enumerate(self.since):
            assert write.data is not None
            end = min(write.offset + len(write.data), size)
            if end <= write.offset:
                continue
            for page in range(write.offset // PAGE, -(-end // PAGE)):
                if number < reached.setdefault(page, chance.randint(0, len(self.since))):
                    first, last = max(page * PAGE, write.offset), min((page + 1) * PAGE, end)
                    data[first:last] = write.data[first - write.offset : last - write.offset]
        return bytes(data)


@dataclass(eq=False, slots=True)
class Directory:
    """A directory's names: as programs see them, and as they are durable in either kind."""

    live: "dict[str, Node]" = field(default_factory=dict)
    durable: "dict[Names, dict[str, Node]]" = field(default_factory=lambda: {kind: {} for kind in Names})


Node: TypeAlias = File | Directory
Edit: TypeAlias = tuple[Directory, str, Node | None]  # a name and what it stands for from now on


class Change(NamedTuple):
    """A change of names, all or nothing."""

    position: int
    edits: tuple[Edit, ...]


class Disk:
    """A directory while a journal is played."""

    def __init__(self, root_inode: int = 0) -> None:
        self.root = Directory()
        self.position = 0
        self._inodes: dict[int, Node] = {root_inode: self.root}
        self._changes: dict[Names, list[Change]] = {kind: [] for kind in Names}  # that are not durable
        self._syncs: dict[tuple[int, int], tuple[Node, int]] = {}  # that are under way

    @staticmethod
    def of(root: Path) -> "Disk":
        """What is there before a program starts; all of it is durable."""
        disk = Disk(root.stat().st_ino)
        for path in sorted(root.rglob("*")):
            inode, name = path.stat().st_ino, str(path.relative_to(root))
            disk.play(Record(Kind.MKDIR if path.is_dir() else Kind.CREATE, inode, data=name.encode()))
            if path.is_file():
                disk.play(Record(Kind.WRITE, inode, data=path.read_bytes()))
        for node in disk._inodes.values():
            if isinstance(node, File):
                node.sync(disk.position)
        for kind, changes in disk._changes.items():
            _make_durable(kind, changes, changes)
        disk.position = 0
        return disk

    def play(self, record: Record) -> None:
        """Take in the next record."""
        match record.kind:
            case Kind.CREATE | Kind.MKDIR:
                node = File() if record.kind is Kind.CREATE else Directory()
                self._inodes[record.inode] = node
                self._change((*self._place(record.path), node))
            case Kind.UNLINK:
                directory, name = self._place(record.path)
                if name in directory.live:
                    self._change((directory, name, None))
            case Kind.RENAME | Kind.LINK:
                self._take_name(record)
            case Kind.WRITE:
                self._file(record).since.append(Write(self.position, record.a, record.data))
            case Kind.TRUNCATE:
                self._file(record).since.append(Write(self.position, record.a, None))
            case Kind.SYNC:
                if record.inode in self._inodes:
                    self._syncs[record.process, record.a] = self._inodes[record.inode], self.position
            case Kind.SYNCED:
                begun = self._syncs.pop((record.process, record.a), None)
                if begun is not None and record.b == 0:
                    self._synced(*begun)
                elif begun is not None and isinstance(begun[0], File):
                    begun[0].forget(begun[1])
            case Kind.REFUSED:
                raise NotUnderstood(record.data.decode())
        self.position += 1

    def undurable(self, inode: int) -> bool:
        """Whether a file has data that no sync has covered."""
        node = self._inodes[inode]
        return isinstance(node, File) and any(write.data for write in node.since)

    def _take_name(self, record: Record) -> None:
        old, new = (self._place(path) for path in record.paths)
        node = old[0].live.get(old[1])
        if node is None:  # stdio has made it, which is not journaled
            if record.kind is Kind.RENAME and new[1] in new[0].live:
                self._change((*new, None))
        elif record.kind is Kind.RENAME:
            self._change((*old, None), (*new, node))
        else:
            self._change((*new, node))

    def _place(self, path: str) -> tuple[Directory, str]:
        *above, name = path.split("/")
        directory = self.root
        for each in above:
            node = directory.live.get(each)
            if not isinstance(node, Directory):
                raise NotUnderstood(f"{path}: no directory {each} was made")
            directory = node
        return directory, name

    def _file(self, record: Record) -> File:
        node = self._inodes.get(record.inode)
        if not isinstance(node, File):
            raise NotUnderstood(f"a write to inode {record.inode}, which no record has made a file")
        return node

    def _change(self, *edits: Edit) -> None:
        for directory, name, node in edits:
            _edit(directory.live, name, node)
        for changes in self._changes.values():
            changes.append(Change(self.position, edits))

    def _synced(self, node: Node, position: int) -> None:
        if isinstance(node, File):
            node.sync(position)
        for kind, changes in self._changes.items():
            covered = [change for change in changes if change.position < position]
            if kind is Names.STRICT:
                covered = _touching(covered, node)
            _make_durable(kind, changes, covered)

    def after_cut(self, names: Names, left: Left | None, chance: Random) -> dict[str, bytes | None]:
        """What is there: paths with bytes, or None for directories. `left` None: each file in its own way."""
        entries = self._entries(names, chance)
        return _walked(
            self.root,
            lambda directory: entries.get(id(directory), directory.durable[names]),
            lambda file: file.after_cut(left or chance.choice(list(Left)), chance),
        )

    def as_seen(self) -> dict[str, bytes | None]:
        """What programs see, durable or not."""
        chance = Random(0)  # leaves all there is
        return _walked(
            self.root, lambda directory: directory.live, lambda file: file.after_cut(Left.ALL, chance)
        )

    def _entries(self, names: Names, chance: Random) -> dict[int, dict[str, Node]]:
        """The names of those directories where some are not durable, by the directories' ids."""
        changes = self._changes[names]
        if names is Names.ORDERED:
            kept = changes[: chance.choice((0, len(changes), chance.randint(0, len(changes))))]
        else:
            kept = _some(changes, chance.choice((0.0, 0.5, 1.0)), chance)
        entries: dict[int, dict[str, Node]] = {}
        for change in kept:
            for directory, name, node in change.edits:
                found = entries.setdefault(id(directory), dict(directory.durable[names]))
                _edit(found, name, node)
        return entries


def _walked(
    root: Directory, entries: Callable[[Directory], dict[str, Node]], data: Callable[[File], bytes]
) -> dict[str, bytes | None]:
    """All paths, given what directories and files have. A file with two names has one content."""
    found: dict[str, bytes | None] = {}
    to_do: list[tuple[str, Directory]] = [("", root)]
    images: dict[int, bytes] = {}
    while to_do:
        above, directory = to_do.pop()
        for name, node in sorted(entries(directory).items()):
            if isinstance(node, Directory):
                found[above + name] = None
                to_do.append((f"{above}{name}/", node))
            else:
                if id(node) not in images:
                    images[id(node)] = data(node)
                found[above + name] = images[id(node)]
    return found


def write_out(found: dict[str, bytes | None], target: Path) -> None:
    """Make a directory of what a cut has left."""
    target.mkdir(parents=True)
    for name, data in sorted(found.items()):
        if data is None:
            (target / name).mkdir(parents=True, exist_ok=True)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(data)


def played(records: Iterable[Record]) -> Disk:
    """An empty directory after these records."""
    disk = Disk()
    for record in records:
        disk.play(record)
    return disk


def _apply(data: bytearray, write: Write) -> None:
    if write.data is None:
        del data[write.offset :]
        data.extend(bytes(write.offset - len(data)))
        return
    data.extend(bytes(max(write.offset - len(data), 0)))
    data[write.offset : write.offset + len(write.data)] = write.data


def _edit(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _touching(changes: list[Change], directory: Node) -> list[Change]:
    """Those that concern a directory, and what has to come before them."""
    found: list[Change] = []
    places: set[tuple[int, str]] = set()
    for change in reversed(changes):
        touched = {(id(each), name) for each, name, _ in change.edits}
        if any(each is directory for each, _, _ in change.edits) or touched & places:
            found.append(change)
            places |= touched
    return found[::-1]


def _make_durable(kind: Names, changes: list[Change], covered: list[Change]) -> None:
    for change in covered:
        for directory, name, node in change.edits:
            _edit(directory.durable[kind], name, node)
    positions = {change.position for change in covered}
    changes[:] = [change for change in changes if change.position not in positions]


def _some(changes: list[Change], share: float, chance: Random) -> list[Change]:
    """Any of them; without one, no later one of the same name is there either."""
    found: list[Change] = []
    without: set[tuple[int, str]] = set()
    for change in changes:
        touched = {(id(directory), name) for directory, name, _ in change.edits}
        if touched & without or chance.random() >= share:
            without |= touched
        else:
            found.append(change)
    return found
