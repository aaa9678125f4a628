"""`toehold nodes`: which node is meant, what is asked of it, what is printed, and how it ends."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from client_doubles.command_line import WHEN, said
from client_doubles.fake_frontier import NODE, FakeFrontier, Refusal, serving
from frontier_harness.command_line import Toehold
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import admin_pb2
from toehold.frontier.v1.frontier_pb2 import PoolStatistics, ToeStepCount
from toehold.node.v1 import node_pb2

HEARD_S = 1_800_000_000
PRESENT = admin_pb2.NODE_PRESENCE_PRESENT
SILENT = admin_pb2.NODE_PRESENCE_SILENT
LOST = admin_pb2.NODE_PRESENCE_LOST
LEFT = admin_pb2.NODE_PRESENCE_LEFT
STATISTICS = PoolStatistics(size=4, alive_count=3, died_count=2, killed_count=5, abandoned_count=1)
STEPS = [ToeStepCount(step="ABOUT_TO_GET_URI", count=1), ToeStepCount(step="FETCHING", count=2)]
HOSTILE = "http://a.example/\x1b[2J\x07?a=\u202eb"
SHOWN = r"http://a.example/\x1b[2J\x07?a=\u202eb"


@pytest.fixture
def node() -> FakeFrontier:
    """Has nothing in line yet."""
    return FakeFrontier()


@pytest.fixture
def at(node: FakeFrontier) -> Iterator[str]:
    """Where `node` listens."""
    with serving(node, services=NODE) as bound:
        yield bound


def listed(name: str, address: str = "", *, ago_s: int = 0, **more: Any) -> admin_pb2.Node:
    """A node of the frontier's list, by default one that is present."""
    heard = Timestamp(seconds=HEARD_S - ago_s)
    return admin_pb2.Node(
        node=name, last_seen_time=heard, service_address=address, **{"presence": PRESENT, **more}
    )


def hears(frontier: FakeFrontier, *nodes: admin_pb2.Node) -> None:
    """The frontier will list these nodes, the latest first."""
    lease = Duration(seconds=30)
    frontier.will("GetFrontier", admin_pb2.GetFrontierResponse(nodes=nodes, lease_duration=lease))


def pool(name: str = "n1", *workers: node_pb2.Worker, draining: bool = False) -> node_pb2.GetPoolResponse:
    return node_pb2.GetPoolResponse(
        node=name,
        frontier_address="127.0.0.1:7707",
        draining=draining,
        pool=STATISTICS,
        toe_steps=STEPS,
        workers=workers,
    )


def toe(serial: int, at_uri_s: int = 0, uri: str = "", step_s: int = 1, **more: Any) -> node_pb2.Toe:
    return node_pb2.Toe(
        **{"worker": 1, "step": "FETCHING" if uri else "ABOUT_TO_GET_URI", **more},
        serial=serial,
        uri=uri,
        step_duration=Duration(seconds=step_s),
        uri_duration=Duration(seconds=at_uri_s),
    )


def toes(*listed: node_pb2.Toe) -> node_pb2.ListToesResponse:
    return node_pb2.ListToesResponse(toes=listed)


def rows(output: str) -> list[list[str]]:
    """The cells of a table, without its heading."""
    return [[cell for cell in line.split("  ") if cell] for line in output.splitlines()[1:]]


def test_nodes_command_sends_no_token_in_plain_text_to_an_announced_address(
    toehold_at: Toehold, frontier: FakeFrontier, node: FakeFrontier, at: str, tmp_path: Path
) -> None:
    """Be it of this machine: whoever has a port there could read it. One that a person names may have it."""
    token = tmp_path / "token"
    token.write_text("secret")
    hears(frontier, listed("n1", at))
    code, _, errors = toehold_at("nodes", "toes", "n1", "--token-file", str(token))
    assert code != 0 and "could read your token" in " ".join(errors.split())
    assert not node.asked


# list


def test_list_tells_what_became_of_toe_threads_and_who_drains(
    toehold_at: Toehold, frontier: FakeFrontier
) -> None:
    hears(
        frontier,
        listed("n1", "10.0.0.1:7708", pool=STATISTICS, draining=True, leased_count=7, toe_steps=STEPS),
        listed("foreign", toe_steps=STEPS, pool_size=9),
    )
    code, output, _ = toehold_at("nodes")
    steps = "ABOUT_TO_GET_URI: 1, FETCHING: 2"
    assert code == 0
    *told, summary = rows(output)
    assert [[cell.strip() for cell in row] for row in told] == [
        ["n1", "present, drains", "7", "3/4", "-", "2/5/1", WHEN, "10.0.0.1:7708", steps],
        ["foreign", "present", "0", "3", "9", "-", WHEN, "-", steps],
    ]
    assert summary == ["1 node works, with 3 toe threads; 1 drains."]


def test_list_has_a_line_for_each_shard_of_several(toehold_at: Toehold, frontier: FakeFrontier) -> None:
    busy = admin_pb2.Shard(
        shard=0,
        present=True,
        queued_count=1_234,
        leased_count=7,
        finished_per_second=12.34,
        busy_core_count=0.987,
        memory_bytes=123_456_789,
        store_bytes=4_321,
    )
    shards = [busy, admin_pb2.Shard(shard=1)]
    frontier.will("GetFrontier", admin_pb2.GetFrontierResponse(nodes=[listed("n1")], shards=shards))
    code, output, _ = toehold_at("nodes")
    told = [[cell.strip() for cell in row] for row in rows(output.partition("\n\n")[2])]
    assert (code, told) == (
        0,
        [
            ["0", "present", "1 234", "7", "12.3", "0.99", "123.5 MB", "4.3 kB"],
            ["1", "away", "-", "-", "-", "-", "-", "-"],
        ],
    )


def test_list_says_it_all_to_programs(toehold_at: Toehold, frontier: FakeFrontier) -> None:
    hears(frontier, listed("n1", "10.0.0.1:7708", pool=STATISTICS, draining=True))
    (told,) = said(toehold_at("nodes", "list", "--json")[1])
    assert (told["node"], told["service_address"], told["draining"]) == ("n1", "10.0.0.1:7708", True)
    assert told["pool"]["abandoned_count"] == 1


@pytest.mark.parametrize(
    ("presence", "seen_ago_s", "words"),
    [
        (SILENT, 25, "silent for 25 s"),
        (LOST, 30 + 185, "lost 3 min ago"),
        (LOST, 30 + 7_500, "lost 2 h ago"),
        (LEFT, 5, "left 5 s ago"),
    ],
)
def test_toe_threads_of_a_node_that_is_not_present_do_not_count(
    toehold_at: Toehold,
    frontier: FakeFrontier,
    monkeypatch: pytest.MonkeyPatch,
    presence: admin_pb2.NodePresence.ValueType,
    seen_ago_s: int,
    words: str,
) -> None:
    monkeypatch.setattr("toehold_client.watching.presence.time.time", lambda: HEARD_S)
    gone = listed("n1", ago_s=seen_ago_s, presence=presence, pool=STATISTICS, toe_steps=STEPS)
    hears(frontier, gone)
    row, (summary,) = rows(toehold_at("nodes")[1])
    assert [row[0], row[1].strip(), row[3].strip(), row[-1].strip()] == ["n1", words, "-", "-"]
    assert summary.startswith("No node works; 1 ")


def test_nodes_that_do_not_work_are_counted_apart(toehold_at: Toehold, frontier: FakeFrontier) -> None:
    hears(
        frontier,
        listed("a", pool=STATISTICS),
        listed("b", toe_steps=STEPS),
        listed("c", draining=True, pool=STATISTICS),
        listed("d", presence=SILENT, pool=STATISTICS),
        listed("e", presence=LOST, draining=True, pool=STATISTICS),
        listed("f", presence=LOST, pool=STATISTICS),
        listed("g", presence=LEFT),
    )
    summary = toehold_at("nodes")[1].splitlines()[-1]
    assert summary == "2 nodes work, with 6 toe threads; 1 drains, 1 is silent, 2 are lost, 1 left."


def test_two_processes_under_one_name_are_a_warning_with_advice(
    toehold_at: Toehold, frontier: FakeFrontier
) -> None:
    hears(frontier, listed("n1", session="s-2", rival_session="s-1"), listed("n2"))
    code, _, errors = toehold_at("nodes")
    assert (code, errors.count("\n")) == (0, 1)
    assert errors.startswith("Warning: two processes use the name 'n1', so the frontier refuses one of them")
    assert "(session s-1). End one, or restart it with another --name." in errors


def test_without_a_node_the_list_tells_how_to_start_one(
    toehold_at: Toehold, frontier: FakeFrontier, address: str
) -> None:
    hears(frontier)
    output = toehold_at("nodes")[1]
    assert (
        output.splitlines()[1]
        == f"No node has called. To start one: toehold-node --frontier {address} --warc DIR"
    )


# forget


def test_forget_removes_the_processes_that_are_gone(toehold_at: Toehold, frontier: FakeFrontier) -> None:
    hears(frontier, listed("n1/1"), listed("n1/2", presence=LOST), listed("n1/3", presence=LEFT))
    frontier.will("ForgetNode", *[admin_pb2.ForgetNodeResponse()] * 2)
    assert toehold_at("nodes", "forget", "n1") == (0, "n1/2, n1/3: forgotten\n", "")
    assert [request.node for request in frontier.asked["ForgetNode"]] == ["n1/2", "n1/3"]


def test_a_node_that_is_there_is_not_forgotten(toehold_at: Toehold, frontier: FakeFrontier) -> None:
    hears(frontier, listed("n1"))
    message = "node 'n1' is PRESENT"
    frontier.will("ForgetNode", Refusal(grpc.StatusCode.FAILED_PRECONDITION, message, "NODE_PRESENT"))
    assert toehold_at("nodes", "forget", "n1") == (5, "", f"Error: {message}\n")


def test_a_node_that_the_frontier_does_not_know_cannot_be_forgotten(
    toehold_at: Toehold, frontier: FakeFrontier
) -> None:
    hears(frontier)
    frontier.will("ForgetNode", Refusal(grpc.StatusCode.NOT_FOUND, "no node 'n9'", "UNKNOWN_NODE"))
    assert toehold_at("nodes", "forget", "n9") == (9, "", "Error: no node 'n9'\n")


# Which node


def test_a_node_is_found_by_the_name_that_its_frontier_lists(
    toehold_at: Toehold, frontier: FakeFrontier, node: FakeFrontier, at: str
) -> None:
    hears(frontier, listed("other", "127.0.0.1:1"), listed("n1", at))
    node.will("GetPool", pool(), pool())
    code, output, errors = toehold_at("nodes", "show", "n1", "--json")
    assert (code, errors, json.loads(output)["node"]) == (0, "", "n1")


@pytest.mark.parametrize("name", ["n1", "n1/2"])
def test_the_processes_of_a_node_lead_to_it(
    toehold_at: Toehold, frontier: FakeFrontier, node: FakeFrontier, at: str, name: str
) -> None:
    hears(frontier, listed("n1/2", at), listed("n1/1", at), listed("n1/x", "127.0.0.1:1"))
    node.will("GetPool", pool("n1"), pool("n1"))
    assert toehold_at("nodes", "show", name)[0] == 0


def test_a_lost_node_does_not_hide_its_successor(
    toehold_at: Toehold, frontier: FakeFrontier, node: FakeFrontier, at: str
) -> None:
    hears(frontier, listed("n1/1", at), listed("n1", "127.0.0.1:1", presence=LOST))
    node.will("GetPool", pool("n1"), pool("n1"))
    assert toehold_at("nodes", "show", "n1")[0] == 0


def test_at_an_address_no_frontier_is_asked(
    toehold_at: Toehold, frontier: FakeFrontier, node: FakeFrontier, at: str
) -> None:
    node.will("GetPool", pool("whoever"))
    assert toehold_at("nodes", "show", "--at", at)[0] == 0
    assert not frontier.asked


def test_a_node_that_the_frontier_does_not_hear_is_told_with_those_that_it_does(
    toehold_at: Toehold, frontier: FakeFrontier, address: str
) -> None:
    hears(frontier, listed("n1"), listed("n2"))
    wanted = f"Error: the frontier at {address} has no node 'n3'; it has n1, n2\n"
    assert toehold_at("nodes", "toes", "n3") == (9, "", wanted)


def test_a_node_that_cannot_be_asked_is_told(toehold_at: Toehold, frontier: FakeFrontier) -> None:
    hears(frontier, listed("n1"))
    code, output, errors = toehold_at("nodes", "toes", "n1")
    assert (code, output) == (3, "")
    assert "has no address for 'n1'" in errors and "--at" in errors


def test_a_node_that_does_not_answer_is_told_with_when_it_was_last_seen(
    toehold_at: Toehold, frontier: FakeFrontier
) -> None:
    hears(frontier, listed("n1", "127.0.0.1:1"))
    code, _, errors = toehold_at("nodes", "show", "n1")
    assert code == 3
    assert errors.startswith("Error: no node answers at 127.0.0.1:1 (")
    assert errors.endswith(f"; 'n1' was last seen at {WHEN}\n")


def test_another_node_at_the_address_is_not_taken_for_the_one_meant(
    toehold_at: Toehold, frontier: FakeFrontier, node: FakeFrontier, at: str
) -> None:
    hears(frontier, listed("n1", at))
    node.will("GetPool", pool("n2"))
    code, _, errors = toehold_at("nodes", "kill", "n1", "3")
    assert code == 3
    assert f"'n2' answers at {at}, not 'n1'" in errors
    assert not node.asked["KillToe"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("show", "n1", "n2"),
        ("toes", "n1", "--at", "127.0.0.1:1"),
        ("show", "--at", "127.0.0.1:1", "--frontier", "127.0.0.1:2"),
        ("show", "--at", "127.0.0.1:1", "--dir", "."),
        ("show", "--at", "nowhere"),
        ("kill", "n1"),
        ("kill", "n1", "0"),
        ("kill", "n1", "first"),
        ("kill", "n1", "9223372036854775808"),
        ("kill", "n1", "1", "--worker", "0"),
        ("resize", "default", "--at", "127.0.0.1:1"),
        ("resize", "5", "--node", "n1", "--at", "127.0.0.1:1"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    toehold_at: Toehold, frontier: FakeFrontier, arguments: tuple[str, ...]
) -> None:
    code, output, errors = toehold_at("nodes", *arguments)
    assert (code, output) == (2, "")
    assert "Error: " in errors
    assert not frontier.asked


# show


def test_show_tells_the_pool_its_steps_and_its_processes(
    toehold_at: Toehold, node: FakeFrontier, at: str
) -> None:
    well = node_pb2.Worker(
        worker=1,
        process_id=4711,
        start_time=Timestamp(seconds=HEARD_S),
        pool=STATISTICS,
        unreported_count=6,
        restart_count=1,
    )
    node.will("GetPool", pool("n1", well, node_pb2.Worker(worker=2, process_id=4712, silent=True)))
    code, output, _ = toehold_at("nodes", "show", "--at", at)
    assert code == 0
    facts, _, table = output.partition("\n\n")
    assert [line.rsplit("  ", 1)[-1].strip() for line in facts.splitlines()] == [
        "n1",
        "127.0.0.1:7707",
        "fetches",
        "3 of 4",
        "1",
        "2",
        "2",
        "5",
        "1",
        "6 finished pages",
    ]
    assert "  FETCHING  " in facts and "left behind" in facts
    assert [[cell.strip() for cell in row] for row in rows(table)] == [
        ["1", "4711", WHEN, "3/4", "2/5/1", "6", "1", "answers"],
        ["2", "4712", "-", "-", "-", "-", "0", "silent"],
    ]


def test_show_tells_that_a_node_drains(toehold_at: Toehold, node: FakeFrontier, at: str) -> None:
    node.will("GetPool", pool(draining=True))
    assert "drains, and then ends" in toehold_at("nodes", "show", "--at", at)[1]


# toes


def test_toes_begins_with_those_that_are_at_their_uri_for_longest(
    toehold_at: Toehold, node: FakeFrontier, at: str
) -> None:
    """Section 2.20: threads by time is how an operator finds one that is stuck."""
    node.will(
        "ListToes",
        toes(
            toe(1, step_s=500),
            toe(2, 3, "http://b.example/", step_s=2),
            toe(3, 4_020, "http://a.example/", step="EXTRACTING", abandoned=True, killed=True),
            toe(4, 70, "http://c.example/", killed=True, worker=2),
            toe(5, step_s=900, retired=True),
        ),
    )
    code, output, _ = toehold_at("nodes", "toes", "--at", at)
    assert code == 0
    assert [[cell.strip() for cell in row] for row in rows(output)] == [
        ["1", "3", "EXTRACTING, left behind", "1.0 s", "1 h 07 min", "http://a.example/"],
        ["2", "4", "FETCHING, killed", "1.0 s", "1 min 10 s", "http://c.example/"],
        ["1", "2", "FETCHING", "2.0 s", "3.0 s", "http://b.example/"],
        ["1", "5", "ABOUT_TO_GET_URI, retired", "15 min 00 s", "-", "-"],
        ["1", "1", "ABOUT_TO_GET_URI", "8 min 20 s", "-", "-"],
    ]
    assert node.asked["ListToes"] == [node_pb2.ListToesRequest()]


def test_toes_are_told_to_programs_with_how_they_got_there(
    toehold_at: Toehold, node: FakeFrontier, at: str
) -> None:
    node.will("ListToes", toes(toe(1), toe(2, 3, "http://b.example/", via="http://a.example/", path="LL")))
    first, second = said(toehold_at("nodes", "toes", "--at", at, "--json")[1])
    assert (first["serial"], first["via"], first["path"]) == (2, "http://a.example/", "LL")
    assert (first["uri_seconds"], first["step_seconds"], second["uri"]) == (3.0, 1.0, "")


def test_only_so_many_toes_are_listed_and_that_there_are_more_is_told(
    toehold_at: Toehold, node: FakeFrontier, at: str
) -> None:
    node.will("ListToes", toes(*(toe(n, n, "http://a.example/") for n in range(1, 4))))
    _, output, errors = toehold_at("nodes", "toes", "--at", at, "--limit", "2")
    assert ([row[1].strip() for row in rows(output)], "more than 2" in errors) == (["3", "2"], True)


def test_stacks_tell_where_in_the_program_each_toe_is(
    toehold_at: Toehold, node: FakeFrontier, at: str
) -> None:
    node.will("ListToes", toes(toe(2, 3, HOSTILE, stack='  File "extract.py", line 5\n    loop(\x1b[0m)\n')))
    code, output, _ = toehold_at("nodes", "toes", "--stacks", "--at", at)
    assert code == 0
    assert output.splitlines() == [
        f"toe 2 of process 1: FETCHING for 1.0 s, for 3.0 s at {SHOWN}",
        '    File "extract.py", line 5',
        r"      loop(\x1b[0m)",
    ]
    assert node.asked["ListToes"] == [node_pb2.ListToesRequest(stacks=True)]


@pytest.mark.parametrize("arguments", [(), ("--stacks",)])
def test_what_a_uri_tells_a_terminal_is_shown_and_not_obeyed(
    toehold_at: Toehold, node: FakeFrontier, at: str, arguments: tuple[str, ...]
) -> None:
    node.will("ListToes", toes(toe(2, 3, HOSTILE)))
    output = toehold_at("nodes", "toes", "--at", at, *arguments)[1]
    assert SHOWN in output
    assert all(char.isprintable() or char == "\n" for char in output)


@pytest.mark.parametrize("command", ["list", "show", "toes"])
def test_on_a_terminal_of_80_columns_no_line_is_longer(
    frontier: FakeFrontier, address: str, node: FakeFrontier, at: str, command: str, tmp_path: Path
) -> None:
    hears(frontier, listed("n" * 128, "10.0.0.1:7708", pool=STATISTICS, draining=True, toe_steps=STEPS))
    well = node_pb2.Worker(worker=1, process_id=4_194_303, pool=STATISTICS, start_time=Timestamp(seconds=1))
    node.will("GetPool", pool("n" * 128, well))
    node.will("ListToes", toes(toe(2, 3, HOSTILE + "x" * 2_000, step="ABOUT_TO_GET_URI", abandoned=True)))
    which = ("--frontier", address) if command == "list" else ("--at", at)
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "toehold_cli", "nodes", command, *which],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
    ) as process:
        os.close(terminal)
        shown = b""
        while part := _read(screen):
            shown += part
    os.close(screen)
    assert process.returncode == 0
    lines = shown.decode().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    tables = [line for line in lines if not line.startswith("node ")]
    assert len(tables) > 3
    assert max(map(len, tables)) <= 80
    assert "\x1b[2J" not in shown.decode()


def _read(screen: int) -> bytes:
    try:
        return os.read(screen, 65_536)
    except OSError:  # EIO: nobody has it open any more
        return b""


# kill


@pytest.mark.parametrize(
    ("arguments", "request_", "told"),
    [
        ((), node_pb2.KillToeRequest(serial=3, replace=True), "another one replaces it"),
        (
            ("--worker", "2", "--no-replace"),
            node_pb2.KillToeRequest(worker=2, serial=3),
            "the pool is one smaller",
        ),
    ],
)
def test_kill_names_a_toe_thread(
    toehold_at: Toehold,
    frontier: FakeFrontier,
    node: FakeFrontier,
    at: str,
    arguments: tuple[str, ...],
    request_: node_pb2.KillToeRequest,
    told: str,
) -> None:
    hears(frontier, listed("n1", at))
    node.will("GetPool", pool())
    node.will("KillToe", node_pb2.KillToeResponse())
    wanted = f"n1: toe thread 3 is being killed; {told}\n"
    assert toehold_at("nodes", "kill", "n1", "3", *arguments) == (0, wanted, "")
    assert node.asked["KillToe"] == [request_]


@pytest.mark.parametrize(
    ("code", "reason", "exit_code"),
    [
        (grpc.StatusCode.NOT_FOUND, "UNKNOWN_TOE", 9),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT_VALUE", 2),
        (grpc.StatusCode.UNAVAILABLE, "WORKER_SILENT", 3),
    ],
)
def test_a_kill_that_is_refused_ends_with_its_exit_code(
    toehold_at: Toehold, node: FakeFrontier, at: str, code: grpc.StatusCode, reason: str, exit_code: int
) -> None:
    node.will("KillToe", Refusal(code, "the node's own words", reason))
    wanted = (exit_code, "", "Error: the node's own words\n")
    assert toehold_at("nodes", "kill", "3", "--at", at) == wanted


def test_kill_tells_programs_what_it_asked_for(toehold_at: Toehold, node: FakeFrontier, at: str) -> None:
    node.will("KillToe", node_pb2.KillToeResponse())
    output = toehold_at("nodes", "kill", "3", "--at", at, "--json")[1]
    assert json.loads(output) == {"node": at, "worker": None, "serial": 3, "replace": True}


# resize and drain


def test_a_node_of_several_processes_is_resized_by_shares(
    toehold_at: Toehold, frontier: FakeFrontier
) -> None:
    hears(frontier, listed("n1/2"), listed("n1/1"), listed("n1/3", presence=LEFT), listed("n2"))
    frontier.will("SetPoolSize", *[admin_pb2.SetPoolSizeResponse()] * 2)
    assert toehold_at("nodes", "resize", "7", "--node", "n1") == (0, "n1: 7 toe threads\n", "")
    asked = {request.node: request.size for request in frontier.asked["SetPoolSize"]}
    assert asked == {"n1/1": 4, "n1/2": 3}


def test_a_node_that_has_not_been_seen_yet_is_resized_for_when_it_is(
    toehold_at: Toehold, frontier: FakeFrontier
) -> None:
    hears(frontier)
    frontier.will("SetPoolSize", admin_pb2.SetPoolSizeResponse())
    assert toehold_at("nodes", "resize", "7", "--node", "later")[0] == 0
    assert frontier.asked["SetPoolSize"] == [admin_pb2.SetPoolSizeRequest(node="later", size=7)]


def test_a_node_at_an_address_is_resized_itself(toehold_at: Toehold, node: FakeFrontier, at: str) -> None:
    node.will("SetPoolSize", node_pb2.SetPoolSizeResponse())
    assert toehold_at("nodes", "resize", "7", "--at", at) == (0, f"{at}: 7 toe threads\n", "")
    assert node.asked["SetPoolSize"] == [node_pb2.SetPoolSizeRequest(size=7)]


def test_a_node_that_drains_is_not_resized(toehold_at: Toehold, node: FakeFrontier, at: str) -> None:
    node.will("SetPoolSize", Refusal(grpc.StatusCode.FAILED_PRECONDITION, "the node drains", "DRAINING"))
    assert toehold_at("nodes", "resize", "7", "--at", at) == (5, "", "Error: the node drains\n")


def test_drain_asks_the_frontier_for_each_process(toehold_at: Toehold, frontier: FakeFrontier) -> None:
    hears(frontier, listed("n1/2"), listed("n1/1"), listed("n2"))
    frontier.will("DrainNode", *[admin_pb2.DrainNodeResponse()] * 2)
    wanted = "n1: drains, and ends once its fetches have ended\n"
    assert toehold_at("nodes", "drain", "n1") == (0, wanted, "")
    assert {request.node for request in frontier.asked["DrainNode"]} == {"n1/1", "n1/2"}


def test_drain_of_an_unknown_node_is_refused_in_the_frontiers_words(
    toehold_at: Toehold, frontier: FakeFrontier
) -> None:
    hears(frontier)
    frontier.will("DrainNode", Refusal(grpc.StatusCode.NOT_FOUND, "no node 'n9' is heard", "UNKNOWN_NODE"))
    assert toehold_at("nodes", "drain", "n9") == (9, "", "Error: no node 'n9' is heard\n")


def test_drain_at_an_address_asks_the_node(toehold_at: Toehold, node: FakeFrontier, at: str) -> None:
    node.will("Drain", node_pb2.DrainResponse())
    assert json.loads(toehold_at("nodes", "drain", "--at", at, "--json")[1]) == {"node": at, "draining": True}
    assert node.asked["Drain"] == [node_pb2.DrainRequest()]
