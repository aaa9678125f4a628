"""`toehold shards`: what it shows, what it refuses, and a split that ends between any two of its steps."""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from frontier_harness.calls import Stubs, fresh_name, spec
from frontier_harness.command_line import Toehold, toehold_of
from frontier_harness.process import ServerProcess, run_to_end
from frontier_harness.splits import Died, silent
from frontier_harness.waiting import eventually

from frontier_server.config import ServerFile, usable
from frontier_server.core.opening import opening
from frontier_server.core.rows import keys
from frontier_server.core.rows.records import JobRow, encode
from frontier_server.core.rows.store import Family
from frontier_server.core.salvage.division import Unequal
from frontier_server.core.spec.settings import CrawlSettings, GroupSettings, IdentitySettings, Rewrite
from frontier_server.core.state.job import JobKind, JobState
from frontier_server.program import splitting
from frontier_server.program.data_directory import open_data
from frontier_server.program.shard_map import SECRET_BYTES, MapUnusable, ShardMap, read_map
from frontier_server.program.supervisor import LOCK, locked
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

DATA, REFUSED = 4, 5  # exit codes of the frontier, and of `toehold`
PAGES, HOSTS = 60, 12
NAME = "docs"


def fill(stubs: Stubs) -> None:
    """Crawls with pages that wait, and one that was deleted."""
    hosts = [f"www.site{number}.example" for number in range(HOSTS)]
    stubs.launch(NAME, *(f"http://{host}/" for host in hosts))
    stubs.schedule(NAME, *(f"http://{hosts[page % HOSTS]}/{page}" for page in range(PAGES)))
    gone = fresh_name()
    stubs.create(gone, spec())
    stubs.ask("DeleteCrawl", gone)


@pytest.fixture(scope="module", params=[1, 2])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with one store, and one with two shards."""
    data = tmp_path_factory.mktemp("filled") / "data"
    with ServerProcess(data, "--shards", str(request.param)) as server:
        fill(server.stubs)
        assert server.stop()[0] == 0
    return data


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "data"))


@pytest.fixture
def toehold(capfd: pytest.CaptureFixture[str]) -> Toehold:
    return toehold_of(capfd)


def stores(data: Path) -> list[Path]:
    """Those with URIs."""
    return sorted(data.glob("shard-*/store")) or [data / "store"]


def rows(store: Path, family: Family) -> set[tuple[bytes, bytes]]:
    opened = RocksStore(store)
    try:
        return set(opened.scan(family, b"", b""))
    finally:
        opened.close()


def all_rows(data: Path, family: Family) -> list[tuple[bytes, bytes]]:
    return sorted(row for store in stores(data) for row in rows(store, family))


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many files may yet get their names before the process dies."""
    left = [0]
    rename = Path.rename

    def renamed(path: Path, target: Path) -> Path:
        if not left[0]:
            raise Died
        left[0] -= 1
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", renamed)
    yield left
    monkeypatch.undo()


def test_a_split_that_ends_before_any_of_its_steps_is_completed(
    filled: Path, tmp_path: Path, deadly: list[int]
) -> None:
    seen, pending = all_rows(filled, Family.SEEN), all_rows(filled, Family.PENDING)
    assert len(seen) == PAGES + HOSTS
    shards = len(stores(filled))
    for steps in range(100):
        data = Path(shutil.copytree(filled, tmp_path / str(steps)))
        deadly[0] = steps
        died = False
        try:
            splitting.split(data, silent)
        except Died:
            died = True
            deadly[0] = 100
            splitting.split(data, silent)
        found = read_map(data)
        assert found is not None and found.shards == 2 * shards
        found.check()
        assert all_rows(data, Family.SEEN) == seen
        assert all_rows(data, Family.PENDING) == pending
        aside = data / f"before-split-{shards}"
        assert all_rows(aside, Family.SEEN) == seen
        assert {path.name for path in data.glob("split*")} == set()
        shutil.rmtree(data)
        if not died:
            break
    assert not died and steps > shards


def test_no_frontier_starts_while_a_split_lacks_its_last_steps(data: Path, deadly: list[int]) -> None:
    deadly[0] = 2
    with pytest.raises(Died):
        splitting.split(data, silent)
    ended = run_to_end("--data", str(data), "--listen", "127.0.0.1:0")
    assert ended.returncode == DATA
    assert "has an interrupted split; complete it with 'toehold shards split' first" in ended.stderr


@pytest.mark.parametrize("filled", [1], indirect=True)
@pytest.mark.parametrize("steps", [1, 2, 100])
def test_a_frontier_that_began_before_the_end_of_a_split_does_not_open_the_old_store(
    data: Path, deadly: list[int], steps: int
) -> None:
    """Once it has looked whether there is a split, it still has to load its modules."""
    deadly[0] = steps
    with suppress(Died):
        splitting.split(data, silent)
    before = sorted(path.name for path in data.iterdir())
    with pytest.raises(MapUnusable, match=r"interrupted split|was split meanwhile"):
        open_data(usable(data, ServerFile()), bytes(SECRET_BYTES))
    assert sorted(path.name for path in data.iterdir()) == before


def test_a_frontier_starts_on_what_a_split_has_set_aside(data: Path) -> None:
    shards = len(stores(data))
    splitting.split(data, silent)
    with ServerProcess(data / f"before-split-{shards}") as server:
        eventually(
            lambda: server.stubs.ask("GetStatistics", NAME).statistics.queued_count == PAGES + HOSTS,
            "all shards",
        )
        assert server.stop()[0] == 0


def test_each_row_is_in_the_shard_that_has_its_slot(data: Path) -> None:
    splitting.split(data, silent)
    found = read_map(data)
    assert found is not None
    for number, store in enumerate(stores(data)):
        partitions = {key[4:12] for key, _ in rows(store, Family.SEEN)}
        assert {found.shard_of(partition) for partition in partitions} == {number}


def test_all_stores_have_the_secret_of_the_old_ones_and_of_the_map(data: Path) -> None:
    def secret(store: Path) -> bytes:
        opened = RocksStore(store)
        try:
            return opening.server_row(opened).secret
        finally:
            opened.close()

    before = secret(stores(data)[0])
    splitting.split(data, silent)
    found = read_map(data)
    assert found is not None
    members = [found.directory_of(name) / "store" for name in found.names]
    assert {secret(store) for store in members} == {before} == {found.secret}


# What is shown and refused.


def test_shards_are_shown_before_and_after(data: Path, toehold: Toehold) -> None:
    shards = len(stores(data))
    code, told, _ = toehold("shards", "list", "--data", str(data))
    assert code == 0
    assert len(told.splitlines()) == (1 if shards == 1 else 3)
    code, told, _ = toehold("shards", "split", "--data", str(data))
    assert code == 0
    assert f"{data} has {2 * shards} shards now" in told
    code, told, _ = toehold("shards", "--data", str(data))
    assert code == 0
    assert re.match(r"shard-0000: slots 0 to \d+; \d+ MiB\n", told)


def test_a_directory_without_a_store_has_no_shards_to_show(tmp_path: Path, toehold: Toehold) -> None:
    code, told, problem = toehold("shards", "list", "--data", str(tmp_path))
    assert (code, told) == (REFUSED, "")
    assert f"data directory {tmp_path} has no store" in problem


def test_a_directory_that_a_frontier_uses_is_refused(data: Path, toehold: Toehold) -> None:
    with ServerProcess(data):
        code, _, problem = toehold("shards", "split", "--data", str(data))
    assert code == REFUSED
    assert "in use" in problem


def refused(data: Path, told: str) -> None:
    before = {path: path.stat().st_ino for path in data.iterdir()}
    with locked(data), pytest.raises((MapUnusable, Unequal), match=told):
        splitting.split(data, silent)
    after = {path: path.stat().st_ino for path in data.iterdir()}
    assert after.items() - before.items() <= {(data / LOCK, (data / LOCK).stat().st_ino)}


def test_a_directory_with_the_old_one_of_an_earlier_split_is_refused(data: Path) -> None:
    aside = data / f"before-split-{len(stores(data))}"
    aside.mkdir()
    refused(data, f"has {aside.name} from then; remove that first")


def change(store: Path, family: Family, key: bytes, value: bytes) -> None:
    opened = RocksStore(store)
    opened.write({(family, key): value})
    opened.close()


def test_a_job_that_has_not_ended_is_refused_by_its_name(data: Path) -> None:
    row = JobRow(JobKind.VERIFY.value, 1, state=JobState.RUNNING.value)
    change(stores(data)[-1], Family.JOBS, keys.serial_key(1, 50), encode(row))
    refused(data, r"job 50 \(verify\) of crawl docs has not ended")


def test_a_crawl_whose_counts_are_wrong_is_refused(data: Path) -> None:
    store = stores(data)[0]
    key, _ = min(rows(store, Family.SEEN))
    opened = RocksStore(store)
    opened.write({(Family.SEEN, key): None})
    opened.close()
    refused(
        data, r"crawl docs contradicts itself: discovered must be \d+, got \d+\. .*toehold verify --repair"
    )


@pytest.mark.parametrize("filled", [2], indirect=True)
def test_a_row_of_another_shard_is_refused(data: Path) -> None:
    first, second = stores(data)
    key, value = min(rows(second, Family.KEPT_URIS))
    change(first, Family.KEPT_URIS, key, value)
    refused(data, "is in a shard that does not have its slot")


@pytest.mark.parametrize("filled", [2], indirect=True)
@pytest.mark.parametrize("member", ["coordinator", "shard-0001"])
def test_a_member_of_a_divided_directory_is_neither_split_nor_shown(
    data: Path, toehold: Toehold, member: str
) -> None:
    for command in ("split", "list"):
        code, told, problem = toehold("shards", command, "--data", str(data / member))
        assert (code, told) == (REFUSED, "")
        assert f"data directory {data / member} is a part of {data}" in problem
    assert not (data / member / "shards.json").exists()


def test_a_folder_called_split_that_no_split_has_made_is_left_alone(data: Path) -> None:
    foreign = data / "split" / "notes.txt"
    foreign.parent.mkdir()
    foreign.write_text("mine")
    refused(data, "has a folder split that is none of Toehold's; move it away")
    assert foreign.read_text() == "mine"
    with ServerProcess(data) as server:
        assert server.stop()[0] == 0
    foreign.unlink()
    shards = len(stores(data))
    splitting.split(data, silent)
    assert len(stores(data)) == 2 * shards


def test_sixty_four_shards_are_the_most(tmp_path: Path) -> None:
    data = tmp_path / "data"
    ShardMap(data, 64, bytes(SECRET_BYTES)).write()
    refused(data, "has 64 shards, and can have at most 64")


def test_a_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    refused(data, "has no store")


def test_a_crawl_that_several_shards_could_not_crawl_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data, "--shards", "1") as server:
        address_group = crawl_pb2.AddressGroupSpec(max_parallel=1)
        server.stubs.create(NAME, spec(address_group=address_group))
        assert server.stop()[0] == 0
    refused(data, "crawl docs has address_group, and the hosts of an address are in several shards")


@pytest.mark.parametrize(
    "moves",
    [
        CrawlSettings(identity=IdentitySettings(rules=("strip-www",))),
        CrawlSettings(identity=IdentitySettings(rewrites=(Rewrite("a", "b"),))),
        CrawlSettings(groups=(GroupSettings("one", ("a.example", "b.example")),)),
    ],
)
def test_a_crawl_whose_hosts_are_far_apart_in_an_old_store_is_refused(moves: CrawlSettings) -> None:
    splitting.check_settings(NAME, moves, by_site=True)
    splitting.check_settings(NAME, CrawlSettings(), by_site=False)
    with pytest.raises(MapUnusable, match="hosts of one site are far apart in it"):
        splitting.check_settings(NAME, moves, by_site=False)


def test_a_job_runs_after_two_splits_although_others_ran_before_each(data: Path) -> None:
    def run_jobs(server: ServerProcess) -> None:
        def all_present() -> bool:
            frontier = server.stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest())
            return all(shard.present for shard in frontier.shards)

        eventually(all_present, "all shards to be there")
        new = frontier_pb2.Candidate(uri=f"http://www.site0.example/{fresh_name()}")
        assert server.stubs.bring(NAME, admin_pb2.ImportEntry(candidate=new)).changed_count == 1
        job = server.stubs.ask("StartJob", NAME, verify={}).job.job
        assert server.stubs.ended(NAME, job).state == admin_pb2.JOB_STATE_DONE

    for _ in range(2):
        with ServerProcess(data) as server:
            run_jobs(server)
            assert server.stop()[0] == 0
        splitting.split(data, silent)
    with ServerProcess(data) as server:
        run_jobs(server)
        assert len(server.stubs.ask("ListJobs", NAME).jobs) == 1 + 2 * 3  # that of the seeds, and these


def test_seeds_can_be_added_after_a_split(data: Path) -> None:
    splitting.split(data, silent)
    with ServerProcess(data) as server:
        server.stubs.seed(NAME, "http://www.another.example/")
        eventually(
            lambda: server.stubs.ask("GetStatistics", NAME).statistics.discovered_count == PAGES + HOSTS + 1,
            "the seed",
        )
