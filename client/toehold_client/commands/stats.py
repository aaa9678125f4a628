"""`toehold stats`: all figures of a crawl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Statistics
from toehold_client import show
from toehold_client.controller import CrawlController
from toehold_client.embedded.words import bytes_text, count_text, duration_text, fetch_status_text
from toehold_client.plain import seconds_of, to_plain

from .options import json_option, with_crawl


@click.command()
@json_option
@with_crawl
def stats(crawl: CrawlController, as_json: bool) -> None:
    """Show all figures of a crawl: counts, rates, depths, codes and media types."""
    answer = crawl.statistics()
    if as_json:
        show.record({"status": to_plain(answer.status), "statistics": to_plain(answer.statistics)})
    else:
        show.facts(_facts(answer.status, answer.statistics))


def _facts(status: CrawlStatus, figures: Statistics) -> Iterator[tuple[str, str]]:
    finished = figures.succeeded_count + figures.failed_count + figures.disregarded_count
    novel = f"{count_text(figures.novel_count)}, {bytes_text(figures.novel_bytes_count)}"
    yield "at", show.moment(figures.snapshot_time)
    yield "state", show.status_words(status)
    yield "elapsed", duration_text(seconds_of(figures.elapsed_duration))
    yield "discovered", count_text(figures.discovered_count)
    yield "queued", count_text(figures.queued_count)
    yield "out at nodes", count_text(figures.leased_count)
    yield "future", count_text(figures.future_count)
    yield "in retired queues", count_text(figures.retired_uri_count)
    yield "in ineligible queues", count_text(figures.ineligible_uri_count)
    yield "finished", count_text(finished)
    yield "succeeded", f"{count_text(figures.succeeded_count)}, {bytes_text(figures.bytes_count)}"
    yield "of that novel", novel
    yield "failed", count_text(figures.failed_count)
    yield "disregarded", count_text(figures.disregarded_count)
    yield "deferred", count_text(figures.deferred_count)
    yield "relocated", count_text(figures.relocated_count)
    yield "lapsed", count_text(figures.lapsed_count)
    yield "robots.txt fetches", count_text(figures.robots_fetch_count)
    yield "now", _rate(figures.succeeded_per_second, figures.bytes_per_second)
    yield "average", _rate(figures.average_succeeded_per_second, figures.average_bytes_per_second)
    yield "congestion ratio", f"{figures.congestion_ratio:.2f}"
    yield "deepest queue", count_text(figures.deepest_queue_count)
    yield "average depth", f"{figures.average_depth:.2f}"
    yield "round", count_text(figures.round)
    codes = {fetch_status_text(code): count for code, count in figures.fetch_status_counts.items()}
    yield "fetch status", counts(codes)
    yield "media types", counts(figures.media_type_counts)
    yield "verdicts", counts(figures.verdict_counts)
    yield "queues", counts(figures.queue_state_counts)


def _rate(per_second: float, bytes_per_second: float) -> str:
    return f"{per_second:.2f} URIs/s, {bytes_text(round(bytes_per_second))}/s"


def counts(named: Mapping[str, int]) -> str:
    """`READY: 3, SNOOZED: 1`; what is not there at all is left out."""
    return ", ".join(f"{name}: {count_text(named[name])}" for name in sorted(named) if named[name])
