"""A frontier of several shards as processes: how it starts, how its members come back, and how it ends."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import grpc
import pytest
from frontier_harness import ill_member
from frontier_harness.access import Installation
from frontier_harness.calls import TIMEOUT_S, Refusal, Stubs, fresh_name, named
from frontier_harness.command_line import toehold_of
from frontier_harness.members import is_running, kill, members
from frontier_harness.ports import KeptPort
from frontier_harness.process import NotServing, ServerProcess, line_of, run_to_end
from frontier_harness.waiting import eventually
from grpc_health.v1 import health_pb2, health_pb2_grpc

from frontier_server.core.opening import opening
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2
from toehold_base.access.shown import CALLER_KEY
from toehold_base.access.tokens import AUTHORIZATION, bearer

USAGE, LISTEN, DATA, STORE, DAMAGED, IN_USE = 2, 3, 4, 5, 6, 7
SHARDS = ("--shards", "2")
NAMES = {"shard-0", "shard-1", "front"}
FOLDERS = ("coordinator", "shard-0000", "shard-0001")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(data: Path) -> Iterator[ServerProcess]:
    with ServerProcess(data, *SHARDS) as served:
        yield served


def status_of(address: str, service: str = "") -> str:
    """What the health service says."""
    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check  # type: ignore[attr-defined]  # made at run time
        answer = check(health_pb2.HealthCheckRequest(service=service), timeout=TIMEOUT_S)
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def is_healthy(address: str) -> bool:
    with suppress(grpc.RpcError):
        return status_of(address) == "SERVING"
    return False


def serves(server: ServerProcess, name: str) -> bool:
    """Whether a member serves."""
    if name == "front":
        return is_healthy(server.address)
    return is_healthy(f"unix:{server.data}/sockets/{name}.sock")


def events(server: ServerProcess, *names: str) -> list[dict[str, object]]:
    """Its log's lines about these."""
    whole = server.errors.read_text().rpartition("\n")[0]
    lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] in names]


def refused(*arguments: str, code: int, told: str) -> None:
    ended = run_to_end("--listen", "127.0.0.1:0", *arguments)
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    said = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert len(said) == 1 and re.search(told, said[0]), ended.stderr


# Starting.


def test_a_start_prints_one_line_once_each_member_serves(server: ServerProcess) -> None:
    assert re.fullmatch(r"toehold-frontier serving on 127\.0\.0\.1:[1-9]\d*\n", server.ready_line)
    assert set(members(server.child)) == NAMES
    assert all(serves(server, name) for name in NAMES)
    assert {line.get("member") for line in events(server, "serving")} == NAMES
    assert server.stop()[0] == 0
    assert line_of(server.child) == ""


def test_the_console_of_the_front_tells_its_address_behind_that_line(data: Path) -> None:
    with ServerProcess(data, *SHARDS, "--console", "127.0.0.1:0") as server:
        assert server.ready_line.startswith("toehold-frontier serving on ")
        assert re.fullmatch(
            r"toehold console serving on http://127\.0\.0\.1:[1-9]\d*/\n", line_of(server.child)
        )


def test_the_stores_of_all_members_have_one_secret_and_are_for_their_owner_alone(
    server: ServerProcess, data: Path
) -> None:
    server.stop()
    secrets = set()
    for folder in FOLDERS:
        store = RocksStore(data / folder / "store")
        secrets.add(opening.server_row(store).secret)
        store.close()
        assert (data / folder).stat().st_mode & 0o777 == 0o700
    shards = json.loads((data / "shards.json").read_text())
    assert secrets == {bytes.fromhex(shards["secret"])}
    assert shards["shards"] == 2
    assert (data / "shards.json").stat().st_mode & 0o777 == 0o600


def test_a_start_without_the_option_takes_the_shards_of_the_directory(
    server: ServerProcess, data: Path
) -> None:
    server.stop()
    with ServerProcess(data) as again:
        assert set(members(again.child)) == NAMES


def test_members_have_the_options_of_the_frontier(tmp_path: Path, data: Path) -> None:
    settings = tmp_path / "frontier.toml"
    settings.write_text('shards = 2\nlog_level = "warning"\nlease_seconds = 77\n')
    with ServerProcess(data, "--config", str(settings), "--heartbeat-seconds", "5") as server:
        for process in members(server.child).values():
            command = Path(f"/proc/{process}/cmdline").read_text().split("\0")
            assert {"--lease-seconds=77.0", "--heartbeat-seconds=5.0", "--log-level=warning"} <= {*command}


@pytest.mark.parametrize("wanted", [1, 3])
def test_another_number_of_shards_than_the_directory_has_is_refused(
    server: ServerProcess, data: Path, wanted: int
) -> None:
    server.stop()
    told = f"data directory {data} has 2 shards, got --shards {wanted}"
    refused("--data", str(data), "--shards", str(wanted), code=DATA, told=told)


def test_a_start_with_several_shards_refuses_an_undivided_store(data: Path) -> None:
    with ServerProcess(data) as server:
        server.stop()
    refused("--data", str(data), *SHARDS, code=DATA, told="undivided store")
    assert not (data / "shards.json").exists()


def test_a_lost_shard_is_not_replaced_by_an_empty_one(server: ServerProcess, data: Path) -> None:
    server.stop()
    (data / "shard-0001").rename(data.with_name("elsewhere"))
    refused("--data", str(data), code=DATA, told="has 2 shards, but shard-0001 has no store")
    assert not (data / "shard-0001").exists()


def test_a_lost_map_is_not_replaced_by_another_one(server: ServerProcess, data: Path) -> None:
    server.stop()
    (data / "shards.json").unlink()
    for wanted in ((), SHARDS):
        refused("--data", str(data), *wanted, code=DATA, told="has shards, but shards.json is missing")


def test_a_damaged_map_is_refused(data: Path) -> None:
    data.mkdir()
    (data / "shards.json").write_text('{"format": 1, "shards"')
    refused("--data", str(data), code=DATA, told="shards.json is damaged")


def test_a_member_serves_alone_only_if_it_is_read_only(server: ServerProcess, data: Path) -> None:
    server.stop()
    refused("--data", str(data / "shard-0000"), code=DATA, told=f"is a part of {data}")
    with ServerProcess(data / "shard-0000", "--read-only"):
        pass


def test_a_salvage_takes_one_member_and_refuses_all_at_once(server: ServerProcess, data: Path) -> None:
    server.stop()
    refused("--data", str(data), "--salvage", code=DATA, told="salvage the damaged one alone")
    (data / "shard-0001" / "store" / "CURRENT").unlink()
    told = (
        rf"data directory {data}/shard-0001: the store is damaged: .*; start once with --data "
        rf"{data}/shard-0001 --salvage to .*, or put a checkpoint set in the place of all members' stores"
    )
    refused("--data", str(data), code=DAMAGED, told=told)
    salvaged = run_to_end("--data", str(data / "shard-0001"), "--salvage")
    assert salvaged.returncode == 0, salvaged.stderr
    with ServerProcess(data) as again:
        assert set(members(again.child)) == NAMES


def test_a_member_is_salvaged_and_read_where_a_variable_has_the_number_of_shards(
    server: ServerProcess, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.stop()
    monkeypatch.setenv("TOEHOLD_FRONTIER_SHARDS", "2")
    salvaged = run_to_end("--data", str(data / "shard-0001"), "--salvage")
    assert salvaged.returncode == 0, salvaged.stderr
    with ServerProcess(data / "shard-0000", "--read-only"):
        pass
    refused("--data", str(data / "shard-0000"), code=DATA, told=f"is a part of {data}")


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("3", "has 2 shards, got TOEHOLD_FRONTIER_SHARDS=3; remove TOEHOLD_FRONTIER_SHARDS$"),
        ("4", "got TOEHOLD_FRONTIER_SHARDS=4; remove .*, or double them with 'toehold shards split'$"),
    ],
)
def test_a_refusal_names_the_variable_that_asks_for_another_number_of_shards(
    server: ServerProcess, data: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, told: str
) -> None:
    server.stop()
    monkeypatch.setenv("TOEHOLD_FRONTIER_SHARDS", wanted)
    refused("--data", str(data), code=DATA, told=told)


def test_the_health_names_a_shard_that_is_away_and_ends_with_the_last_one(
    server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = ["shard-0", "shard-1"]
    assert [status_of(server.address, name) for name in ("", *shards)] == ["SERVING"] * 3
    processes = members(server.child)
    os.kill(processes["shard-1"], signal.SIGSTOP)
    try:
        eventually(lambda: status_of(server.address, "shard-1") == "NOT_SERVING", "the shard to be missed")
        assert [status_of(server.address, name) for name in ("", "shard-0")] == ["SERVING"] * 2
        told = f"frontier at {server.address}: serving; away: shard 1\n"
        assert toehold_of(capsys)("health", "--frontier", server.address) == (0, told, "")
        os.kill(processes["shard-0"], signal.SIGSTOP)
        eventually(lambda: status_of(server.address, "") == "NOT_SERVING", "all to be missed")
        assert status_of(server.address, "toehold.frontier.v1.FrontierAdminService") == "SERVING"
    finally:
        for name in shards:
            os.kill(processes[name], signal.SIGCONT)
    eventually(lambda: status_of(server.address, "") == "SERVING", "the shards to be back")


def launched(server: ServerProcess) -> str:
    """The name of a crawl that runs, with six URIs."""
    crawl, seeds = fresh_name(), [f"http://site{number}.example/" for number in range(6)]
    server.stubs.launch(crawl, *seeds)
    eventually(lambda: server.stubs.statistics(crawl).discovered_count == 6, "the seeds")
    return crawl


def test_a_salvage_of_the_coordinator_loses_no_uris_as_the_shards_have_them(
    server: ServerProcess, data: Path
) -> None:
    crawl = launched(server)
    server.stop()
    salvaged = run_to_end("--data", str(data / "coordinator"), "--salvage")
    assert salvaged.returncode == 0, salvaged.stderr
    assert f"crawl {crawl}: its URIs are in the shards; known losses: none" in salvaged.stdout
    with ServerProcess(data) as again:
        eventually(lambda: again.stubs.statistics(crawl).queued_count == 6, "the shards to be heard")
        told = [str(event) for event in again.stubs.events_so_far(crawl) if named(event) == "problem"]
        assert len(told) == 1 and "known losses: none" in told[0], told


def test_a_teardown_goes_on_in_all_shards_after_a_salvage_of_the_coordinator(
    server: ServerProcess, data: Path
) -> None:
    crawl = launched(server)
    for name in ("shard-0", "shard-1"):
        os.kill(members(server.child)[name], signal.SIGSTOP)  # they do not hear of it
    assert server.stubs.ask("TearDownCrawl", crawl).begun
    server.kill()
    salvaged = run_to_end("--data", str(data / "coordinator"), "--salvage")
    assert salvaged.returncode == 0, salvaged.stderr
    with ServerProcess(data) as again:
        eventually(lambda: again.stubs.describe(crawl).status.torn_down, "the teardown")
        assert again.stubs.describe(crawl).status.state == crawl_pb2.CRAWL_STATE_FINISHED
        assert not again.stubs.next().leases


def test_a_directory_in_use_is_refused(server: ServerProcess, data: Path) -> None:
    refused("--data", str(data), code=DATA, told="in use by another frontier")
    refused("--data", str(data), "--read-only", code=IN_USE, told="a frontier runs on it")
    assert all(serves(server, name) for name in NAMES)


def test_a_taken_port_ends_all_members(server: ServerProcess, tmp_path: Path) -> None:
    other = tmp_path / "other"
    refused("--data", str(other), *SHARDS, "--listen", server.address, code=LISTEN, told="cannot listen")
    with ServerProcess(other):  # nothing is left locked
        pass


def test_a_read_only_frontier_of_shards_changes_nothing(server: ServerProcess, data: Path) -> None:
    server.stop()
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    with ServerProcess(data, "--read-only") as again:
        assert set(members(again.child)) == NAMES
        assert again.stop()[0] == 0
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before


# Members that die.


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_killed_member_comes_back_where_it_was(server: ServerProcess, name: str) -> None:
    before = members(server.child)
    kill(server, name)
    eventually(lambda: serves(server, name), f"{name} to come back")
    after = members(server.child)
    assert after[name] != before.pop(name)
    assert before.items() <= after.items()
    (ended,) = events(server, "member_ended")
    assert (ended["member"], ended["exit_code"]) == (name, -signal.SIGKILL)
    assert server.stop()[0] == 0
    assert line_of(server.child) == ""  # the line was said


def test_a_killed_front_comes_back_although_its_console_has_to_end_first(data: Path) -> None:
    def console_serves() -> bool:
        with closing(HTTPConnection(kept.address, timeout=TIMEOUT_S)) as connection, suppress(OSError):
            connection.request("GET", "/")
            return connection.getresponse().status < 500
        return False

    with KeptPort() as kept, ServerProcess(data, *SHARDS, "--console", kept.address) as server:
        eventually(console_serves)
        kill(server, "front")
        eventually(lambda: serves(server, "front"), "the front to come back")
        eventually(console_serves)
        assert server.stop()[0] == 0


def test_a_member_that_somebody_else_stops_comes_back(server: ServerProcess) -> None:
    kill(server, "shard-1", signal.SIGTERM)
    eventually(
        lambda: "shard-1" in members(server.child) and serves(server, "shard-1"), "shard-1 to come back"
    )


def test_a_member_that_cannot_come_back_ends_all_with_its_code(server: ServerProcess, data: Path) -> None:
    current = data / "shard-0000" / "store" / "CURRENT"
    current.rename(current.with_name("lost"))
    kill(server, "shard-0")
    assert server.wait() == DAMAGED
    said = [line for line in server.errors.read_text().splitlines() if not line.startswith("{")]
    assert len(said) == 1 and "the store is damaged" in said[0], said


def test_a_member_whose_store_fails_at_each_start_has_longer_and_longer_rests(
    data: Path,
) -> None:
    server = ServerProcess(data, *SHARDS, program=(ill_member.__file__, "shard-1", str(STORE)))
    server.begin()
    eventually(lambda: len(events(server, "member_ended")) >= 3, "three ends")
    eventually(lambda: serves(server, "shard-0"), "the other shard")
    assert server.stop()[0] == STORE
    server.let_go()
    ended = [(line["member"], line["exit_code"]) for line in events(server, "member_ended")]
    assert set(ended) == {("shard-1", STORE)}
    rests_s = [line["restart_s"] for line in events(server, "member_ended")]
    assert rests_s[:3] == [0.1, 0.2, 0.4]


def test_a_member_that_is_killed_again_and_again_is_back_soon_each_time(server: ServerProcess) -> None:
    for _ in range(6):
        seen, process = len(events(server, "member_ended")), members(server.child)["shard-0"]

        def is_back(seen: int = seen, process: int = process) -> bool:
            ended = len(events(server, "member_ended")) > seen
            return ended and members(server.child).get("shard-0", process) != process

        kill(server, "shard-0")
        eventually(is_back, "another process")
        eventually(lambda: serves(server, "shard-0"), "shard-0 to come back")
    rests_s = [float(str(line["restart_s"])) for line in events(server, "member_ended")]
    assert max(rests_s) <= 1.0, rests_s


def test_a_member_with_a_defect_ends_the_first_start(data: Path) -> None:
    server = ServerProcess(data, *SHARDS, program=(ill_member.__file__, "front", "1"))
    with pytest.raises(NotServing, match="exit code 1"):
        server.__enter__()
    with ServerProcess(data):  # and leaves what another start can go on with
        pass


def test_members_of_a_killed_supervisor_end_and_free_the_directory_and_the_port(data: Path) -> None:
    with KeptPort() as kept, ServerProcess(data, *SHARDS, listen=kept.address) as server:
        left = members(server.child)
        server.kill()
        with ServerProcess(data, listen=kept.address) as again:  # at once
            assert set(members(again.child)) == NAMES
            assert not any(map(is_running, left.values()))
            assert again.stop()[0] == 0


# Ending.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_front_first_and_then_the_shards(
    server: ServerProcess, number: signal.Signals
) -> None:
    running = members(server.child)
    assert server.stop(number)[0] == 0
    ended = [line["member"] for line in events(server, "stopped")]
    assert ended[0] == "front"
    assert set(ended) == NAMES
    assert not any(map(is_running, running.values()))


def test_a_second_signal_does_not_hurry_the_end(server: ServerProcess) -> None:
    server.child.send_signal(signal.SIGTERM)
    assert server.stop()[0] == 0
    assert len(events(server, "stopped")) == len(NAMES)


def test_a_frontier_of_shards_ends_with_its_standard_input(data: Path) -> None:
    with ServerProcess(data, *SHARDS, "--until-stdin-ends", stdin_pipe=True) as server:
        server.end_stdin()
        assert server.wait() == 0
        assert len(events(server, "stopped")) == len(NAMES)


def test_a_member_that_is_killed_while_all_end_makes_the_exit_code_that_of_the_store(
    server: ServerProcess,
) -> None:
    shard = members(server.child)["shard-1"]
    os.kill(shard, signal.SIGSTOP)
    server.child.send_signal(signal.SIGTERM)
    eventually(lambda: "shard-0" not in members(server.child), "the end of shard-0")
    os.kill(shard, signal.SIGKILL)
    assert server.wait() == STORE


# Requests.


def test_a_hangup_changes_the_level_of_all_members_and_of_those_that_come_later(
    tmp_path: Path, data: Path
) -> None:
    settings = tmp_path / "frontier.toml"
    settings.write_text('log_level = "info"\n')
    with ServerProcess(data, *SHARDS, "--config", str(settings)) as server:
        settings.write_text('log_level = "debug"\n')
        server.child.send_signal(signal.SIGHUP)
        eventually(lambda: len(events(server, "log_level_changed")) == 1 + len(NAMES), "the level to change")
        kill(server, "shard-0")
        eventually(lambda: serves(server, "shard-0"), "shard-0 to come back")
        command = Path(f"/proc/{members(server.child)['shard-0']}/cmdline").read_text().split("\0")
        assert "--log-level=debug" in command


def test_a_long_path_leaves_room_for_sockets(tmp_path: Path) -> None:
    data = tmp_path / ("d" * 90)
    with ServerProcess(data, *SHARDS) as server:
        assert set(members(server.child)) == NAMES
        assert not (data / "sockets").exists()
        assert server.stop()[0] == 0


# Callers.


def metadata_of(*callers: str) -> list[tuple[str, str]]:
    return [(CALLER_KEY, caller) for caller in callers]


def test_a_shard_judges_the_callers_that_the_front_names(tmp_path: Path, data: Path) -> None:
    installation = Installation(tmp_path / "access")
    token = installation.caller("reader", "watch")
    flags = (*SHARDS, "--callers", str(installation.callers))
    with (
        ServerProcess(data, *flags) as server,
        grpc.insecure_channel(f"unix:{server.data}/sockets/shard-0.sock") as channel,
    ):
        stubs = Stubs(channel)

        def asked(*metadata: tuple[str, str]) -> str:
            """Whether a question is answered, and whether a change is, or why not."""
            told = []
            question, change = admin_pb2.GetFrontierRequest(), admin_pb2.DeleteCrawlRequest(crawl="unknown")
            for ask in (
                lambda: stubs.admin.GetFrontier(question, timeout=TIMEOUT_S, metadata=metadata),
                lambda: stubs.admin.DeleteCrawl(change, timeout=TIMEOUT_S, metadata=metadata),
            ):
                try:
                    ask()
                    told.append("answered")
                except grpc.RpcError as error:
                    told.append(Refusal.of(error).reason)
            return ", ".join(told)

        assert asked(*metadata_of("reader")) == "answered, ROLE_MISSING"
        assert asked(*metadata_of("")) == "answered, UNKNOWN_CRAWL"  # the front itself
        installation.caller("late", "watch")  # the front may know it before the shard
        assert asked(*metadata_of("late")) == "answered, ROLE_MISSING"
        assert asked(*metadata_of("mallory")) == "CALLER_UNKNOWN, CALLER_UNKNOWN"
        assert asked() == asked((AUTHORIZATION, bearer(token))) == "CREDENTIALS_MISSING, CREDENTIALS_MISSING"
