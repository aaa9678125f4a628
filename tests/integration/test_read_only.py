"""`toehold-frontier --read-only`: it answers all questions, changes nothing, and stands in nobody's way."""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest
from frontier_harness.access import Installation, stubs_of
from frontier_harness.calls import PRECONDITION, TIMEOUT_S, refused
from frontier_harness.every_rpc import OF_A_CRAWL, OF_NO_CRAWL, RPCS, ask
from frontier_harness.process import ServerProcess, run_to_end
from google.protobuf import message_factory

from frontier_server.core.rows.store import Family
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_base.access.roles import is_question

CRAWL = "crawl"
URI = "http://a.example/"
USAGE, DATA, IN_USE = 2, 4, 7
QUESTIONS = {
    rpc for rpc, method in RPCS.items() if is_question(f"{method.containing_service.full_name}/{rpc}")
}


def state_of(path: Path) -> dict[str, tuple[int, int, str]]:
    """The content and times of all files and directories."""
    found = {}
    for each in (path, *sorted(path.rglob("*"))):
        status = each.stat()
        digest = hashlib.sha256(each.read_bytes()).hexdigest() if each.is_file() else ""
        found[str(each.relative_to(path))] = (status.st_mtime_ns, status.st_ctime_ns, digest)
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a frontier left that was killed while a node had a lease: a crawl that runs, in its store."""
    data = tmp_path_factory.mktemp("read_only") / "data"
    with ServerProcess(data) as server:
        server.stubs.launch(CRAWL, URI)
        server.stubs.schedule(CRAWL, f"{URI}more")
        server.stubs.job(CRAWL, verify={})
        override = {"surt_prefix": "http://(example,a,", "settings": {"retry": {"max_attempts": 3}}}
        server.stubs.ask("PutOverride", CRAWL, override=override)
        assert len(server.stubs.pages(CRAWL, most=1)) == 1
        server.kill()
    return data


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[ServerProcess]:
    with ServerProcess(data, "--read-only") as server:
        yield server


def test_every_change_is_refused(server: ServerProcess) -> None:
    for rpc in RPCS.keys() - QUESTIONS:
        method = RPCS[rpc]
        empty = message_factory.GetMessageClass(method.input_type)()
        is_fetchers = method.containing_service.name == "FrontierService"
        call = getattr(server.stubs.frontier if is_fetchers else server.stubs.admin, rpc)
        asked = iter((empty,)) if method.client_streaming else empty
        refused(partial(call, asked, timeout=TIMEOUT_S), PRECONDITION, "READ_ONLY", "opened read-only")


def test_every_question_is_answered_and_every_stream_ends(server: ServerProcess) -> None:
    for rpc in QUESTIONS & (OF_A_CRAWL.keys() | OF_NO_CRAWL.keys()):
        assert ask(server.stubs, rpc, CRAWL) is not None, rpc


def test_a_follower_of_events_gets_those_that_are_kept_and_then_the_end(server: ServerProcess) -> None:
    request = frontier_pb2.StateEventsRequest(crawl=CRAWL, cursor="start")
    answers = list(server.stubs.frontier.StateEvents(request, timeout=TIMEOUT_S))
    actions = [answer.event.operator_acted.action for answer in answers]
    assert [action for action in actions if action][:3] == ["create", "add-seeds", "launch"]


def test_a_follower_of_outcomes_gets_the_end(server: ServerProcess) -> None:
    request = admin_pb2.StreamOutcomesRequest(crawl=CRAWL, cursor="start", follow=True)
    head, robots = server.stubs.admin.StreamOutcomes(request, timeout=TIMEOUT_S)
    assert head.HasField("kept")
    assert [outcome.uri for outcome in robots.outcomes] == [f"{URI}robots.txt"]


def test_the_crawl_stands_as_it_was_and_so_does_its_directory(data: Path) -> None:
    before = state_of(data)
    with ServerProcess(data, "--read-only") as one, ServerProcess(data, "--read-only") as another:
        for server in (one, another):
            assert server.stubs.describe(CRAWL).status.state == crawl_pb2.CRAWL_STATE_RUNNING
            assert server.stubs.statistics(CRAWL).leased_count == 1
        assert one.stop()[0] == 0
        assert another.stop()[0] == 0
    assert state_of(data) == before


def test_it_knows_its_callers_too(data: Path, tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    watcher, operator = (installation.caller(role, role) for role in ("watch", "operate"))
    with ServerProcess(data, "--read-only", "--callers", str(installation.callers)) as server:
        for token, code, reason in (
            ("", grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_MISSING"),
            (watcher, grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING"),
            (operator, PRECONDITION, "READ_ONLY"),
        ):
            with stubs_of(server.address, token) as stubs:
                refused(partial(stubs.launch, CRAWL), code, reason)


def test_it_ends_with_its_parent_although_leases_are_out(data: Path) -> None:
    with ServerProcess(data, "--read-only", "--until-stdin-ends", stdin_pipe=True) as server:
        assert server.stubs.statistics(CRAWL).leased_count == 1
        server.end_stdin()
        assert server.wait() == 0


def test_one_that_serves_is_to_be_asked_instead_and_one_that_reads_delays_nobody(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as first:
        first.stubs.create(CRAWL)
        ended = run_to_end("--data", str(tmp_path / "data"), "--read-only")
        assert ended.returncode == IN_USE
        assert ended.stderr.endswith("a frontier runs on it, and answers questions too; ask that one\n")
        first.stop()
    with (
        ServerProcess(tmp_path / "data", "--read-only") as reader,
        ServerProcess(tmp_path / "data") as second,
    ):
        second.stubs.create("another")
        assert [
            each.crawl for each in reader.stubs.admin.ListCrawls(admin_pb2.ListCrawlsRequest()).crawls
        ] == [CRAWL]


@pytest.mark.parametrize("flag", ["--salvage", "--set-clock"])
def test_flags_that_change_the_directory_exclude_it(tmp_path: Path, flag: str) -> None:
    ended = run_to_end("--data", str(tmp_path / "data"), "--read-only", flag)
    assert ended.returncode == USAGE
    assert f"{flag} changes the data directory; use it without --read-only" in ended.stderr
    assert not (tmp_path / "data").exists()


def test_a_directory_without_a_store_is_told_and_stays_so(tmp_path: Path) -> None:
    ended = run_to_end("--data", str(tmp_path / "data"), "--read-only")
    assert ended.returncode == DATA
    assert "there is no store in it" in ended.stderr
    assert not (tmp_path / "data").exists()


def test_a_store_that_no_frontier_has_served_on_is_told(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "data" / "store")
    store.write({(Family.SEEN, b"x"): b""})
    store.close()
    ended = run_to_end("--data", str(tmp_path / "data"), "--read-only")
    assert (ended.returncode, "its store is empty" in ended.stderr) == (DATA, True)
