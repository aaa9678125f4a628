"""Many watch a crawl while its frontier is killed again and again, and some of them do not even read."""

import json
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from acceptance.programs import Programs, pass_time
from faults.deaf import WINDOW_BYTES, DeafReader
from faults.load import Load, told
from faults.slow_site import SlowSite
from faults.watchers import Listening, Plain, Read, Restless, Streaming, StreamingAsync, Watcher, read
from frontier_harness.calls import seconds, seed_of
from frontier_harness.members import front_of
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, eventually

from toehold_client import CrawlController, FrontierClient

KINDS: Sequence[Callable[[str, str], Watcher]] = (
    *[Plain] * 8,
    *[Streaming] * 5,
    *[StreamingAsync] * 2,
    *[Listening] * 2,
    Restless,
)
"""With a command and a reader that does not read they are twenty."""

LONG = "a" * 600
"""What makes the event that tells of it long."""

ALLOWED_BYTES = 1024 * 1024
"""What a reader that does not read may cost the server."""

ALLOWED_RATIO = 3.0
"""How much more of a processor calls may take the server beside such readers, who cost nothing while they
stand still; on a busy machine that varies by itself.
"""


def test_watchers_miss_nothing_and_hear_nothing_twice_though_the_frontier_is_killed(
    programs: Programs, tmp_path: Path
) -> None:
    _watch(programs, tmp_path, kills=3, random=random.Random(4))


@pytest.mark.soak("kills")
@pytest.mark.parametrize("seed", range(3))
def test_watchers_miss_nothing_and_hear_nothing_twice_though_the_frontier_is_killed_ten_times(
    programs: Programs, tmp_path: Path, seed: int
) -> None:
    _watch(programs, tmp_path, kills=10, random=random.Random(seed))


def _watch(programs: Programs, folder: Path, *, kills: int, random: random.Random) -> None:
    """A crawl by a real node, steered all the time, with 20 watchers."""
    with SlowSite(8) as site, ExitStack() as deaf_readers:
        load = Load(programs, folder, site, "--lease-seconds", "2", "--heartbeat-seconds", "0.2")
        load.node(toes=4)
        crawl = load.launch("c", statistics_interval=seconds(1))
        command = programs.toehold("events", "--follow", "--json", "--frontier", load.address)
        watchers = [kind(load.address, "c") for kind in KINDS]

        def deaf_reader() -> DeafReader:
            reader = DeafReader(load.address, "c")
            deaf_readers.callback(reader.close)
            return reader

        deaf = deaf_reader()
        eventually(lambda: command.said, "the first event")
        with _steered(load.address, "c"):
            for _ in range(kills):
                heard = len(watchers[0].read) + random.randrange(20, 60)
                eventually(lambda heard=heard: len(watchers[0].read) >= heard, "events")  # type: ignore[misc]
                pass_time(random.uniform(0, 0.1))
                load.frontier.kill()
                load.start_frontier()
                deaf = deaf_reader()
            eventually(
                lambda: deaf.unread_bytes >= WINDOW_BYTES, "more events than one takes who does not read"
            )
        assert crawl.teardown(None)
        events = list(crawl.events())
        kept = [read(event.cursor, event.message) for event in events]
        assert [event.sequence for event in events] == [*range(1, len(events) + 1)]
        assert told(events).words[-1] == "torn_down"
        for watcher in watchers:
            assert _difference(watcher, kept) == ""
        assert command.wait() == 0, command.complaints
        assert [json.loads(line)["sequence"] for line in command.said.splitlines()] == [
            event.sequence for event in events
        ]
        load.close()


def _difference(watcher: Watcher, kept: list[Read]) -> str:
    """What a watcher has read amiss, in words; empty if nothing."""
    found = watcher.ended()
    kind = type(watcher).__name__
    for number, (one, other) in enumerate(zip(found, kept, strict=False), 1):
        if one != other:
            return f"{kind}: its event {number} is {one}, and not {other}"
    return "" if len(found) == len(kept) else f"{kind}: it has read {len(found)} events of {len(kept)}"


@contextmanager
def _steered(address: str, crawl: str) -> Iterator[None]:
    """Somebody steers a crawl all the time, so that much is told of it."""
    ended = threading.Event()
    failures: list[BaseException] = []

    def steer() -> None:
        try:
            with FrontierClient(address, patience_s=PATIENCE_S, operator="somebody") as client:
                controller = CrawlController(client, crawl)
                while not ended.is_set():
                    controller.pause()
                    for _ in range(3):
                        client.note_uris(crawl, [seed_of(crawl) + LONG])
                    controller.resume()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=steer)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert failures == []


# --- those who do not read ---------------------------------------------------------------------------


def test_readers_who_do_not_read_cost_little_memory_and_no_time(tmp_path: Path) -> None:
    _do_not_read(tmp_path, readers=30, events=800, calls=150)


@pytest.mark.soak("overload")
def test_two_hundred_readers_who_do_not_read_cost_little_memory_and_no_time(tmp_path: Path) -> None:
    _do_not_read(tmp_path, readers=200, events=20_000, calls=1000)


def _do_not_read(folder: Path, *, readers: int, events: int, calls: int) -> None:
    with ServerProcess(folder / "data") as server:
        stubs = server.stubs
        stubs.launch("c", seed_of("c"))
        with ThreadPoolExecutor(16) as many:
            list(many.map(lambda _: stubs.ask("NoteUris", "c", uris=[seed_of("c") + LONG]), range(events)))
        with _deaf(server, readers // 4):
            pass  # what the first ones cost stays with the server
        alone_s = beside_s = 0.0
        for _ in range(2):
            alone_s += _busy_s(server, calls)
            before = _resident_bytes(server)
            with _deaf(server, readers):
                cost = (_resident_bytes(server) - before) / readers
                assert cost < ALLOWED_BYTES, f"{cost:.0f} bytes for each"
                beside_s += _busy_s(server, calls)
        assert beside_s < ALLOWED_RATIO * alone_s


@contextmanager
def _deaf(server: ServerProcess, count: int) -> Iterator[None]:
    """So many readers who do not read, each with more than it takes."""
    with ExitStack() as opened:
        readers = [DeafReader(server.address, "c") for _ in range(count)]
        for reader in readers:
            opened.callback(reader.close)
        eventually(
            lambda: all(reader.unread_bytes >= WINDOW_BYTES for reader in readers), "all of them to be full"
        )
        yield


def _busy_s(server: ServerProcess, calls: int) -> float:
    """How much of a processor the server takes for calls that a node makes, and that an operator makes."""
    began_s = processor_s(front_of(server))
    for _ in range(calls):
        server.stubs.next("c")
        server.stubs.describe("c")
    return processor_s(front_of(server)) - began_s


def processor_s(pid: int) -> float:
    """How much of a processor a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(server: ServerProcess) -> int:
    status = Path(f"/proc/{front_of(server)}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024
