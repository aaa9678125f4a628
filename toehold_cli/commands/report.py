"""`toehold report`: the reports that Heritrix's operators know (2.15)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from toehold.frontier.v1.admin_pb2 import FetchStatistics, SeedResult, WorkQueue
from toehold.frontier.v1.crawl_pb2 import QueueState
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.spec.plain import enum_word, seconds_of, to_plain
from toehold_client.text import (
    bytes_text,
    connections_text,
    count_text,
    counted,
    duration_text,
    fetch_status_text,
    revisited_rows,
)
from toehold_client.watching.look import time_left
from toehold_client.watching.seeds import results_text

from .changes import tell_changes
from .failures import tell_failures
from .options import json_option, with_crawl
from .refusals import tell_refusals

Row = tuple[Sequence[str], Mapping[str, Any]]
"""A row for people, and the same for programs."""


@click.command()
@click.argument(
    "kind",
    metavar="[KIND]",
    default="crawl",
    type=click.Choice(
        [
            *("crawl", "seeds", "failures", "changes", "refusals", "hosts"),
            *("sources", "mimetypes", "responses", "queues", "nonempty"),
        ]
    ),
)
@json_option
@with_crawl
def report(crawl: CrawlController, kind: str, as_json: bool) -> None:
    """Print a report of a crawl.

    Without KIND it is the report of the crawl as a whole. KIND is one of these:

    \b
    crawl      the crawl as a whole
    seeds      the outcome of each seed
    failures   the URIs that failed or were answered with an error, by host
    changes    the URIs that had changed when they were fetched again
    refusals   the rules that refused URIs, with examples
    hosts      the results of each host
    sources    the results of the URIs that descend from each seed
    mimetypes  media types of URIs that succeeded
    responses  fetch statuses of finished URIs
    queues     the largest queues, and the number of queues in each state
    nonempty   all queues that have URIs
    """
    if kind == "crawl":
        _crawl(crawl, as_json)
    elif kind == "queues":
        _queues(crawl, as_json)
    elif kind == "seeds":
        _seeds(crawl, as_json)
    elif kind == "failures":
        tell_failures(crawl, as_json)
    elif kind == "changes":
        tell_changes(crawl, as_json)
    elif kind == "refusals":
        tell_refusals(crawl, "", as_json)
    else:
        columns, rows_of = _KINDS[kind]
        _tell(columns, rows_of(crawl), as_json)


def _tell(columns: Sequence[str], rows: Iterable[Row], as_json: bool) -> None:
    if as_json:
        for _, plain in rows:
            output.record(plain)
    else:
        output.table(columns, (cells for cells, _ in rows), spare=_SPARE)


def _crawl(crawl: CrawlController, as_json: bool) -> None:
    described, answer = crawl.describe(), crawl.statistics()
    statistics = answer.statistics
    processed = statistics.succeeded_count + statistics.failed_count + statistics.disregarded_count
    if not as_json:
        seeds = f"{count_text(described.announced_seed_count)} of {count_text(described.seed_count)}"
        novel = f"{count_text(statistics.novel_count)} URIs, {bytes_text(statistics.novel_bytes_count)}"
        output.facts(
            [
                ("crawl", described.crawl),
                ("status", output.status_text(answer.status, answer.statistics)),
                ("failure", answer.status.failure),
                ("reason", answer.status.reason),
                ("elapsed", duration_text(seconds_of(statistics.elapsed_duration))),
                ("seeds announced", seeds),
                ("URIs processed", count_text(processed)),
                ("succeeded", count_text(statistics.succeeded_count)),
                *revisited_rows(statistics),
                ("failed", count_text(statistics.failed_count)),
                ("disregarded", count_text(statistics.disregarded_count)),
                ("still queued", count_text(statistics.queued_count)),
                ("estimate", time_left(statistics)),
                ("URIs a second", f"{statistics.average_succeeded_per_second:.2f}"),
                ("bandwidth", f"{bytes_text(round(statistics.average_bytes_per_second))}/s"),
                ("data", bytes_text(statistics.bytes_count)),
                ("novel", novel),
                ("connections", connections_text(statistics)),
            ]
        )
        return
    estimate = to_plain(statistics)
    plain = {
        "crawl": described.crawl,
        "status": to_plain(answer.status),
        "elapsed_seconds": seconds_of(statistics.elapsed_duration),
        "seed_count": described.seed_count,
        "announced_seed_count": described.announced_seed_count,
        "processed_count": processed,
        "succeeded_count": statistics.succeeded_count,
        "failed_count": statistics.failed_count,
        "disregarded_count": statistics.disregarded_count,
        "queued_count": statistics.queued_count,
        "remaining_min_seconds": estimate["remaining_min_seconds"],
        "remaining_max_seconds": estimate["remaining_max_seconds"],
        "bytes_count": statistics.bytes_count,
        "novel_count": statistics.novel_count,
        "novel_bytes_count": statistics.novel_bytes_count,
        "connection_count": statistics.connection_count,
        "tls_handshake_count": statistics.tls_handshake_count,
        "kept_connection_count": statistics.kept_connection_count,
        "average_succeeded_per_second": statistics.average_succeeded_per_second,
        "average_bytes_per_second": statistics.average_bytes_per_second,
    }
    output.record(plain)


def _seeds(crawl: CrawlController, as_json: bool) -> None:
    results: Counter[SeedResult.ValueType] = Counter()

    def rows() -> Iterator[Row]:
        for seed in crawl.frontier.list_seeds(crawl.crawl):
            results[seed.result] += 1
            yield (seed.uri, seed.outcome or "-"), to_plain(seed)

    _tell(("seed", "outcome"), rows(), as_json)
    if not as_json:
        output.line(f"{counted(results.total(), 'seed')}: {results_text(results)}")


def _statistics(statistics: Iterable[FetchStatistics]) -> Iterator[Row]:
    for each in statistics:
        yield (
            (
                each.name,
                str(each.succeeded_count),
                str(each.failed_count),
                str(each.disregarded_count),
                str(each.robots_denied_count),
                str(each.response_count),
                str(each.succeeded_bytes_count),
                str(each.novel_count),
                str(each.novel_bytes_count),
                output.moment(each.last_success_time) or "-",
            ),
            to_plain(each),
        )


def _mimetypes(crawl: CrawlController) -> Iterator[Row]:
    counts = crawl.statistics().statistics.media_type_counts
    for name, count in _most_first(counts):
        yield (str(count), name), {"media_type": name, "succeeded_count": count}


def _responses(crawl: CrawlController) -> Iterator[Row]:
    counts = crawl.statistics().statistics.fetch_status_counts
    for status, count in _most_first(counts):
        yield (str(count), fetch_status_text(status)), {"fetch_status": status, "finished_count": count}


def _most_first(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _queues(crawl: CrawlController, as_json: bool) -> None:
    states = sorted(crawl.statistics().statistics.queue_state_counts.items())
    if as_json:
        output.record({"queue_state_counts": dict(states)})
    else:
        output.facts((state.lower(), count_text(count)) for state, count in states)
        output.line("")
    _tell(_OF_QUEUES, map(_queue_row, crawl.frontier.largest_queues(crawl.crawl)), as_json)


def _nonempty(crawl: CrawlController) -> Iterator[Row]:
    for queue in crawl.frontier.list_queues(crawl.crawl):
        if queue.queued_count:
            yield _queue_row(queue)


def _queue_row(queue: WorkQueue) -> Row:
    cells = (
        queue.queue_key,
        str(queue.queued_count),
        str(queue.enqueued_count),
        str(queue.precedence),
        f"{queue.expenditure}/{queue.total_budget}",
        enum_word(QueueState.DESCRIPTOR, queue.state),
        output.moment(queue.wake_time) or "-",
    )
    return cells, to_plain(queue)


_OF_STATISTICS = (
    "succeeded",
    "failed",
    "disregarded",
    "robots",
    "responses",
    "bytes",
    "novel",
    "novel bytes",
    "last success",
)
_SPARE = ("robots", "responses", "novel", "novel bytes", "last success", "ever queued", "precedence")
_OF_QUEUES = ("queue", "queued", "ever queued", "precedence", "spent/budget", "state", "wakes")

_KINDS: Mapping[str, tuple[Sequence[str], Callable[[CrawlController], Iterable[Row]]]] = {
    "hosts": (("host", *_OF_STATISTICS), lambda crawl: _statistics(crawl.frontier.list_hosts(crawl.crawl))),
    "sources": (
        ("source", *_OF_STATISTICS),
        lambda crawl: _statistics(crawl.frontier.list_sources(crawl.crawl)),
    ),
    "mimetypes": (("URIs", "media type"), _mimetypes),
    "responses": (("URIs", "fetch status"), _responses),
    "nonempty": (_OF_QUEUES, _nonempty),
}
