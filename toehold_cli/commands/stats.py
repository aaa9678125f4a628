"""`toehold stats`: all statistics of a crawl."""

from collections.abc import Iterator

import click

from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Statistics
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.spec.plain import seconds_of, to_plain
from toehold_client.text import (
    bytes_text,
    connections_text,
    count_text,
    counts_text,
    duration_text,
    fetch_status_text,
)
from toehold_client.watching.look import time_left

from .options import json_option, with_crawl


@click.command()
@json_option
@with_crawl
def stats(crawl: CrawlController, as_json: bool) -> None:
    """Show all statistics of a crawl: counts, rates, depths, statuses and media types."""
    answer = crawl.statistics()
    if as_json:
        output.record({"status": to_plain(answer.status), "statistics": to_plain(answer.statistics)})
    else:
        output.facts(_facts(answer.status, answer.statistics))


def _facts(status: CrawlStatus, statistics: Statistics) -> Iterator[tuple[str, str]]:
    finished = statistics.succeeded_count + statistics.failed_count + statistics.disregarded_count
    novel = f"{count_text(statistics.novel_count)}, {bytes_text(statistics.novel_bytes_count)}"
    yield "at", output.moment(statistics.snapshot_time)
    yield "state", output.status_text(status, statistics)
    yield "elapsed", duration_text(seconds_of(statistics.elapsed_duration))
    yield "discovered", count_text(statistics.discovered_count)
    yield "queued", count_text(statistics.queued_count)
    yield "being fetched", count_text(statistics.leased_count)
    yield "future", count_text(statistics.future_count)
    yield "in retired queues", count_text(statistics.retired_uri_count)
    yield "in ineligible queues", count_text(statistics.ineligible_uri_count)
    yield "finished", count_text(finished)
    yield "succeeded", f"{count_text(statistics.succeeded_count)}, {bytes_text(statistics.bytes_count)}"
    yield "novel", novel
    yield "failed", count_text(statistics.failed_count)
    yield "disregarded", count_text(statistics.disregarded_count)
    yield "deferred", count_text(statistics.deferred_count)
    yield "relocated", count_text(statistics.relocated_count)
    yield "noted", count_text(statistics.noted_count) if statistics.noted_count else ""
    yield "lapsed", count_text(statistics.lapsed_count)
    yield "robots.txt fetches", count_text(statistics.robots_fetch_count)
    yield "connections", connections_text(statistics)
    yield "now", _rate(statistics.succeeded_per_second, statistics.bytes_per_second)
    yield "average", _rate(statistics.average_succeeded_per_second, statistics.average_bytes_per_second)
    yield "congestion ratio", f"{statistics.congestion_ratio:.2f}"
    yield "deepest queue", count_text(statistics.deepest_queue_count)
    yield "average depth", f"{statistics.average_depth:.2f}"
    yield "round", count_text(statistics.round)
    codes = {fetch_status_text(code): count for code, count in statistics.fetch_status_counts.items()}
    yield "fetch status", counts_text(codes)
    yield "media types", counts_text(statistics.media_type_counts)
    yield "verdicts", counts_text(statistics.verdict_counts)
    yield "remarks", counts_text(statistics.annotation_counts)
    yield "estimate", time_left(statistics)
    yield "queues", counts_text(statistics.queue_state_counts)


def _rate(per_second: float, bytes_per_second: float) -> str:
    return f"{per_second:.2f} URIs/s, {bytes_text(round(bytes_per_second))}/s"
