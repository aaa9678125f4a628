"""Checkpoints of a real store, and crawls that go on from them, by the command line's own client."""

import shutil
import signal
from pathlib import Path

import pytest
from frontier_harness.divided import job_log
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S

from frontier_server.core.opening import opening
from frontier_server.core.rows.records import FORMAT
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1.crawl_pb2 import (
    DISPOSITION_STALE,
    DISPOSITION_SUCCEEDED,
    CrawlSpec,
    CrawlState,
)
from toehold.frontier.v1.frontier_pb2 import OUTCOME_FETCHED, Candidate, Report
from toehold_client import CrawlController, FrontierClient
from toehold_client.errors import IllegalState, UnknownCheckpoint

HOSTS = 5
S = CrawlState


def spec() -> CrawlSpec:
    """No politeness to wait for."""
    said = CrawlSpec(allowed_addresses=["loopback"])
    said.politeness.delay_factor = 0
    said.politeness.min_delay.FromMilliseconds(0)
    return said


def fetch_all(client: FrontierClient, crawl: str, most: int = 1000) -> list[str]:
    """Fetch what is left, `most` at most; which pages that were."""
    fetched: list[str] = []
    while len(fetched) < most:
        wanted = min(HOSTS, most - len(fetched))
        answer = client.next(node="node", session="1", max_leases=wanted, wait_s=0.5, crawl=crawl)
        if not answer.leases:
            return fetched
        robots = [lease for lease in answer.leases if lease.uri.endswith("/robots.txt")]
        reports = [
            Report(token=lease.token, outcome=OUTCOME_FETCHED, fetch_status=404 if lease in robots else 200)
            for lease in answer.leases
        ]
        client.finished(reports, node="node", session="1")
        fetched += [lease.uri for lease in answer.leases if lease not in robots]
    return fetched


def test_a_crawl_goes_on_from_a_checkpoint_after_restarts_and_without_what_came_later(tmp_path: Path) -> None:
    """S0.8, S0.10"""
    with ServerProcess(tmp_path / "data") as server, FrontierClient(server.address) as client:
        first = CrawlController(client, "first")
        first.create(spec(), [f"http://host{n}.example/" for n in range(HOSTS)])
        first.launch()
        first.wait_for({S.CRAWL_STATE_RUNNING}, PATIENCE_S)
        before = fetch_all(client, "first", most=2)
        kept = client.create_checkpoint()
        assert first.statistics().statistics.succeeded_count == 2
        client.schedule("first", [Candidate(uri="http://host0.example/later")])
        assert [event.WhichOneof("kind") for event in first.events()].count("checkpointed") == 1
        log = job_log(server.data, "first").read_text()
        assert f"CHECKPOINTED {kept.checkpoint}" in log
        second = CrawlController(client, "second")
        second.create(spec())
        second.launch(kept.checkpoint, "first")
    with ServerProcess(tmp_path / "data") as server, FrontierClient(server.address) as client:
        second = CrawlController(client, "second")
        second.wait_for({S.CRAWL_STATE_RUNNING}, PATIENCE_S)
        after = fetch_all(client, "second")
        assert sorted([*before, *after]) == [f"http://host{n}.example/" for n in range(HOSTS)]
        second.wait_for({S.CRAWL_STATE_FINISHED}, PATIENCE_S)
        assert [each.checkpoint for each in client.list_checkpoints()] == [kept.checkpoint]
        again = client.create_checkpoint()
        assert [each.checkpoint for each in client.list_checkpoints()] == [kept.checkpoint, again.checkpoint]
        client.delete_checkpoint(kept.checkpoint)
        assert [each.checkpoint for each in client.list_checkpoints()] == [again.checkpoint]
        with pytest.raises(UnknownCheckpoint):
            client.delete_checkpoint(kept.checkpoint)


def test_what_a_crash_has_left_of_checkpoints_is_removed_at_the_next_start(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, FrontierClient(server.address) as client:
        kept = client.create_checkpoint()
        server.kill()
    directory = Path(kept.path).parent
    made, deleted = directory / "cp00002-20260102030405.tmp", directory / "cp00003-20260102030405.deleted"
    other = directory / "mine.tmp"
    for path in (made, deleted, other):
        path.mkdir()
        (path / "000001.sst").write_bytes(b"x")
    with ServerProcess(tmp_path / "data") as server, FrontierClient(server.address) as client:
        assert sorted(directory.iterdir()) == [directory / kept.checkpoint, other]
        assert [each.checkpoint for each in client.list_checkpoints()] == [kept.checkpoint]
        assert str(made) in server.errors.read_text()


@pytest.mark.undivided("a set of checkpoints is restored as a whole")
def test_a_whole_frontier_begins_again_from_a_checkpoint_in_place_of_its_store(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, FrontierClient(server.address) as client:
        crawl = CrawlController(client, "crawl")
        crawl.create(spec(), [f"http://host{n}.example/" for n in range(HOSTS)])
        crawl.launch()
        crawl.wait_for({S.CRAWL_STATE_RUNNING}, PATIENCE_S)
        before = fetch_all(client, "crawl", most=2)
        kept = client.create_checkpoint()
        fetch_all(client, "crawl")
        server.child.send_signal(signal.SIGKILL)
        server.child.wait(PATIENCE_S)
    (tmp_path / "again").mkdir()
    Path(kept.path).rename(tmp_path / "again" / "store")
    with ServerProcess(tmp_path / "again") as server, FrontierClient(server.address) as client:
        after = fetch_all(client, "crawl")
        assert sorted([*before, *after]) == [f"http://host{n}.example/" for n in range(HOSTS)]


@pytest.mark.undivided("a set of checkpoints is restored as a whole")
def test_reports_of_leases_given_since_count_for_nothing_in_a_store_that_was_put_back_or_copied(
    tmp_path: Path,
) -> None:
    """Else a report for one page would count for another, whose lease has its number by now."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    with ServerProcess(data) as server, FrontierClient(server.address) as client:
        crawl = CrawlController(client, "crawl")
        crawl.create(spec(), [f"http://host{n}.example/" for n in range(HOSTS)])
        crawl.launch()
        crawl.wait_for({S.CRAWL_STATE_RUNNING}, PATIENCE_S)
        fetch_all(client, "crawl", most=2)
        kept = client.create_checkpoint()
        given = client.next(node="node", session="1", max_leases=1, wait_s=5, crawl="crawl").leases[0]
        server.child.send_signal(signal.SIGKILL)
        server.child.wait(10)
    shutil.copytree(data, copy)
    shutil.rmtree(data / "store")
    Path(kept.path).rename(data / "store")
    report = Report(token=given.token, outcome=OUTCOME_FETCHED, fetch_status=404)
    with ServerProcess(data) as server, FrontierClient(server.address) as client:
        CrawlController(client, "crawl").resume()  # its job.log tells of more than the checkpoint has
        assert client.next(node="other", session="1", max_leases=HOSTS, wait_s=5, crawl="crawl").leases
        answer = client.finished([report], node="node", session="1")
        assert answer[0].disposition == DISPOSITION_STALE
        assert CrawlController(client, "crawl").statistics().statistics.succeeded_count == 2
    with ServerProcess(copy) as server, FrontierClient(server.address) as client:
        answer = client.finished([report], node="node", session="1")
        assert answer[0].disposition == DISPOSITION_SUCCEEDED, "it was out when the copy was made"


def test_a_checkpoint_that_is_not_there_is_named_and_the_crawl_stays_as_it_is(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, FrontierClient(server.address) as client:
        crawl = CrawlController(client, "crawl")
        crawl.create(spec())
        for name in ("cp00001-20260101000000", "../store"):
            with pytest.raises(UnknownCheckpoint):
                crawl.launch(name, "crawl")
        assert crawl.status().state == S.CRAWL_STATE_NASCENT


def test_a_crawl_that_has_taken_something_in_is_told_that_its_state_is_wrong(tmp_path: Path) -> None:
    """LaunchCrawl: ILLEGAL_STATE, also by a controller, which takes it for no lost answer."""
    with ServerProcess(tmp_path / "data") as server, FrontierClient(server.address) as client:
        CrawlController(client, "first").create(spec(), ["http://host.example/"])
        kept = client.create_checkpoint()
        crawl = CrawlController(client, "second")
        crawl.create(spec())
        client.note_uris("second", ["http://host.example/seen"])
        with pytest.raises(IllegalState, match="has taken in URIs") as refused:
            crawl.launch(kept.checkpoint, "first")
        assert refused.value.metadata == {"crawl": "second", "state": "NASCENT"}
        assert crawl.status().state == S.CRAWL_STATE_NASCENT


def test_a_checkpoint_of_a_later_version_is_refused(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, FrontierClient(server.address) as client:
        kept = client.create_checkpoint()
        store = RocksStore(Path(kept.path))
        row = opening.server_row(store)
        row.format, row.version = FORMAT + 1, "9.8.7"
        store.write(opening.server_changes(row))
        store.close()
        client.create_crawl("second", spec())
        with pytest.raises(UnknownCheckpoint, match=rf"cannot be read: .* got {FORMAT + 1}, which version 9"):
            client.launch_crawl("second", checkpoint=kept.checkpoint)
