"""A damaged store: it is called that, and nothing else; and `--salvage` keeps what can be read of it."""

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from frontier_harness.calls import RUN, TIMEOUT_S, Stubs, refusal, report
from frontier_harness.held_store import HeldStore
from frontier_harness.hosted import hosted
from frontier_harness.process import ServerProcess, run_to_end

from frontier_server.core.rows import keys
from frontier_server.core.rows.store import Changes, Family, StoreDamaged, StoreFailed
from frontier_server.program import exits
from frontier_server.stores.checkpoints import Checkpoints
from frontier_server.stores.rocks import RocksStore, StoreUnavailable
from frontier_server.stores.wreck import Wreck
from toehold.frontier.v1 import admin_pb2, crawl_pb2

DATA, DAMAGED = 4, 6
"""Its documented exit codes."""
SERVER_ROW = keys.crawl_key(keys.SERVER, keys.CrawlRow.SERVER)
CREATE = admin_pb2.CreateCheckpointRequest()
PAGES, HOSTS = 40, 6
PAUSED, FINISHED = crawl_pb2.CRAWL_STATE_PAUSED, crawl_pb2.CRAWL_STATE_FINISHED
ROWS = 20_000


def flip(path: Path, at: int) -> None:
    """A bit that the disk has turned."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


# The store.


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one large file, of the seen-set."""
    path = tmp_path_factory.mktemp("whole") / "store"
    store = RocksStore(path)
    for first in range(0, ROWS, 1000):
        store.write({(Family.SEEN, key_of(n)): os.urandom(60) for n in range(first, first + 1000)})
    store.write({(Family.SEEDS, b"seed"): b"value"})
    store._families[Family.SEEN].flush(True)
    store.close()
    return path


def key_of(number: int) -> bytes:
    return (number * 2654435761 % 2**64).to_bytes(8, "big") + number.to_bytes(12, "big")


def largest(store: Path) -> Path:
    return max(store.glob("*.sst"), key=lambda path: path.stat().st_size)


def a_block(store: Path) -> None:
    flip(largest(store), 50_000)


def many_blocks(store: Path) -> None:
    for at in range(10_000, 1_500_000, 40_000):
        flip(largest(store), at)


def the_footer(store: Path) -> None:
    flip(largest(store), largest(store).stat().st_size - 5)


def a_file(store: Path) -> None:
    largest(store).unlink()


def the_end_of_a_file(store: Path) -> None:
    os.truncate(largest(store), 60_000)


def the_manifest(store: Path) -> None:
    flip(next(store.glob("MANIFEST-*")), 60)


def no_manifest(store: Path) -> None:
    next(store.glob("MANIFEST-*")).unlink()


def no_current(store: Path) -> None:
    (store / "CURRENT").unlink()


FOUND_AT_THE_START = [the_footer, a_file, the_end_of_a_file, the_manifest, no_manifest, no_current]


@pytest.mark.parametrize("damage", FOUND_AT_THE_START)
def test_a_store_that_cannot_be_opened_is_damaged_and_not_in_use(
    whole: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    damage(store)
    files = sorted(path.name for path in store.glob("*.sst"))
    with pytest.raises(StoreDamaged) as caught:
        RocksStore(store)
    assert "in use" not in str(caught.value)
    assert sorted(path.name for path in store.glob("*.sst")) == files, "RocksDB has removed some"


def test_a_block_that_cannot_be_read_ends_no_scan_silently(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "store")
    a_block(tmp_path / "store")
    store = RocksStore(tmp_path / "store")
    keys = iter(sorted(map(key_of, range(ROWS))))
    with pytest.raises(StoreDamaged, match="checksum mismatch"):
        for key, _ in store.scan(Family.SEEN, b"", b""):
            assert key == next(keys)
    lost = next(keys)
    for read in (lambda: store.get(Family.SEEN, lost), lambda: store.get_many(Family.SEEN, [b"x", lost])):
        with pytest.raises(StoreDamaged, match="checksum mismatch"):
            read()
    assert "checksum mismatch" in store.damage
    store.close()


def test_a_store_whose_lock_may_not_be_taken_is_not_called_in_use(tmp_path: Path) -> None:
    """`lock` is in `block`, too."""
    store = RocksStore(tmp_path / "store")
    with pytest.raises(StoreUnavailable, match="in use by another server"):
        RocksStore(tmp_path / "store")
    store.close()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "LOCK").mkdir()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        RocksStore(tmp_path / "other")


@pytest.mark.parametrize(
    ("damage", "least", "gaps"),
    [
        (a_block, ROWS - 100, 1),
        (many_blocks, ROWS - 4_500, 38),
        (the_footer, 0, 1),
        (a_file, 0, 1),
        (the_end_of_a_file, 0, 1),
        (the_manifest, ROWS, 0),
        (no_manifest, ROWS, 0),
        (no_current, ROWS, 0),
    ],
)
def test_all_but_what_is_damaged_can_be_read_and_the_store_stays_as_it_is(
    whole: Path, tmp_path: Path, damage: Callable[[Path], None], least: int, gaps: int
) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    damage(store)
    before = {path.name: path.read_bytes() for path in store.iterdir()}
    wreck = Wreck(store, tmp_path / "copy")
    rows = list(wreck.scan(Family.SEEN))
    assert least <= len(rows) <= ROWS and rows == sorted(rows)
    assert {key for key, _ in rows} <= set(map(key_of, range(ROWS)))
    found = wreck.gaps[Family.SEEN]
    assert (len(found) > 0) == (gaps > 0) and len(found) <= gaps
    assert all(gap.before is None or gap.after < gap.before for gap in found)
    assert list(wreck.scan(Family.SEEDS)) == [(b"seed", b"value")] and wreck.gaps[Family.SEEDS] == []
    wreck.remove()
    assert {path.name: path.read_bytes() for path in store.iterdir()} == before


# The program.


def uris() -> list[str]:
    return [f"http://host{host}.example/{page}" for host in range(HOSTS) for page in range(PAGES)]


def lived(data: Path) -> int:
    """A crawl with much that waits, some done, some out; several files of each family. How many are done."""
    done = 0
    with ServerProcess(data) as server:
        server.stubs.launch("t", *(f"http://host{host}.example/" for host in range(HOSTS)))
    for part in range(4):
        with ServerProcess(data) as server:
            server.stubs.schedule("t", *uris()[part::4])
            leases = server.stubs.pages("t", 10)
            server.stubs.finish(*(report(lease) for lease in leases[1:]))
            done += len(leases) - 1
            server.stop()
    return done


def salvaged(data: Path) -> str:
    """The text that it prints."""
    ended = run_to_end("--data", str(data), "--salvage")
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout


def to_the_end(stubs: Stubs) -> set[str]:
    """Fetch all that is left; which pages that were."""
    fetched: set[str] = set()
    while True:
        answer = stubs.next("t", 100, 2)
        if not answer.leases:
            return fetched
        fetched |= {lease.uri for lease in answer.leases}
        stubs.finish(*(report(lease) for lease in answer.leases))


def damage_files_of(data: Path, marks: tuple[bytes, ...]) -> int:
    """Flip a bit in the first data block of each file of rows that hold one of these; how many that were."""
    store, found = data / "store", 0
    for path in store.glob("*.sst"):
        content = path.read_bytes()
        if any(mark in content for mark in marks):
            flip(path, 20)
            found += 1
    return found


def damage_new_files_in_place(store: Path, damaged: set[Path]) -> None:
    """Flip a bit in each file of rows that is not among the damaged ones. The server has them open, makes
    new ones and removes old ones meanwhile.
    """
    for path in set(store.glob("*.sst")) - damaged:
        with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
            file.seek(20)
            if byte := file.read(1):  # one that is being written may be empty
                file.seek(20)
                file.write(bytes([byte[0] ^ 0x10]))
                damaged.add(path)


def test_a_damaged_store_has_an_exit_code_of_its_own_and_a_way_out(tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = lived(data)
    assert damage_files_of(data, (b"toehold.pending", b"pending"))
    lapsing_soon = ("--lease-seconds", "2", "--heartbeat-seconds", "1")  # a lapse reads the damaged row
    ended = run_to_end("--data", str(data), "--listen", "127.0.0.1:0", *lapsing_soon)
    assert ended.returncode == DAMAGED, (ended.returncode, ended.stderr)
    (said,) = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert "damaged" in said and "--salvage" in said and "in use" not in said and "Traceback" not in said
    told = salvaged(data)
    assert re.search(r"pending: \d+ rows? read, [1-9]\d* ranges? unreadable", told), told
    waits = r"crawl t: \d+ URIs, \d+ of them waiting; known losses: \d+ of \d+ waiting URIs"
    assert re.search(waits, told), told
    (aside,) = data.glob("store.damaged-*")
    assert str(aside) in told and sorted(path.name for path in data.glob("store*")) == ["store", aside.name]
    with ServerProcess(data) as server:
        stubs = server.stubs
        stubs.until("t", PAUSED)
        assert "the store was damaged" in stubs.describe("t").status.reason
        verified = stubs.job("t", verify={})
        assert verified.findings == [] and verified.changed_count == 0, verified
        assert stubs.statistics("t").succeeded_count == done
        seeds = [f"http://host{host}.example/" for host in range(HOSTS)]
        again = stubs.schedule("t", *uris(), *seeds)
        assert set(again) == {"QUEUED", "ALREADY_SEEN"}
        stubs.request("t", RUN)
        fetched = to_the_end(stubs)
        stubs.until("t", FINISHED)
        assert stubs.statistics("t").succeeded_count == HOSTS * (PAGES + 1)
        assert len(fetched) >= again.count("QUEUED")
        server.stop()


def test_of_a_store_whose_list_of_files_is_gone_nothing_is_lost(tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = lived(data)
    next((data / "store").glob("MANIFEST-*")).unlink()
    assert run_to_end("--data", str(data)).returncode == DAMAGED
    told = salvaged(data)
    assert "deleted rows may be back" in told and "known losses: none" in told
    with ServerProcess(data) as server:
        server.stubs.until("t", PAUSED)
        server.stubs.request("t", RUN)
        to_the_end(server.stubs)
        server.stubs.until("t", FINISHED)
        statistics = server.stubs.statistics("t")
        assert statistics.succeeded_count >= done and statistics.discovered_count == HOSTS * (PAGES + 1)


def test_a_store_in_use_is_not_salvaged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        ended = run_to_end("--data", str(data), "--salvage")
        assert ended.returncode == DATA and "in use" in ended.stderr
        server.stubs.launch("t", "http://a.example/")  # undisturbed
    ended = run_to_end("--data", str(tmp_path / "none"), "--salvage")
    assert ended.returncode == DATA and "nothing can be salvaged" in ended.stderr


def test_a_salvage_that_was_cut_short_before_its_last_step_is_completed_and_no_new_store_begins(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    lived(data)
    (data / "store").rename(data / "store.new")
    ended = run_to_end("--data", str(data))
    assert (
        ended.returncode == DATA
        and "--salvage to complete it" in ended.stderr
        and not (data / "store").exists()
    )
    assert "interrupted salvage" in salvaged(data)
    with ServerProcess(data) as server:
        assert server.stubs.describe("t").crawl == "t"


def test_a_damage_that_is_found_while_serving_ends_the_server_with_the_same_code(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lived(data)
    with ServerProcess(data) as server:
        stubs = server.stubs
        damaged: set[Path] = set()
        with pytest.raises(grpc.RpcError):
            for _ in range(100):
                damage_new_files_in_place(data / "store", damaged)
                stubs.schedule("t", *uris())
                stubs.queues("t")
                stubs.job("t", verify={})
        assert server.wait() == DAMAGED
        assert "--salvage" in server.errors.read_text()


def test_rows_that_contradict_each_other_end_the_server_with_the_same_code(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", "http://a.example/")
        (lease,) = server.stubs.pages("t", 1)
        server.stop()
    store = RocksStore(data / "store")
    rows = [(Family.PENDING, key) for key, _ in store.scan(Family.PENDING, b"", b"")]
    assert rows
    store.write(dict.fromkeys(rows))
    store.close()
    with ServerProcess(data) as server:
        with pytest.raises(grpc.RpcError):
            server.stubs.finish(report(lease))
        assert server.wait() == DAMAGED
        said = server.errors.read_text()
        assert "is not stored" in said and "start again" in said and "--salvage" in said
    assert "crawl t:" in salvaged(data)
    with ServerProcess(data) as server:
        assert server.stubs.describe("t").crawl == "t"


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(lambda value: b"\x01\xc1noise", id="noise"),
        pytest.param(lambda value: b"\x02" + value[1:], id="an unknown version byte"),
        pytest.param(lambda value: b"", id="nothing"),
    ],
)
def test_salvage_opens_the_other_crawls_when_rows_of_one_cannot_be_decoded(
    tmp_path: Path, damaged: Callable[[bytes], bytes]
) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        for crawl in ("lost", "kept"):
            server.stubs.launch(crawl, f"http://{crawl}.example/")
        server.stop()
    store = RocksStore(data / "store")
    found: Changes = {
        (family, key): damaged(value)
        for family, crawl in ((Family.CRAWLS, b"lost"), (Family.QUEUES, b"kept"))
        for key, value in store.scan(family, b"", b"")
        if crawl in value
    }
    assert [family for family, _ in found] == [Family.CRAWLS, Family.QUEUES], "a spec and a queue"
    store.write(found)
    store.close()
    ended = run_to_end("--data", str(data))
    assert ended.returncode == DAMAGED and "--salvage" in ended.stderr
    told = salvaged(data)
    assert "crawl number 1 is lost" in told and "known losses: 1 unreadable row of queues" in told
    assert re.search(r"crawls: .*, 1 row left out", told) and re.search(r"queues: .*, 1 row left out", told)
    with ServerProcess(data) as server:
        server.stubs.until("kept", PAUSED)
        server.stubs.request("kept", RUN)
        (lease,) = server.stubs.pages("kept", 1)
        assert lease.uri == "http://kept.example/"


def test_a_crawl_log_is_kept_though_nothing_tells_how_far_it_goes(tmp_path: Path) -> None:
    """The frontier would begin it anew, from the outcomes that are still stored."""
    data = tmp_path / "data"
    lived(data)
    log = data / "crawls" / "t" / "crawl.log"
    before = log.read_text()
    store = RocksStore(data / "store")
    store.write({(Family.CRAWLS, keys.crawl_key(1, keys.CrawlRow.COUNTERS)): b"noise"})
    store.close()
    told = re.search(r"Crawl t: its crawl\.log is kept as (crawl\.log\.cut-\S+)\.", salvaged(data))
    assert told and log.with_name(told[1]).read_text() == before
    with ServerProcess(data) as server:
        server.stubs.until("t", PAUSED)
        server.stop()
    assert log.with_name(told[1]).read_text() == before


def test_a_server_row_with_an_unknown_version_byte_is_damage(tmp_path: Path) -> None:
    """Each version writes that row as all can read it, and tells its own in the row."""
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", "http://a.example/")
        server.stop()
    store = RocksStore(data / "store")
    row = store.get(Family.CRAWLS, SERVER_ROW)
    assert row is not None
    store.write({(Family.CRAWLS, SERVER_ROW): b"\x02" + row[1:]})
    store.close()
    ended = run_to_end("--data", str(data))
    assert ended.returncode == DAMAGED and "--salvage" in ended.stderr
    assert "the server's own row is lost" in salvaged(data)
    with ServerProcess(data) as server:
        server.stubs.until("t", PAUSED)


def test_events_that_are_counted_and_not_there_are_told_at_the_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        server.stubs.launch("t", "http://a.example/")
        server.stop()
    store = RocksStore(data / "store")
    store.write(dict.fromkeys((Family.EVENTS, key) for key, _ in store.scan(Family.EVENTS, b"", b"")))
    store.close()
    (data / "crawls" / "t" / "job.log").unlink()
    ended = run_to_end("--data", str(data))
    assert ended.returncode == DAMAGED, ended.stderr
    assert "are missing" in ended.stderr and "Traceback" not in ended.stderr


# Checkpoints.


def test_a_checkpoint_that_finds_no_room_is_refused_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: object, now_ms: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("frontier_server.stores.checkpoints.Checkpoints.create", failing)
    with hosted(HeldStore(), tmp_path) as at:
        problem = refusal(lambda: at.stubs.admin.CreateCheckpoint(CREATE, timeout=TIMEOUT_S))
        assert (problem.code, problem.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "DISK_RESERVE")
        assert "No space left on device" in problem.message
        at.stubs.launch("t", "http://a.example/")


def test_a_checkpoint_whose_name_cannot_be_made_durable_is_refused_and_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(directory: Path) -> None:
        if directory.name == "checkpoints":
            raise OSError(errno.EIO, "Input/output error")

    store = RocksStore(tmp_path / "store")
    checkpoints = Checkpoints(tmp_path, store)
    kept = checkpoints.create(0)
    with monkeypatch.context() as patched:
        patched.setattr("frontier_server.stores.checkpoints.sync_directory", failing)
        with pytest.raises(OSError, match="Input/output error"):
            checkpoints.create(1)
    assert checkpoints.kept() == [kept]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [kept.name]
    store.close()


@pytest.mark.parametrize("rpc", ["ListCheckpoints", "DeleteCheckpoint"])
def test_checkpoints_that_the_disk_does_not_show_or_delete_are_refused_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rpc: str
) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    name = "cp00001-20260101000000"
    (tmp_path / "checkpoints" / name).mkdir(parents=True)
    asked = {
        "ListCheckpoints": admin_pb2.ListCheckpointsRequest(),
        "DeleteCheckpoint": admin_pb2.DeleteCheckpointRequest(checkpoint=name),
    }
    monkeypatch.setattr("frontier_server.stores.checkpoints.Checkpoints.kept", failing)
    monkeypatch.setattr("frontier_server.stores.checkpoints.Checkpoints.delete", failing)
    with hosted(HeldStore(), tmp_path) as at:
        problem = refusal(lambda: getattr(at.stubs.admin, rpc)(asked[rpc], timeout=TIMEOUT_S))
        assert (problem.code, problem.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "DISK_RESERVE")
        assert "Input/output error" in problem.message


def test_a_checkpoint_that_is_damaged_ends_the_launch_and_not_the_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lived(data)
    with ServerProcess(data) as server:
        stubs = server.stubs
        kept = stubs.admin.CreateCheckpoint(CREATE, timeout=TIMEOUT_S).checkpoint
        for path in Path(kept.path).glob("*.sst"):
            content = path.read_bytes()
            path.unlink()  # a link to the server's own
            path.write_bytes(content)
            flip(path, 20)
        stubs.create("u")
        try:
            stubs.ask("LaunchCrawl", "u", checkpoint=kept.checkpoint, checkpoint_crawl="t")
        except grpc.RpcError as problem:
            assert problem.code() is grpc.StatusCode.NOT_FOUND
        else:
            stubs.until("u", FINISHED)
            assert "cannot be read" in stubs.describe("u").status.reason
        assert stubs.describe("t").crawl == "t" and server.child.poll() is None


def test_other_failures_are_no_damage() -> None:
    assert not issubclass(StoreUnavailable, StoreDamaged) and issubclass(StoreDamaged, StoreFailed)
    assert exits.EXIT_DAMAGED == DAMAGED
