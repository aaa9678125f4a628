"""`toehold verify`: checks the stored data of a crawl."""

import click

from toehold.frontier.v1.admin_pb2 import VerifyJob
from toehold_client.controller import CrawlController

from .jobs import tell_job
from .options import json_option, wait_option, with_crawl


@click.command()
@click.option("--repair", is_flag=True, help="Repair what is wrong.")
@wait_option
@json_option
@with_crawl
def verify(crawl: CrawlController, repair: bool, wait_s: float | None, as_json: bool) -> None:
    """Check the stored data of a crawl, with a job.

    It checks queues, URIs, the seen-set and sums, row by row. The job counts wrong rows as changed, and shows
    the first 100. It compares sums only if nothing changes meanwhile, so pause the crawl first.
    """
    tell_job(crawl, crawl.frontier.start_job(crawl.crawl, VerifyJob(repair=repair)), wait_s, as_json)
