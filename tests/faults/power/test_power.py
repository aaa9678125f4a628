"""Power cuts: a server under load is journaled, cut at many moments, recovered, and held against a ledger."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import grpc
import pytest
from faults.errors import manual
from faults.errors.cases import STORE
from faults.errors.trial import Trial
from faults.power import campaign
from faults.power.campaign import STORE_LOG, Run, Tally, cut_points, cuts, judged, recover
from faults.power.ledger import Ledger
from faults.power.program import MUTANTS, NONE
from faults.power.records import Kind, Marks, mark_of, read
from faults.power.replay import Disk, Left, Names
from frontier_harness.soaking import Soak

from frontier_server.core.state.leases import Lease, LeaseTable
from frontier_server.logs import crawl_log

CUTS = 200  # within which a broken promise is noticed
ROWS = manual.rows()
RUNS = 5  # that the cuts of a soak are made of


# The journal.


PROGRAM = """
import os, shutil, sys
from pathlib import Path
root = Path(sys.argv[1])
data = root / "data"
data.mkdir()
with (data / "a").open("wb", buffering=0) as file:
    file.write(b"one")
    os.fsync(file.fileno())
    os.pwrite(file.fileno(), b"2", 1)
    file.truncate(2)
copy = os.dup(os.open(data / "b", os.O_WRONLY | os.O_CREAT | os.O_APPEND))
os.writev(copy, [b"th", b"ree"])
os.fdatasync(copy)
shutil.copyfile(data / "b", data / "c")
os.link(data / "a", data / "d")
os.rename(data / "a", data / "e")
directory = os.open(data, os.O_RDONLY)
os.fsync(directory)
os.unlink("c", dir_fd=directory)
(data / "f").mkdir()
(data / "f").rmdir()
if len(sys.argv) == 2:
    import subprocess
    child = root / "child"
    child.mkdir()
    subprocess.run([sys.executable, "-c", sys.argv[0], str(child), "no more"], check=True)
(root.parent / "elsewhere").write_text("not ours")
"""


def test_a_journal_has_all_that_a_program_and_its_children_do_below_the_root(
    library: Path, tmp_path: Path
) -> None:
    root, journal = tmp_path / "root", tmp_path / "journal"
    root.mkdir()
    disk = Disk.of(root)
    environment = {"LD_PRELOAD": str(library), "POWER_ROOT": str(root), "POWER_JOURNAL": str(journal)}
    program = PROGRAM.replace("sys.argv[0]", repr(PROGRAM))
    subprocess.run([sys.executable, "-c", program, str(root)], check=True, env=os.environ | environment)
    for record in read(journal):
        disk.play(record)
    left = disk.as_seen()
    files = there(root)
    assert files["data/d"] == files["data/e"] == b"o2" and files["child/data/b"] == b"three"
    assert {name: data for name, data in disk.as_seen().items() if data is not None} == files
    durable = disk.after_cut(Names.STRICT, Left.ABSENT, Random(1))
    assert set(durable) <= set(left) | {"data/c", "child/data/c", "data/f", "child/data/f"}


def there(root: Path) -> dict[str, bytes]:
    """The files below a directory, but for RocksDB's info log, which stdio writes."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith("LOG")
    }


def journaled(made: Run, root: Path) -> dict[str, bytes]:
    """The same as the journal tells it."""
    disk = Disk(root.stat().st_ino)
    for record in read(made.journal):
        disk.play(record)
    return {
        name: data
        for name, data in disk.as_seen().items()
        if data is not None and not Path(name).name.startswith("LOG")
    }


def test_marks_are_in_one_order_with_what_the_program_does(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "journal")
    for number in range(3):
        marks.add({"ack": number, "ms": 0})
    marks.close()
    assert [mark_of(record)["ack"] for record in read(tmp_path / "journal")] == [0, 1, 2]


# The server.


def small(library: Path, directory: Path, mutant: str = NONE, lies: str = "") -> Run:
    """A run of some seconds, in which syncs of crawl logs fail."""
    root, journal = directory / "root", directory / "journal"
    return campaign.run(library, root, journal, 3, mutant=mutant, lies=lies, trouble="sync *crawl.log EIO 3")


def assert_nothing(tally: Tally, soak: Soak) -> None:
    """What was acknowledged is there, once, and nothing is wrong."""
    soak.count(
        faults=tally.cuts,
        checked=tally.items,
        lost=tally.lost,
        doubled=tally.doubled,
        violated=tally.violated,
    )
    assert not tally.findings, "\n".join([str(tally), *tally.findings[:50]])
    assert tally.cuts and tally.items


def test_a_power_cut_loses_nothing_that_was_acknowledged(library: Path, tmp_path: Path, soak: Soak) -> None:
    made = small(library, tmp_path)
    kinds = [record.kind for record in read(made.journal)]
    files = [record.path for record in read(made.journal) if record.kind is Kind.CREATE]
    assert sum(path.endswith(".sst") for path in files) > 10  # flushes and compactions are among what is cut
    assert journaled(made, tmp_path / "root") == there(tmp_path / "root")
    assert holes(made, tmp_path / "root") == []
    assert kinds.count(Kind.SYNCED) > 50 and kinds.count(Kind.RENAME) > 5
    assert_nothing(judged(made, tmp_path / "cut", 12, seed=1), soak)


def holes(made: Run, root: Path) -> list[str]:
    """Where a log of RocksDB's was written to while one before it was not durable.

    A cut may leave later writes without earlier ones there, and RocksDB would take them for one history.
    """
    disk = Disk(root.stat().st_ino)
    logs: dict[int, str] = {}
    found: list[str] = []
    for position, record in enumerate(read(made.journal)):
        if record.kind is Kind.CREATE and STORE_LOG.search(record.path):
            logs[record.inode] = record.path
        elif record.kind is Kind.CREATE:
            logs.pop(record.inode, None)
        elif record.kind is Kind.WRITE and record.inode in logs:
            before = [inode for inode in logs if logs[inode] < logs[record.inode]]
            found += [f"{position}: {logs[inode]}" for inode in before if disk.undurable(inode)]
        disk.play(record)
    return found


@pytest.mark.soak("cuts")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(RUNS))
def test_a_thousand_power_cuts_lose_nothing_that_was_acknowledged(
    library: Path, tmp_path: Path, soak: Soak, number: int
) -> None:
    """Each cut in both kinds of names."""
    made = campaign.run(library, tmp_path / "root", tmp_path / "journal", 6)
    assert_nothing(judged(made, tmp_path / "cut", -(-soak.cycles(1_000) // RUNS), soak.seed + number), soak)


@pytest.mark.soak("cuts")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("names", Names)
def test_what_was_recovered_goes_on_and_is_cut_again(
    library: Path, tmp_path: Path, soak: Soak, names: Names
) -> None:
    first, chance = small(library, tmp_path), Random(soak.seed)
    records = list(read(first.journal))
    total = Tally()
    for number, cut in enumerate(cuts(first, cut_points(records, 4, chance), records)):
        root, ledger = tmp_path / f"root{number}", cut.ledger.copy()
        recover(cut, names, None, number, root)
        again = campaign.run(
            library, root, tmp_path / f"journal{number}", 3, ledger=ledger, name=f"again{number}"
        )
        total += judged(again, tmp_path / "cut", 20, number, (names,))
    assert_nothing(total, soak)


FULL_OR_FAILING = (
    "write *store/*.log ENOSPC 0",
    "write *.sst ENOSPC 0",
    "write * ENOSPC 0",
    "sync *store/* EIO 1",
)


@pytest.mark.soak("cuts")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trouble", FULL_OR_FAILING)
def test_a_power_cut_of_a_server_that_has_ended_as_its_disk_is_full_or_fails_loses_nothing(
    library: Path, tmp_path: Path, soak: Soak, trouble: str
) -> None:
    trial = Trial(library, tmp_path)
    before = Disk.of(trial.trouble.root)
    trial.under_load(ROWS[STORE], trouble)
    made = Run(trial.trouble.journal, before, Ledger())
    assert_nothing(judged(made, tmp_path / "cut", 10, soak.seed, behind=10), soak)


# It can fail.


@pytest.mark.soak("mutants")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_promise_is_noticed(library: Path, tmp_path: Path, soak: Soak, mutant: str) -> None:
    try:
        made = small(library, tmp_path, mutant)
    except (AssertionError, grpc.RpcError) as ended:  # the server has noticed it, and refuses its callers
        assert "UNAVAILABLE" in str(ended)
        soak.count(faults=1)
    else:
        assert_noticed(made, tmp_path, soak)


def assert_noticed(made: Run, directory: Path, soak: Soak) -> None:
    """Some cut shows it."""
    tally = judged(made, directory / "cut", CUTS, seed=1, enough=1)
    soak.count(faults=1, violated=not tally.findings)
    assert tally.findings


@pytest.mark.soak("mutants")
@pytest.mark.timeout(1800)
def test_a_disk_that_lies_about_syncs_is_noticed(library: Path, tmp_path: Path, soak: Soak) -> None:
    assert_noticed(small(library, tmp_path, lies=".log"), tmp_path, soak)


@pytest.mark.soak("mutants")
@pytest.mark.timeout(1800)
def test_a_crawl_log_that_is_not_cut_after_a_crash_is_noticed(
    library: Path, tmp_path: Path, soak: Soak, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small(library, tmp_path)
    whole = crawl_log._CrawlLog.__init__

    def uncut(log: crawl_log._CrawlLog, path: Path, outcome: int, size: int) -> None:
        whole(log, path, outcome, path.stat().st_size if path.exists() else size)

    monkeypatch.setattr(crawl_log._CrawlLog, "__init__", uncut)
    assert_noticed(made, tmp_path, soak)


@pytest.mark.soak("mutants")
@pytest.mark.timeout(1800)
def test_a_lease_that_is_known_by_its_number_alone_is_noticed(
    library: Path, tmp_path: Path, soak: Soak, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small(library, tmp_path)

    def by_number(table: LeaseTable, token: bytes) -> Lease | None:
        said = table.genuine(token)
        return table._leases.get((said.crawl, said.serial)) if said is not None else None

    monkeypatch.setattr(LeaseTable, "out", by_number)
    assert_noticed(made, tmp_path, soak)
