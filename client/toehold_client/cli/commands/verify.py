"""`toehold verify`: recounts what a frontier has stored of a crawl."""

from __future__ import annotations

import click

from toehold.frontier.v1.admin_pb2 import VerifyJob
from toehold_client.controller import CrawlController

from .jobs import tell_job
from .options import json_option, wait_option, with_crawl


@click.command()
@click.option("--repair", is_flag=True, help="Mend what is wrong.")
@wait_option
@json_option
@with_crawl
def verify(crawl: CrawlController, repair: bool, wait_s: float | None, as_json: bool) -> None:
    """Recount a crawl row by row, by a job: queues, URIs, seen-set, sums.

    What is wrong is counted as changed, and the first 100 are told. The sums are compared only if nothing
    changes meanwhile: pause the crawl for that.
    """
    tell_job(crawl, crawl.frontier.start_job(crawl.crawl, VerifyJob(repair=repair)), wait_s, as_json)
