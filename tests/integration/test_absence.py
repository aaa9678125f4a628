"""A frontier that was away, or whose disk hung, takes no lease from a node that has named it all the time."""

import asyncio
import signal
import time
from pathlib import Path

import pytest
from frontier_harness.calls import report, seed_of, spec
from frontier_harness.held_store import HeldStore
from frontier_harness.in_process import config, running
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import callers, soon

from frontier_server import wire
from frontier_server.core.journey.dispatch import Want
from frontier_server.core.state.model import HeartbeatAnswer
from frontier_server.shell.exchange import Exchange
from frontier_server.shell.runner import Runner

LEASE_S, HEARTBEAT_S, AWAY_S = 4, 1, 5  # away for longer than a lease lives


@pytest.mark.undivided("a front that has stood still refuses calls for a moment")
def test_a_server_that_was_stopped_and_goes_on_has_kept_its_leases(tmp_path: Path) -> None:
    flags = "--lease-seconds", str(LEASE_S), "--heartbeat-seconds", str(HEARTBEAT_S)
    with ServerProcess(tmp_path / "data", *flags) as server:
        stubs = server.stubs
        stubs.launch("crawl", seed_of("crawl"))
        (lease,) = stubs.pages("crawl")
        stubs.heartbeat([lease.token])
        server.child.send_signal(signal.SIGSTOP)
        try:
            time.sleep(AWAY_S)  # the length of the absence: nothing happens that could be waited for
        finally:
            server.child.send_signal(signal.SIGCONT)
        for _ in range(3):
            stubs.describe("crawl")  # it is back, and had its time for what was overdue
        assert list(stubs.heartbeat([lease.token]).ended_tokens) == []
        assert stubs.finish(report(lease)) == [("SUCCEEDED", False)]
        assert "was_away" in server.errors.read_text()


def node(runner: Runner, tokens: list[bytes]) -> HeartbeatAnswer:
    """What a node's heartbeat does, as soon as it is worked on."""
    answer, _ = runner.core.frontier.heartbeat("n", "s", tokens, [], runner.now_ms())
    return answer


@pytest.mark.parametrize("trouble", ["flush", "stall"])
def test_leases_outlive_a_disk_that_hangs_and_lapse_as_ever_when_it_works_again(
    tmp_path: Path, trouble: str
) -> None:
    asyncio.run(_disk_hangs(tmp_path, trouble))


async def _disk_hangs(data: Path, trouble: str) -> None:
    store = HeldStore()
    settings = config(data, lease_ms=LEASE_S * 1000, heartbeat_ms=HEARTBEAT_S * 1000)
    async with running(store, settings) as runner, callers() as calls:
        plain = spec()
        made, said = wire.settings_of(plain), plain.SerializeToString()
        seeds = ["http://a.example/"]
        await runner.run(lambda f, now: f.control.create_crawl("t", made, said, now))
        await runner.run(lambda f, now: f.control.add_seeds("t", seeds, now))
        await runner.run(lambda f, now: f.control.launch("t", now))
        (grant,) = (await Exchange(runner).next("n", "s", Want(1), "t", LEASE_S)).grants
        if trouble == "flush":
            store.hold()
        else:
            store.stalled = True
        try:
            calls.start(runner.run(lambda f, now: f.control.add_seeds("t", seeds, now)))
            await soon(lambda: store.flushing or store.stalls, "a disk that hangs")
            end_ms = runner.now_ms() + AWAY_S * 1000
            await soon(lambda: runner.now_ms() > end_ms)
            assert runner.core.nodes.leases_out == 1, "while nobody is answered, nobody is taken to be silent"
        finally:
            store.release()
            store.stalled = False
        await runner.read(lambda f, now: None)
        await runner.apply(lambda f, now: f.upkeep.tick(now))
        assert node(runner, [grant.token]).ended == []
        await soon(lambda: not runner.core.nodes.leases_out, "the lapse of a lease whose node is silent")
