"""More than a frontier can serve: it stays within its memory, steers and tells of its health at once, and
loses nothing that it took in."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from faults.overload import crowd
from frontier_harness.calls import FINISH, PAUSE, RUN, TIMEOUT_S, Stubs, seed_of, spec
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak
from frontier_harness.waiting import WHOLE_CRAWL_S
from fuzz.callers import memory_of
from grpc_health.v1 import health_pb2

from toehold.frontier.v1 import admin_pb2

MIB = 1024 * 1024
MOST_BYTES = 1024 * MIB
"""The server's memory stays below this, as docs/operating.md says."""
SOON_S = 1.0
FULL = {"streams": 10_000, "nodes": 5_000, "large": 60, "endless": 20, "feeders": 200}
SMALL = {"streams": 100, "nodes": 20, "large": 1, "endless": 10, "feeders": 10, "batches": 2}
LOOKS, FEW_LOOKS, STOPS = 60, 2, 4
NOISE_S = 0.2  # between two looks; what it takes longer is none of the server's doing


@contextmanager
def crowded(address: str, folder: Path, sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    """A crowd that is there within the block; behind it, what became of the crowd."""
    command = [sys.executable, crowd.__file__, address, str(folder)]
    command += [f"--{name}={size}" for name, size in sizes.items()]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    told: dict[str, int] = {}
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "all are there\n"
        yield told
        said, _ = process.communicate(timeout=WHOLE_CRAWL_S)
        told.update(json.loads(said))
    finally:
        process.kill()
        process.wait()


class Operator:
    """Steers a small crawl amid the crowd, looks after the server's health, and notes how long that takes,
    without what the server waits for a processor: the machine has other work, and so has the crowd."""

    def __init__(self, stubs: Stubs, server_process: int) -> None:
        self._stubs = stubs
        self._schedule = Path(f"/proc/{server_process}/schedstat")
        self._health: Any = stubs.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        self.waits_s: dict[str, list[float]] = {}

    def look(self, number: int) -> None:
        """Once each: how late this process itself is, health, pause, resume; a stop now and then."""
        self._timed("noise", lambda: time.sleep(NOISE_S))
        answer = self._timed(
            "health", lambda: self._health(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
        )
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        self._timed("pause", lambda: self._stubs.request("steered", PAUSE))
        self._timed("resume", lambda: self._stubs.request("steered", RUN))
        if number % STOPS == 0:
            self._timed("stop", lambda: self._stubs.request(f"stopped{number}", FINISH))

    def p99_s(self, what: str) -> float:
        """What all but one in a hundred are below."""
        waits_s = sorted(self.waits_s[what])
        return waits_s[int(0.99 * (len(waits_s) - 1))]

    def _queued_s(self) -> float:
        """How long the server's own thread has waited for a processor that others had."""
        return int(self._schedule.read_text().split()[1]) / 1e9

    def _timed(self, what: str, act: Any) -> Any:
        began_s, queued_s = time.perf_counter(), self._queued_s()
        answer = act()
        took_s = time.perf_counter() - began_s
        took_s -= NOISE_S if what == "noise" else self._queued_s() - queued_s
        self.waits_s.setdefault(what, []).append(took_s)
        return answer


def overloaded(folder: Path, sizes: dict[str, int], looks: int) -> tuple[Operator, dict[str, int], int, int]:
    """Overload a server; what its operator saw, what became of the crowd, how many URIs of those that were
    acknowledged it does not know, and the most memory that it took."""
    with ServerProcess(folder / "data") as server:
        stubs = server.stubs
        hosts = [f"http://h{number}.example/" for number in range(crowd.HOSTS)]
        stubs.launch(crowd.CRAWL, *hosts, of=spec(run_while_empty=True))
        stubs.launch(crowd.WATCHED, seed_of(crowd.WATCHED), of=spec(run_while_empty=True))
        stubs.launch("steered", seed_of("steered"), of=spec(run_while_empty=True))
        for number in range(0, looks, STOPS):
            stubs.launch(f"stopped{number}", seed_of(f"stopped{number}"))
        operator = Operator(stubs, server.child.pid)
        feeding = {name: size for name, size in sizes.items() if name in ("feeders", "batches")}
        others = {name: size for name, size in sizes.items() if name not in feeding}
        # Feeders in a process of their own: beside thousands of streams they would hardly get to offer any.
        with crowded(server.address, folder, others) as told, crowded(server.address, folder, feeding) as fed:
            for number in range(looks):
                operator.look(number)
        for what, count in fed.items():
            told[what] = told.get(what, 0) + count
        missing = sum(_unknown(stubs, part) for part in _parts(folder / "acknowledged"))
        _, most_bytes = memory_of(server.child.pid)
        verification = stubs.ask("StartJob", crowd.CRAWL, verify={}).job.job
        found = list(stubs.ended(crowd.CRAWL, verification, WHOLE_CRAWL_S).findings)
        assert not found, found
        log = server.errors.read_text()
        assert "Traceback" not in log and '"level": "error"' not in log, log[-3000:]
    assert told.get("acknowledged"), told
    assert not told.get("refused without a hint") and not told.get("hints ignored"), told
    return operator, told, missing, most_bytes


def _parts(file: Path) -> Iterator[list[str]]:
    uris = file.read_text().splitlines()
    return (uris[start : start + 1000] for start in range(0, len(uris), 1000))


def _unknown(stubs: Stubs, uris: list[str]) -> int:
    """How many of these the crawl has never seen."""
    request = admin_pb2.NoteUrisRequest(crawl=crowd.CRAWL, uris=uris)
    return stubs.admin.NoteUris(request, timeout=WHOLE_CRAWL_S).noted_count


def test_what_was_taken_in_amid_a_crowd_is_there_and_the_crowd_is_told_when_to_come_again(
    tmp_path: Path,
) -> None:
    _, told, missing, most_bytes = overloaded(tmp_path, SMALL, FEW_LOOKS)
    assert missing == 0
    assert told["endless RESOURCE_EXHAUSTED OVERLOADED"] > 0, told
    assert most_bytes < MOST_BYTES


@pytest.mark.soak("overload")
@pytest.mark.timeout(0)
def test_ten_times_what_it_can_serve_harms_neither_memory_nor_steering_nor_what_was_taken_in(
    tmp_path: Path, soak: Soak
) -> None:
    operator, told, missing, most_bytes = overloaded(tmp_path, FULL, soak.cycles(LOOKS))
    waits = {what: round(operator.p99_s(what), 3) for what in operator.waits_s}
    print(f"p99 in seconds: {waits}; {most_bytes / MIB:.0f} MiB at most; {told}")
    soak.count(faults=sum(told.values()) - told["acknowledged"], checked=told["acknowledged"], lost=missing)
    assert missing == 0
    assert told["endless RESOURCE_EXHAUSTED OVERLOADED"] > 0, told
    assert most_bytes < MOST_BYTES
    late = {what: wait_s for what, wait_s in waits.items() if wait_s > SOON_S + 2 * waits["noise"]}
    assert not late, f"{late}, while a sleep is {waits['noise']} s late"
