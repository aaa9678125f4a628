"""`toehold status`: the state of a crawl, and its main statistics."""

from collections.abc import Iterator
from itertools import islice

import click

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlStatus, Statistics
from toehold_cli import output
from toehold_client.controller import CrawlController
from toehold_client.spec.plain import seconds_of, to_plain
from toehold_client.text import (
    bytes_text,
    count_text,
    counts_text,
    duration_text,
    fetch_status_text,
    revisited_rows,
)
from toehold_client.watching.look import time_left
from toehold_client.watching.seeds import MOST_SEEDS, Seeds, seeds_text

from .options import json_option, with_crawl

_MOST_TOLD = 20


@click.command()
@json_option
@with_crawl
def status(crawl: CrawlController, as_json: bool) -> None:
    """Show the state of a crawl, and its main statistics."""
    described = crawl.describe()
    answer = crawl.statistics()
    seeds = Seeds.of(islice(crawl.frontier.list_seeds(crawl.crawl), MOST_SEEDS))
    if as_json:
        statistics = {"status": to_plain(answer.status), "statistics": to_plain(answer.statistics)}
        troubled = [to_plain(seed) for seed in seeds.troubled]
        output.record({**to_plain(described), **statistics, "troubled_seeds": troubled})
    else:
        output.facts(_facts(described, answer.status, answer.statistics, seeds))


def _facts(
    crawl: Crawl, status: CrawlStatus, statistics: Statistics, seeds: Seeds
) -> Iterator[tuple[str, str]]:
    yield from [
        ("crawl", crawl.crawl),
        ("description", crawl.spec.description),
        ("state", output.status_text(status, statistics)),
        ("failure", status.failure),
        ("reason", status.reason),
        ("since", output.moment(status.reach_time)),
        ("created", output.moment(crawl.create_time)),
        ("launched", output.moment(crawl.launch_time)),
        ("finished", output.moment(crawl.finish_time)),
        ("elapsed", duration_text(seconds_of(statistics.elapsed_duration))),
        ("seeds", _seeds_text(crawl, seeds)),
        ("discovered", count_text(statistics.discovered_count)),
        (
            "queued",
            f"{count_text(statistics.queued_count)}, {count_text(statistics.leased_count)} being fetched",
        ),
        ("succeeded", f"{count_text(statistics.succeeded_count)}, {bytes_text(statistics.bytes_count)}"),
        *revisited_rows(statistics),
        ("failed", count_text(statistics.failed_count)),
        ("disregarded", count_text(statistics.disregarded_count)),
        ("deferred", count_text(statistics.deferred_count)),
        ("lapsed", count_text(statistics.lapsed_count)),
        ("robots.txt", "ignored" if crawl.spec.robots.policy == "ignore" else ""),
        ("robots.txt fetches", count_text(statistics.robots_fetch_count)),
        (
            "fetch status",
            counts_text({fetch_status_text(s): n for s, n in statistics.fetch_status_counts.items()}),
        ),
        ("verdicts", counts_text(statistics.verdict_counts)),
        ("queues", counts_text(statistics.queue_state_counts)),
        ("why not faster", statistics.limited_by),
        ("estimate", time_left(statistics)),
        ("waiting for", "" if statistics.limited_by else statistics.waiting_for),  # else twice the same
        ("next due", output.moment(statistics.next_due_time)),
    ]
    for seed in seeds.troubled[:_MOST_TOLD]:
        yield "seed", f"{seed.uri}: {seed.outcome}"
    further = len(seeds.troubled) - _MOST_TOLD
    if further > 0:
        yield "seed", f"{count_text(further)} more; to see all: toehold report seeds --crawl {crawl.crawl}"


def _seeds_text(crawl: Crawl, seeds: Seeds) -> str:
    """How many seeds came to what; before that, while they are being announced, how far that is."""
    if crawl.announced_seed_count < crawl.seed_count:
        return f"{count_text(crawl.announced_seed_count)} of {count_text(crawl.seed_count)} announced"
    return seeds_text(seeds)
