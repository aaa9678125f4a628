"""Shell completion: names that the frontier has, the names of settings, and the shells' scripts."""

import itertools
import subprocess
import time
from collections.abc import Sequence
from types import SimpleNamespace

import grpc
import pytest
from click.shell_completion import ShellComplete
from client_doubles.fake_frontier import SILENCE, Answer, FakeFrontier, Refusal, serving
from frontier_harness.command_line import Toehold
from google.protobuf.message import Message

from toehold.frontier.v1 import admin_pb2, crawl_pb2
from toehold_cli.main import toehold

QUEUES = admin_pb2.ListQueuesResponse(
    queues=[
        admin_pb2.WorkQueue(queue_key="com,example,", host="example.com"),
        admin_pb2.WorkQueue(queue_key="com,example,#443", host="example.com"),
        admin_pb2.WorkQueue(queue_key="org,a,", host="a.org"),
    ]
)
NODES = admin_pb2.GetFrontierResponse(
    nodes=[admin_pb2.Node(node="north/2"), admin_pb2.Node(node="north/1"), admin_pb2.Node(node="south")]
)
JOBS = admin_pb2.ListJobsResponse(jobs=[admin_pb2.Job(job=12), admin_pb2.Job(job=2)])
OVERRIDES = admin_pb2.ListOverridesResponse(
    overrides=[crawl_pb2.Override(surt_prefix="http://(com,example,")]
)
CHECKPOINTS = admin_pb2.ListCheckpointsResponse(
    checkpoints=[admin_pb2.Checkpoint(checkpoint="cp-1"), admin_pb2.Checkpoint(checkpoint="x")]
)
REFUSALS = admin_pb2.ListRefusalsResponse(
    rules=[admin_pb2.RefusalRule(rule="scope.max_link_hops"), admin_pb2.RefusalRule(rule="robots")]
)


def completed(address: str, *words: str) -> list[str]:
    """The completions of the last of these words."""
    *before, incomplete = words
    shell = ShellComplete(toehold, {}, "toehold", "_TOEHOLD_COMPLETE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOEHOLD_FRONTIER", address)
        return [item.value for item in shell.get_completions(before, incomplete)]


@pytest.mark.parametrize(
    ("words", "rpc", "answer", "names"),
    [
        (("queues", "show", "com"), "ListQueues", QUEUES, ["com,example,", "com,example,#443"]),
        (("queues", "retire", "ex"), "ListQueues", QUEUES, ["example.com"]),
        (("explain", "a."), "ListQueues", QUEUES, ["a.org"]),
        (("explain", "--queue", "org"), "ListQueues", QUEUES, ["org,a,"]),
        (("uris", "list", "--queue", "o"), "ListQueues", QUEUES, ["org,a,"]),
        (("nodes", "show", "n"), "GetFrontier", NODES, ["north", "north/1", "north/2"]),
        (("nodes", "drain", "s"), "GetFrontier", NODES, ["south"]),
        (("nodes", "forget", "s"), "GetFrontier", NODES, ["south"]),
        (("nodes", "resize", "3", "--node", "s"), "GetFrontier", NODES, ["south"]),
        (("jobs", "show", "1"), "ListJobs", JOBS, ["12"]),
        (("jobs", "cancel", ""), "ListJobs", JOBS, ["12", "2"]),
        (("overrides", "delete", "http"), "ListOverrides", OVERRIDES, ["http://(com,example,"]),
        (("overrides", "put", ""), "ListOverrides", OVERRIDES, ["http://(com,example,"]),
        (("checkpoints", "delete", "c"), "ListCheckpoints", CHECKPOINTS, ["cp-1"]),
        (("launch", "--checkpoint", "c"), "ListCheckpoints", CHECKPOINTS, ["cp-1"]),
        (("refusals", "s"), "ListRefusals", REFUSALS, ["scope.max_link_hops"]),
    ],
)
def test_names_that_the_frontier_has_are_completed(
    frontier: FakeFrontier, address: str, words: Sequence[str], rpc: str, answer: Message, names: list[str]
) -> None:
    frontier.will("ListCrawls", admin_pb2.ListCrawlsResponse(crawls=[admin_pb2.Crawl(crawl="c")]))
    frontier.will(rpc, answer)
    assert completed(address, *words) == names


def test_names_are_those_of_the_crawl_that_is_named(frontier: FakeFrontier, address: str) -> None:
    frontier.will("ListQueues", QUEUES)
    assert completed(address, "queues", "show", "--crawl", "d", "a") == ["a.org"]
    assert frontier.asked["ListQueues"][0].crawl == "d"


@pytest.mark.parametrize(
    "answer",
    [
        SILENCE,
        Refusal(grpc.StatusCode.NOT_FOUND, "there is no crawl 'c'", "UNKNOWN_CRAWL"),
        admin_pb2.ListCrawlsResponse(),
        admin_pb2.ListCrawlsResponse(crawls=[admin_pb2.Crawl(crawl="a"), admin_pb2.Crawl(crawl="b")]),
    ],
)
def test_nothing_is_completed_soon_if_the_frontier_does_not_answer(
    frontier: FakeFrontier, address: str, answer: Answer, capfd: pytest.CaptureFixture[str]
) -> None:
    frontier.will("ListCrawls", answer)
    begun_s = time.monotonic()
    assert completed(address, "queues", "show", "") == []
    assert time.monotonic() - begun_s < 2
    assert capfd.readouterr() == ("", "")


def test_nothing_is_completed_without_a_frontier(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(FakeFrontier()) as gone:
        pass
    assert completed(gone, "queues", "show", "") == []
    assert completed("nonsense", "nodes", "show", "") == []
    assert capfd.readouterr() == ("", "")


def test_names_that_come_late_are_not_waited_for(
    frontier: FakeFrontier, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(0, 0.2)
    clock = SimpleNamespace(monotonic=lambda: next(ticks))
    monkeypatch.setattr("toehold_cli.commands.suggestions.time", clock)
    frontier.will("ListQueues", QUEUES)
    names = completed(address, "queues", "show", "--crawl", "c", "")
    assert 0 < len(names) < 5, "those that came within half a second"


@pytest.mark.parametrize("command", ["set", "reopen"])
def test_names_of_settings_are_completed_with_an_equals_sign(command: str) -> None:
    assert completed("127.0.0.1:1", command, "limits.max_d") == ["limits.max_documents="]
    names = completed("127.0.0.1:1", command, "")
    assert "weight=" in names and "politeness.min_delay_seconds=" in names
    assert "politeness=" not in names, "a table is not a setting"
    assert all(name.endswith("=") for name in names)


@pytest.mark.parametrize(
    ("told", "reply"),
    [
        ("plain,com,example,", "<com,example,>"),
        ("plain,com,", "<com,>"),
        ("plain,limits.max_documents=", "nospace <limits.max_documents=>"),
        ("plain,a\nplain,b c", "<a> <b c>"),
    ],
)
def test_the_script_of_bash_keeps_commas_and_adds_no_space_after_an_equals_sign(
    toehold_at: Toehold, told: str, reply: str
) -> None:
    script = toehold_at("completion", "bash")[1]
    program = f"""
        complete() {{ :; }}
        compopt() {{ printf '%s ' "${{@: -1}}"; }}
        toehold() {{ :; }}
        env() {{ printf '%s' {told!r}; }}
        {script}
        COMP_WORDS=(toehold set x) COMP_CWORD=2
        _toehold_completion toehold
        printf '<%s> ' "${{COMPREPLY[@]}}"
    """.replace(repr(told), "$'" + told.replace("\n", "\\n") + "'")
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == (reply, "")


def test_the_scripts_of_zsh_and_fish_do_so_too(toehold_at: Toehold) -> None:
    zsh, fish = (toehold_at("completion", shell)[1] for shell in ("zsh", "fish"))
    assert '[[ "${completions[1]}" == *= ]] && ending=(-S "")' in zsh
    assert 'string split --max 1 "," $completion' in fish
