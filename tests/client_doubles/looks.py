"""Looks at crawls, for tests of what shows them."""

from dataclasses import replace
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold_cli.live.layout import picture
from toehold_client.events import Event
from toehold_client.watching.crawl_log import LoggedPage
from toehold_client.watching.look import Look
from toehold_client.watching.seeds import Seeds

NOW_S = 1_800_000_000
RUNNING = crawl_pb2.CrawlStatus(
    state=crawl_pb2.CrawlState.CRAWL_STATE_RUNNING, exit_status=crawl_pb2.ExitStatus.EXIT_STATUS_RUNNING
)
PAUSED = crawl_pb2.CrawlStatus(
    state=crawl_pb2.CrawlState.CRAWL_STATE_PAUSED, exit_status=crawl_pb2.ExitStatus.EXIT_STATUS_PAUSED
)
WHY = "politeness: 40 queues rest, 3 are being fetched from; the next wakes in 2 s"


def at(seconds: float) -> Timestamp:
    """So long after the look; before it, if negative."""
    moment = Timestamp()
    moment.FromNanoseconds(round((NOW_S + seconds) * 1e9))
    return moment


def node(name: str, heard_s: float = -1, presence: str = "PRESENT", **steps: int) -> admin_pb2.Node:
    told = [frontier_pb2.ToeStepCount(step=step, count=count) for step, count in steps.items()]
    return admin_pb2.Node(
        node=name,
        last_seen_time=at(heard_s),
        toe_steps=told,
        leased_count=3,
        presence=admin_pb2.NodePresence.Value(f"NODE_PRESENCE_{presence}"),
    )


def seed(uri: str, result: str, outcome: str) -> admin_pb2.Seed:
    return admin_pb2.Seed(
        uri=uri, result=admin_pb2.SeedResult.Value(f"SEED_RESULT_{result}"), outcome=outcome
    )


def queue(key: str, **statistics: Any) -> admin_pb2.WorkQueue:
    return admin_pb2.WorkQueue(queue_key=key, **statistics)


def told(**fields: Any) -> Event:
    return Event(crawl_pb2.Event(**fields))


def problem(sequence: int, ago_s: float = 60, detail: str = "500 MB are free") -> Event:
    return told(
        sequence=sequence,
        event_time=at(-ago_s),
        problem=crawl_pb2.Problem(kind="disk-reserve", detail=detail),
    )


def look(text: str = "", many: int = 1, **parts: Any) -> Look:
    """A look in which everything has something to show; `text` is in all texts, `many` of each are there."""
    snoozed, busy = crawl_pb2.QueueState.QUEUE_STATE_SNOOZED, crawl_pb2.QueueState.QUEUE_STATE_BUSY
    statistics = crawl_pb2.Statistics(
        snapshot_time=at(0),
        elapsed_duration=Duration(seconds=100),
        discovered_count=9_999,
        queued_count=5_678,
        leased_count=3,
        succeeded_count=1_234,
        limited_count=1_234,
        limited_bytes_count=12_345_678,
        limited_duration=Duration(seconds=100),
        failed_count=6,
        disregarded_count=17,
        bytes_count=12_345_678,
        future_count=12,
        fetch_status_counts={200: 1_230, 404: 4, -2: 6, -9998: 17},
        queue_state_counts={"READY": 1, "BUSY": 3, "SNOOZED": 5, text or "RETIRED": 2},
        succeeded_per_second=7.5,
        average_succeeded_per_second=12.34,
        bytes_per_second=92_100,
        average_bytes_per_second=123_456,
        remaining_min_duration=Duration(seconds=4_000),
        remaining_max_duration=Duration(seconds=10_000),
        annotation_counts={"hookFailed": many},
    )
    limits = crawl_pb2.LimitSpec(max_documents=5_000, max_bytes=10**9, max_elapsed=Duration(seconds=7_200))
    shown = Look(
        address="127.0.0.1:7707",
        crawl=admin_pb2.Crawl(crawl=f"practice{text}", spec=crawl_pb2.CrawlSpec(limits=limits, max_toes=8)),
        status=RUNNING,
        statistics=statistics,
        why=f"{WHY}{text}",
        history=[0.0, 2.0, 8.0, 4.0] * 7,
        seeds=Seeds.of(seed(f"https://s{n}.example/{text}", "FAILED", f"no{text}") for n in range(many)),
        nodes=[node(f"north{n}{text}", FETCHING=6, WRITING=1, ABOUT_TO_GET_URI=1) for n in range(many)],
        jobs=[
            admin_pb2.Job(
                job=3,
                kind=f"delete-uris{text}",
                state=admin_pb2.JobState.JOB_STATE_RUNNING,
                done_count=450,
                total_count=1_000,
            )
            for _ in range(many)
        ],
        slowest=[
            queue(
                f"com,slow{n},{text}", state=snoozed, wake_time=at(90), reason=f"retry{text}", queued_count=45
            )
            for n in range(many)
        ],
        largest=[
            queue(f"com,large{n},{text}", state=busy, reason=text, queued_count=61) for n in range(many)
        ],
        problems=[problem(n + 1, detail=f"500 MB are free{text}") for n in range(many)],
        pages=[LoggedPage(200, 4_321, f"http://www.example.com/{n}{text}") for n in range(many)],
    )
    return replace(shown, **parts)


def drawn(shown: Look, width: int = 80, height: int = 24) -> list[str]:
    return [text.plain for text in picture(shown, width, height)]


AWKWARD = {
    "plain": "",
    "long": "long/" * 100,
    "wide": "漢字かな" * 20,
    "combining": "e\u0301" * 50,
    "obeyed": "\x1b[2J\x1b]0;owned\x07\r\n\u202e\x9b31m",
    "markup": "[bold red]not markup[/]",
    "blanks": "  \u3000 " * 20,
}


def quiet(**parts: Any) -> Look:
    """A crawl that runs, and has no trouble."""
    status = crawl_pb2.CrawlStatus(state=crawl_pb2.CrawlState.CRAWL_STATE_RUNNING, reach_time=at(-60))
    fine: dict[str, Any] = {
        "status": status,
        "statistics": crawl_pb2.Statistics(snapshot_time=at(0)),
        "nodes": [node("north", FETCHING=1)],
        "seeds": Seeds.of([seed("https://a.example/", "FETCHED", "fetched (200)")]),
    }
    return look(**(fine | parts))
