"""A history of crawls that leaves rows of every kind in a store, through the contract alone."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from frontier_harness.calls import FINISH, HOLD, PAUSE, RUN, TIMEOUT_S, Stubs, report, seconds, spec
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import eventually
from google.protobuf.timestamp_pb2 import Timestamp

from frontier_server.core.rows.store import Family
from frontier_server.stores.rocks import RocksStore
from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2

FAR = datetime(2100, 1, 1, tzinfo=UTC)
IMPORTED = 3_000
"""URIs of the import that is under way when the history ends."""


def play(data: Path) -> None:
    """Make a data directory with crawls in every state of life. It takes some seconds."""
    with ServerProcess(data) as server:
        _ended(server.stubs)
        _redirected(server.stubs)
        _torn_down(server.stubs)
        _paused(server.stubs)
        server.stop()
    with ServerProcess(data) as server:  # its store is of two parts: tables, and a log behind them
        _shared(server.stubs)
        _held(server.stubs)
        _not_launched(server.stubs)
        server.stubs.admin.CreateCheckpoint(admin_pb2.CreateCheckpointRequest(), timeout=TIMEOUT_S)
        _running(server.stubs)
        _importing(server.stubs)
        server.stop()
    store = RocksStore(data / "store", read_only=True)
    empty = [family.name for family in Family if next(store.scan(family, b"", b""), None) is None]
    store.close()
    assert not empty, f"the history must leave rows in every family, got none in {empty}"


def play_in_cluster(data: Path, log: str) -> None:
    """Make a bucket with crawls in several states of life, as a machine of two shards leaves it. It takes
    some seconds."""
    for plays in ((_ended, _redirected, _paused), (_held, _not_launched, _running)):
        with ServerProcess(data, "--shards", "2", "--log", log, "--renew-seconds", "0.1") as server:
            for one in plays:
                one(server.stubs)
            server.stop()


def _fetch(stubs: Stubs, crawl: str, status: int = 200, **more: object) -> None:
    """Fetch a page of a crawl, with this result."""
    stubs.finish(*(report(lease, status, **more) for lease in stubs.pages(crawl, most=1)))


def _timestamp(moment: datetime) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(moment)
    return made


def _entry(uri: str) -> admin_pb2.ImportEntry:
    return admin_pb2.ImportEntry(candidate=frontier_pb2.Candidate(uri=uri, path="L"))


def _ended(stubs: Stubs) -> None:
    stubs.launch("ended", "http://ended.example/")
    stubs.schedule("ended", *(f"http://ended.example/{name}" for name in ("page", "missing", "lost")))
    stubs.schedule("ended", "http://elsewhere.example/", "ftp://ended.example/", "http://")
    for status in (200, 304, 404, -7):
        _fetch(stubs, "ended", status, body_bytes=1_000, media_type="text/html", reason="as it was reported")
    stubs.until("ended", crawl_pb2.CRAWL_STATE_FINISHED)


def _redirected(stubs: Stubs) -> None:
    """A crawl whose seeds lead to one page."""
    name, login = "redirected", "http://redirected.example/login"
    stubs.launch(name, "http://redirected.example/", "http://redirected.example/b")
    for _ in range(2):
        (lease,) = stubs.pages(name, most=1)
        target = frontier_pb2.Candidate(
            uri=login, via=lease.uri, path="R", source=lease.source, redirects=lease.redirects
        )
        request = frontier_pb2.ScheduleRequest(crawl=name, candidates=[target])
        stubs.frontier.Schedule(request, timeout=TIMEOUT_S)
        stubs.finish(report(lease, 302, reason="/login"))
    _fetch(stubs, name)
    stubs.until(name, crawl_pb2.CRAWL_STATE_FINISHED)


def _torn_down(stubs: Stubs) -> None:
    stubs.launch("torn-down", "http://torn.example/")
    _fetch(stubs, "torn-down")
    stubs.until("torn-down", crawl_pb2.CRAWL_STATE_FINISHED)
    stubs.ask("TearDownCrawl", "torn-down")
    eventually(lambda: stubs.describe("torn-down").status.torn_down, "the teardown")


def _paused(stubs: Stubs) -> None:
    """A crawl that keeps its URIs, of which an operator has changed almost everything."""
    name = "paused"
    of = spec(
        scope={"hosts": ["paused.example"], "accept_patterns": [r"http://[a-z]+\.paused\.example/.*"]},
        retry={"delay": seconds(1)},
        extract={"javascript": True},
        description="of the last release",
    )
    stubs.launch(name, "http://paused.example/", "http://missing.paused.example/", of=of)
    validators: dict[str, Any] = {
        "etag": '"one"',
        "last_modified": "Mon, 02 Nov 2026 10:00:00 GMT",
        "digest": "sha1:A",
    }
    _fetch(stubs, name, **validators, revisit_time=_timestamp(FAR))
    _fetch(stubs, name, 404)
    many = [f"http://{host}.paused.example/{page}" for host in ("a", "b", "c", "d", "e") for page in range(4)]
    stubs.schedule(name, *many, "http://out.example/")
    stubs.ask("NoteUris", name, uris=["http://noted.paused.example/"])
    later = frontier_pb2.Candidate(
        uri="http://later.paused.example/", path="L", not_before_time=_timestamp(FAR)
    )
    urgent = frontier_pb2.Candidate(
        uri="http://a.paused.example/urgent",
        path="L",
        directive=frontier_pb2.DIRECTIVE_HIGH,
        annotations=b"\x00kept as it is",
        source="a-source",
        cost=3,
    )
    request = frontier_pb2.ScheduleRequest(crawl=name, candidates=[later, urgent])
    stubs.frontier.Schedule(request, timeout=TIMEOUT_S)
    overrides: dict[str, Any] = {
        "b.paused.example": {"retry": {"max_attempts": 3}},
        "http://(example,paused,c,)/2": {"fetch": {"max_bytes": 1_000_000}},
    }
    for prefix, settings in overrides.items():
        stubs.ask("PutOverride", name, override={"surt_prefix": prefix, "settings": settings})
    for key, change in (
        ("example,paused,b,", {"paused": True}),
        ("example,paused,c,", {"retired": True}),
        ("example,paused,d,", {"precedence": 7, "session_budget": 2, "total_budget": 90}),
        ("example,paused,e,", {"min_gap": seconds(2)}),
    ):
        stubs.ask("UpdateQueue", name, queue_key=key, change=change)
    _fetch(stubs, name, -2)  # it will be tried again
    stubs.bring(
        name,
        admin_pb2.ImportEntry(seen=admin_pb2.SeenUri(uri="http://paused.example/known", fetch_status=200)),
        _entry("http://f.paused.example/"),
    )
    stubs.job(name, delete_uris={"queue_pattern": ".*", "uri_pattern": ".*/3"})
    stubs.job(name, verify={})
    stubs.request(name, PAUSE)
    stubs.until(name, crawl_pb2.CRAWL_STATE_PAUSED)


def _shared(stubs: Stubs) -> None:
    """A crawl whose hosts share queues and belong to groups, which rest for it alone."""
    name = "shared"
    of = spec(
        queues={"partition": "registered-domain", "assignment": "buckets", "buckets": 2},
        groups=[{"name": "two", "hosts": ["one.shared.example", "two.shared.example"], "max_parallel": 1}],
        politeness={
            "across_crawls": False,
            "min_delay": seconds(0.2),
            "max_delay": seconds(0.2),
            "overload_delay": seconds(1),
            "max_overload_delay": seconds(1),
        },
        limits={"max_documents": 1_000},
    )
    hosts = [f"http://{host}.shared.example/" for host in ("one", "two", "three")]
    stubs.launch(name, *hosts, of=of)
    _fetch(stubs, name, 429, retry_after_duration=seconds(1))
    stubs.schedule(name, *(f"{host}{page}" for host in hosts for page in range(3)))
    forced = frontier_pb2.Candidate(uri=f"{hosts[0]}forced", path="L", queue_key="a-key")
    stubs.frontier.Schedule(frontier_pb2.ScheduleRequest(crawl=name, candidates=[forced]), timeout=TIMEOUT_S)
    stubs.request(name, PAUSE)
    stubs.until(name, crawl_pb2.CRAWL_STATE_PAUSED)


def _held(stubs: Stubs) -> None:
    stubs.launch("held", "http://held.example/")
    stubs.schedule("held", "http://held.example/more")
    stubs.request("held", HOLD)
    eventually(lambda: stubs.describe("held").status.held, "the hold")


def _not_launched(stubs: Stubs) -> None:
    stubs.create("not-launched")
    stubs.seed("not-launched", "http://new.example/", "http://new.example/other")


def _running(stubs: Stubs) -> None:
    """A crawl with leases out: of a robots.txt, and of a page."""
    of = spec(robots={"retry_delay": seconds(1)})
    stubs.launch("running", "http://running.example/", "http://asked.example/", of=of)
    stubs.schedule("running", "http://running.example/more")
    leases = stubs.next("running", most=1, wait_s=TIMEOUT_S).leases
    stubs.finish(*map(report, leases))
    eventually(
        lambda: stubs.statistics("running").leased_count == 2 or stubs.next("running").leases, "leases"
    )


def _importing(stubs: Stubs) -> None:
    stubs.launch("importing", "http://importing.example/")
    entries = [_entry(f"http://importing.example/{number}") for number in range(IMPORTED)]
    first = admin_pb2.ImportUrisRequest(crawl="importing")
    others = [
        admin_pb2.ImportUrisRequest(entries=entries[at : at + 1_000]) for at in range(0, IMPORTED, 1_000)
    ]
    last = admin_pb2.ImportUrisRequest(complete=True)
    stubs.admin.ImportUris(iter([first, *others, last]), timeout=TIMEOUT_S)


def end(stubs: Stubs, crawls: Iterable[str]) -> dict[str, set[str]]:
    """Crawl whatever these crawls have left; the URIs of each. URIs that wait for a far time stay."""
    fetched: dict[str, set[str]] = {name: set() for name in crawls}
    for name in fetched:
        if stubs.describe(name).status.held:
            stubs.request(name, PAUSE)
        stubs.job(name, unretire_queues={"queue_pattern": ".*"})
        for queue in stubs.queues(name):
            if queue.paused:
                stubs.ask("UpdateQueue", name, queue_key=queue.queue_key, change={"paused": False})
        stubs.request(name, RUN)

    def over(name: str) -> bool:
        leases = stubs.next(name, session="another").leases  # which ends the leases of the first one
        if leases:
            stubs.finish(*map(report, leases), session="another")
            fetched[name].update(lease.uri for lease in leases)
        now = stubs.statistics(name)
        if now.future_count and not now.queued_count:
            stubs.request(name, FINISH)
        return stubs.describe(name).status.state == crawl_pb2.CRAWL_STATE_FINISHED

    for name in fetched:
        eventually(lambda name=name: over(name), f"the end of crawl {name}")  # type: ignore[misc]  # bound by its default
    return fetched
