"""A run of the server under the journal, and the power cuts that are made of it."""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from faults.power.judge import judge
from faults.power.ledger import Ledger, Notary
from faults.power.load import LEASE_S, Load
from faults.power.program import NONE, PROGRAM
from faults.power.records import Kind, Marks, Record, mark_of, read
from faults.power.replay import Disk, Left, Names, write_out
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

SOURCES = [str(Path(__file__).with_name(name)) for name in ("journal.c", "trouble.c")]
STORE_LOG = re.compile(r"data/store/\d+\.log$")
NAMES_CHANGE = (Kind.CREATE, Kind.MKDIR, Kind.RENAME, Kind.UNLINK, Kind.LINK)
SYNC_MS = 4
ENOUGH = 300  # acknowledgements of a run, before it may end
WAYS: tuple[Left | None, ...] = (*Left, None)


def compiler() -> str | None:
    """The C compiler, if there is one."""
    return shutil.which("cc")


def build(target: Path, *sources: str) -> Path:
    """A library to preload: the one that journals and lets calls fail, or another.

    Raises CalledProcessError.
    """
    library = target / "preloaded.so"
    flags = ["-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    command = ["cc", *flags, "-o", str(library), *(sources or SOURCES), "-ldl", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True)
    return library


@dataclass(frozen=True, slots=True)
class Run:
    """What a run of the server has left: the disk before it, its journal, what was acknowledged before it."""

    journal: Path
    before: Disk
    ledger: Ledger


def run(
    library: Path,
    root: Path,
    journal: Path,
    length_s: float,
    *,
    mutant: str = NONE,
    lies: str = "",
    trouble: str = "",
    ledger: Ledger | None = None,
    name: str = "r",
) -> Run:
    """Serve a load for some seconds, in a directory `data` below the root."""
    root.mkdir(parents=True, exist_ok=True)
    before = Disk.of(root)
    environment = {
        "LD_PRELOAD": str(library),
        "POWER_ROOT": str(root),
        "POWER_JOURNAL": str(journal),
        "POWER_SYNC_MS": str(SYNC_MS),
    }
    if trouble:
        control = journal.with_name(f"{journal.name}.trouble")
        control.write_text(trouble)
        environment["POWER_TROUBLE"] = str(control)
    if lies:
        environment["POWER_LIES"] = lies
    flags = ("--lease-seconds", str(LEASE_S), "--disk-reserve-mib", "0")
    marks = Marks(journal)
    first = max(ledger.asked, default=0) + 1_000_000 if ledger else 0
    server = ServerProcess(root / "data", *flags, program=(PROGRAM, mutant), environment=environment)
    server.errors = root.with_name(f"{root.name}.stderr")
    with server:
        load = Load(server.stubs, Notary(marks, first), name)
        with load.running():
            until_s = time.monotonic() + length_s
            eventually(lambda: load.problems or _enough(load, until_s), "a load", WHOLE_CRAWL_S)
        server.stop()
    marks.close()
    assert not load.problems, load.problems
    return Run(journal, before, ledger or Ledger())


def _enough(load: Load, until_s: float) -> bool:
    return time.monotonic() >= until_s and load.notary.acknowledged >= ENOUGH


@dataclass(slots=True)
class Tally:
    """What a campaign has found."""

    cuts: int = 0
    items: int = 0
    lost: int = 0
    doubled: int = 0
    violated: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)

    def __iadd__(self, other: "Tally") -> "Tally":
        for name in ("cuts", "items", "lost", "doubled", "violated", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.findings += other.findings
        return self

    def __str__(self) -> str:
        return (
            f"{self.cuts} cuts, {self.items} acknowledged items looked for: "
            f"{self.lost} lost, {self.doubled} doubled, {self.violated} violated; {self.seconds:.0f} s"
        )


def cut_points(records: Sequence[Record], count: int, chance: Random) -> list[int]:
    """Where to cut, in order: half just before a sync of the store's log returns, a quarter at names that
    change, the rest anywhere."""
    syncs: list[int] = []
    changes: list[int] = []
    logs: set[int] = set()
    for position, record in enumerate(records):
        if record.kind in NAMES_CHANGE:
            changes += [position, position + 1]
        if record.kind is Kind.CREATE:
            (logs.add if STORE_LOG.search(record.path) else logs.discard)(record.inode)
        elif record.kind is Kind.SYNCED and record.inode in logs:
            syncs.append(position)
    found = [chance.choice(syncs) for _ in range(count // 2)] if syncs else []
    found += [chance.choice(changes) for _ in range(count // 4)]
    found += [chance.randint(0, len(records)) for _ in range(count - len(found))]
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Cut:
    """The disk and the ledger at a moment."""

    position: int
    disk: Disk
    ledger: Ledger


def cuts(of: Run, points: Sequence[int], records: Sequence[Record]) -> Iterator[Cut]:
    """The moments before the records at these positions, in order. Each is true until the next is taken."""
    disk, ledger, played = of.before, of.ledger, 0
    for point in points:
        for record in records[played:point]:
            disk.play(record)
            if record.kind is Kind.MARK:
                ledger.note(mark_of(record))
        played = max(played, point)
        yield Cut(point, disk, ledger)


def judged(
    of: Run,
    scratch: Path,
    count: int,
    seed: int,
    kinds: Sequence[Names] = tuple(Names),
    ways: Sequence[Left | None] = WAYS,
    enough: int = 0,
    behind: int = 0,
) -> Tally:
    """Cut so often in each kind of names, and so often `behind` all that was done; recover, and judge.

    Stops at `enough` findings, if not 0.
    """
    chance, tally, begun_s = Random(seed), Tally(), time.monotonic()
    records = list(read(of.journal))
    points = cut_points(records, count, chance) + [len(records)] * behind
    for cut in cuts(of, points, records):
        for names in kinds:
            left, each = chance.choice(ways), chance.randrange(1 << 32)
            recover(cut, names, left, each, scratch)
            found = judge(scratch / "data", cut.ledger, checkpoint=each % 4 == 0)
            tally.cuts += 1
            tally.items += cut.ledger.items
            tally.lost += len(found.lost)
            tally.doubled += len(found.doubled)
            tally.violated += len(found.violated)
            where = (
                f"cut at {cut.position} of {len(records)}, {names.value}, {left and left.value}, seed {each}"
            )
            tally.findings += [f"{where}: {text}" for text in found.all()]
            shutil.rmtree(scratch)
            if enough and len(tally.findings) >= enough:
                break
        else:
            continue
        break
    tally.seconds = time.monotonic() - begun_s
    return tally


def recover(cut: Cut, names: Names, left: Left | None, seed: int, target: Path) -> None:
    """Make the directory as a cut leaves it."""
    write_out(cut.disk.after_cut(names, left, Random(seed)), target)
