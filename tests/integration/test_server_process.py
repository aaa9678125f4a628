"""The program: how it starts, why it does not, and how it ends."""

import os
import platform
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import grpc
import pytest
from core_doubles.placing import SUFFIXES
from frontier_harness.calls import (
    TIMEOUT_S,
    Refusal,
    next_request,
    refusal,
    released,
    report,
    schedule_request,
    seed_of,
)
from frontier_harness.divided import shards_option
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess, run_to_end
from frontier_harness.waiting import PATIENCE_S, eventually
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rocksdict import Cache, Rdict

from frontier_server.core.opening import opening
from frontier_server.core.rows.records import FORMAT, ServerRow, encode
from frontier_server.core.rows.store import Family
from frontier_server.program.server import GRACE_S
from frontier_server.service import core_kind, version
from frontier_server.stores.rocks import MIB, RocksStore, table_options
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

USAGE, LISTEN, DATA, STORE, DAMAGED = 2, 3, 4, 5, 6
"""Its documented exit codes."""

QUICK_S = PATIENCE_S / 3
"""How soon it ends on a busy machine if it does not wait for its callers: they would wait for PATIENCE_S."""


def refused(*arguments: str, code: int, named: tuple[str, ...]) -> None:
    """It ends with this code, nothing on standard output, and one message that names these."""
    ended = run_to_end(*arguments)
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    assert "Traceback" not in ended.stderr
    said = [line for line in ended.stderr.splitlines() if not line.startswith("{")]  # but for log lines
    if said[0].startswith("Usage:"):  # of the library that reads the flags
        said = said[-1:]
    assert len(said) == 1, ended.stderr
    for word in named:
        assert word in said[0], said


# Starting.


def test_it_says_one_line_when_it_serves_with_the_address_it_has(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data" / "deep") as server:
        assert re.fullmatch(r"toehold-frontier serving on 127\.0\.0\.1:[1-9]\d*\n", server.ready_line)
        assert server.stop()[0] == 0
        assert server.child.stdout is not None
        assert server.child.stdout.read() == ""
        assert f'"core": "{core_kind()}"' in server.errors.read_text()


def test_it_serves_on_ipv6_where_there_is_some(tmp_path: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 loopback here")
    with ServerProcess(tmp_path / "data", listen="[::1]:0") as server:
        assert server.address.startswith("[::1]:")
        server.stubs.launch("t", seed_of("t"))


def test_a_settings_file_is_followed_and_flags_win_over_it(tmp_path: Path) -> None:
    settings = tmp_path / "frontier.toml"
    settings.write_text('listen = "127.0.0.1:1"\nlease_seconds = 77\nheartbeat_seconds = 7.5\n')
    flags = ("--config", str(settings), "--heartbeat-seconds", "5")
    with ServerProcess(tmp_path / "data", *flags) as server:
        answer = server.stubs.heartbeat()
        assert answer.lease_duration.ToSeconds() == 77
        assert answer.interval_duration.ToSeconds() == 5


def test_the_version_says_whether_the_core_is_compiled_and_which_python_runs_it() -> None:
    python = platform.python_version()
    expected = f"toehold-frontier, version {version()} ({core_kind()} core, Python {python})\n"
    assert run_to_end("--version").stdout == expected
    assert core_kind() == os.environ.get("TOEHOLD_CORE", "interpreted")


def test_a_start_imports_nothing_that_colours_logs_or_logs_elsewhere() -> None:
    started = run_to_end("--version", program=("-X", "importtime", "-m", "frontier_server"))
    assert started.returncode == 0, started.stderr
    imported = {line.rpartition("|")[2].strip() for line in started.stderr.splitlines()}
    assert "structlog.dev" in imported
    assert not imported & {"rich.console", "twisted.python.log"}


# Not starting.


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as first:
        refused("--data", str(data), "--listen", "127.0.0.1:0", code=DATA, named=(str(data), "in use"))
        first.stubs.launch("t", seed_of("t"))  # undisturbed


def test_a_port_that_another_program_has_is_refused(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        refused("--data", str(tmp_path / "data"), "--listen", address, code=LISTEN, named=(address,))


def test_a_port_that_another_server_has_is_refused(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "one") as first:
        refused(
            *("--data", str(tmp_path / "two"), "--listen", first.address, *shards_option(())),
            code=LISTEN,
            named=(first.address,),
        )
        first.stubs.launch("t", seed_of("t"))  # undisturbed
    with ServerProcess(tmp_path / "two"):
        pass  # nothing is left locked


def test_an_address_that_is_not_this_machines_is_refused(tmp_path: Path) -> None:
    flags = ("--data", str(tmp_path / "data"), "--insecure", "--listen")
    refused(*flags, "192.0.2.1:7707", code=LISTEN, named=("192.0.2.1:7707",))


def test_a_data_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    for data in (file, file / "below", Path("/proc/toehold")):
        refused("--data", str(data), "--listen", "127.0.0.1:0", code=DATA, named=(str(data),))
    assert file.read_text() == "not a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root")
def test_an_unwritable_data_directory_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o500)
    refused("--data", str(data), "--listen", "127.0.0.1:0", code=DATA, named=(str(data),))


def test_a_store_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("not a database")
    refused("--data", str(tmp_path), "--listen", "127.0.0.1:0", code=DATA, named=(str(tmp_path),))


def newer_format(data: Path) -> bytes:
    """The server row of a store that a later version wrote."""
    return encode(ServerRow(FORMAT + 1, b"s" * 16, version="9.8.7"))


def row_of_unknown_version(data: Path) -> bytes:
    """A server row whose very encoding is of a later version."""
    return b"\x02" + encode(ServerRow(FORMAT, b"s" * 16))[1:]


def damaged_row(data: Path) -> bytes:
    """A server row that is none."""
    return b"\x01\xc1\xff"


WAY_BACK = "Use that version or a later one, or put a checkpoint from before the upgrade in its place"


@pytest.mark.parametrize(
    ("row", "code", "told"),
    [
        (newer_format, DATA, f"got {FORMAT + 1}, which version 9.8.7 wrote. {WAY_BACK}"),
        (row_of_unknown_version, DAMAGED, "a ServerRow must have version"),
        (damaged_row, DAMAGED, "the store is damaged"),
    ],
)
def test_a_store_that_this_version_cannot_read_is_refused_and_left_alone(
    tmp_path: Path, row: Callable[[Path], bytes], code: int, told: str
) -> None:
    ((family, key),) = opening.server_changes(ServerRow(FORMAT, b"s" * 16))
    store = RocksStore(tmp_path / "store")
    store.write({(family, key): row(tmp_path)})
    store.flush()
    store.close()
    refused("--data", str(tmp_path), "--listen", "127.0.0.1:0", code=code, named=(str(tmp_path), told))
    store = RocksStore(tmp_path / "store")
    try:
        assert store.get(Family.CRAWLS, key) == row(tmp_path)
    finally:
        store.close()


def test_a_store_with_kinds_of_rows_that_only_a_later_version_knows_is_refused(tmp_path: Path) -> None:
    RocksStore(tmp_path / "store").close()
    options = table_options(Cache(MIB))
    families = {family.value: options for family in Family}
    database = Rdict(str(tmp_path / "store"), options, families)
    database.create_column_family("later", options)
    database.close()
    named = ("a later version of Toehold wrote", "(later)", WAY_BACK)
    refused("--data", str(tmp_path), "--listen", "127.0.0.1:0", code=DATA, named=named)


@pytest.mark.undivided("looks into the store")
def test_a_server_marks_its_store_with_its_version(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store")
    store.write(opening.new_store(b"s" * 16, 1, SUFFIXES))
    store.close()
    with ServerProcess(tmp_path) as server:
        server.stop()
    store = RocksStore(tmp_path / "store")
    row = opening.server_row(store)
    store.close()
    assert (row.format, row.version) == (FORMAT, metadata.version("toehold-crawler"))


def test_an_address_beyond_loopback_needs_a_word_of_consent(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0"):
        refused(
            *data,
            "--listen",
            address,
            code=USAGE,
            named=(address.rpartition(":")[0].strip("[]"), "--insecure"),
        )
    assert not (tmp_path / "data").exists()
    with ServerProcess(tmp_path / "data", "--insecure", listen="0.0.0.0:0") as server:
        assert server.address.startswith("0.0.0.0:")


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--lease-seconds", "0"), "lease_seconds"),
        (("--no-such-flag",), "--no-such-flag"),
        (("--config", "/no/such/file.toml"), "/no/such/file.toml"),
    ],
)
def test_a_flag_that_makes_no_sense_is_refused(tmp_path: Path, flags: tuple[str, ...], named: str) -> None:
    refused("--data", str(tmp_path / "data"), *flags, code=USAGE, named=(named,))
    assert not (tmp_path / "data").exists()


def test_settings_that_make_no_sense_are_refused_with_their_place(tmp_path: Path) -> None:
    settings = tmp_path / "frontier.toml"
    settings.write_text('listen = "127.0.0.1:0"\nlease_seconds = "long"\n')
    flags = ("--data", str(tmp_path / "data"), "--config", str(settings))
    refused(*flags, code=USAGE, named=(str(settings), "lease_seconds"))


# Ending.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_at_once_when_told_though_callers_wait(tmp_path: Path, number: signal.Signals) -> None:
    with ServerProcess(tmp_path / "data") as server:
        stubs = server.stubs
        stubs.launch("t", seed_of("t"))
        stubs.pages("t")
        polls = [
            stubs.frontier.Next.future(next_request("t", wait_s=60, node=f"n{place}"), timeout=70)
            for place in range(3)
        ]
        streams: list[Iterator[object]] = [
            stubs.frontier.StateEvents(frontier_pb2.StateEventsRequest(crawl="t")) for _ in range(3)
        ]
        streams.append(stubs.admin.StreamOutcomes(admin_pb2.StreamOutcomesRequest(crawl="t", follow=True)))
        for stream in streams:
            next(stream)
        eventually(lambda: len(nodes(server)) == 4, "the calls to arrive")
        code, took_s = server.stop(number)
        assert (code, took_s < QUICK_S) == (0, True), (code, took_s)
        for poll in polls:
            assert refused_with(lambda poll=poll: poll.result(TIMEOUT_S)) == "SHUTTING_DOWN"  # type: ignore[misc]  # bound by its default
        for stream in streams:
            assert refused_with(lambda stream=stream: list(stream)) == "SHUTTING_DOWN"  # type: ignore[misc]  # bound by its default
        assert "Traceback" not in server.errors.read_text()


def test_a_stream_that_its_caller_leaves_open_holds_up_the_end_for_a_few_seconds_only(tmp_path: Path) -> None:
    left_open = threading.Event()

    def seeds() -> Iterator[admin_pb2.AddSeedsRequest]:
        yield admin_pb2.AddSeedsRequest(crawl="t", uris=[seed_of("t")])
        left_open.wait(PATIENCE_S)

    with ServerProcess(tmp_path / "data") as server:
        server.stubs.create("t")
        call = server.stubs.admin.AddSeeds.future(seeds(), timeout=70)
        eventually(lambda: server.stubs.describe("t").seed_count == 1, "the seed to arrive")
        code, took_s = server.stop()
        left_open.set()
        assert (code, took_s < GRACE_S + QUICK_S) == (0, True), (code, took_s)
        assert refusal(lambda: call.result(TIMEOUT_S)).code == grpc.StatusCode.UNAVAILABLE
    with ServerProcess(tmp_path / "data") as server:
        assert server.stubs.describe("t").seed_count == 1  # a whole message, stored


def nodes(server: ServerProcess) -> list[str]:
    answer = server.stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=TIMEOUT_S)
    return [node.node for node in answer.nodes]


def refused_with(call: Callable[[], object]) -> str:
    problem = refusal(call)
    assert problem.code == grpc.StatusCode.UNAVAILABLE
    return problem.reason


def test_it_stops_when_its_standard_input_ends(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--until-stdin-ends", stdin_pipe=True) as server:
        server.stubs.launch("t", seed_of("t"))
        began_s = time.monotonic()
        server.end_stdin()
        assert server.wait() == 0
        assert time.monotonic() - began_s < QUICK_S


def test_it_does_not_stop_at_the_end_of_standard_input_unless_told(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", stdin_pipe=True) as server:
        server.end_stdin()
        server.stubs.launch("t", seed_of("t"))
        assert server.child.poll() is None


def test_an_orphan_says_that_it_no_longer_serves_and_waits_for_nodes_to_hand_their_leases_back(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data", "--until-stdin-ends", stdin_pipe=True) as server:
        stubs = server.stubs
        stubs.launch("t", seed_of("t"))
        (lease,) = stubs.pages("t")
        server.end_stdin()
        eventually(lambda: health(server) == health_pb2.HealthCheckResponse.NOT_SERVING, "the end of service")
        assert stubs.finish(released(lease)) == [("RELEASED", False)]
        assert server.wait() == 0
    with ServerProcess(tmp_path / "data") as server:
        assert server.stubs.statistics("t").leased_count == 0


def health(server: ServerProcess) -> object:
    request = health_pb2.HealthCheckRequest(service="toehold.frontier.v1.FrontierService")
    stub = health_pb2_grpc.HealthStub(server.stubs.channel)
    check = stub.Check  # type: ignore[attr-defined]  # made at run time
    return check(request, timeout=TIMEOUT_S).status


@pytest.mark.undivided("a shard whose store fails is started again")
def test_when_the_disk_fails_it_ends_with_its_own_code_and_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files, set from outside, stands for a disk that is full."""
    acknowledged: list[str] = []
    with ServerProcess(tmp_path / "data") as server:
        stubs = server.stubs
        stubs.launch("t", seed_of("t"))
        resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (256 * 1024, 256 * 1024))
        problem: Refusal | None = None
        for batch in range(1000):
            uris = [f"{seed_of('t')}{batch}/{number}" for number in range(100)]
            try:
                stubs.frontier.Schedule(schedule_request("t", *uris), timeout=TIMEOUT_S)
            except grpc.RpcError as error:
                problem = Refusal.of(error)
                break
            acknowledged += uris
        assert problem is not None, "the disk does not fail"
        assert problem.code == grpc.StatusCode.UNAVAILABLE, problem
        assert server.wait() == STORE
        told = [line for line in server.errors.read_text().splitlines() if not line.startswith("{")]
        assert len(told) == 1 and told[0].startswith("toehold-frontier: the store failed"), told
    with ServerProcess(tmp_path / "data") as server:
        for first in range(0, len(acknowledged), 1000):
            verdicts = server.stubs.schedule("t", *acknowledged[first : first + 1000])
            assert set(verdicts) == {"ALREADY_SEEN"}
        assert server.stubs.describe("t").status.state == crawl_pb2.CRAWL_STATE_RUNNING


@pytest.mark.undivided("each shard has a crawl.log")
def test_a_log_that_cannot_be_written_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    obstacle = tmp_path / "data" / "crawls" / "t" / "crawl.log"
    obstacle.mkdir(parents=True)
    with ServerProcess(tmp_path / "data") as server:
        server.stubs.launch("t", seed_of("t"))
        (lease,) = server.stubs.pages("t")
        assert server.stop()[0] == 0
        assert "Traceback" not in server.errors.read_text()
    obstacle.rmdir()
    with ServerProcess(tmp_path / "data") as server:
        assert server.stubs.finish(report(lease)) == [("SUCCEEDED", False)]
        server.stop()
    assert len(obstacle.read_text().splitlines()) == 2  # robots.txt, which had waited, and the page


def test_a_port_is_free_again_as_soon_as_it_has_stopped(tmp_path: Path) -> None:
    """Nodes need no restart: the frontier comes back where it was."""
    with KeptPort() as kept:
        for _ in range(2):
            with ServerProcess(tmp_path / "data", listen=kept.address) as server:
                assert server.address == kept.address
                server.stubs.next()  # a connection, which lingers when the server ends it
                server.stop()
