"""A spider joins its crawl, and creates it first if need be. These calls block."""

from __future__ import annotations

from dataclasses import dataclass

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlState, RetrySpec
from toehold_client import CrawlController, FrontierClient, ToeholdError
from toehold_client.errors import CrawlExists, InvalidSpec, UnknownCrawl

from .configuration import Configuration, Misconfigured

START_PATIENCE_S = 3.0
"""How long a spider that starts waits for a frontier that does not answer."""


class CannotJoin(Exception):
    """The spider cannot work for its crawl; the message says why."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A crawl that the spider may work for."""

    launched: bool
    allowed_addresses: tuple[str, ...]
    retry: RetrySpec


def join(configuration: Configuration) -> Joined:
    """Finds the crawl or creates it, but does not launch it. Raises CannotJoin."""
    try:
        with FrontierClient(
            configuration.frontier, patience_s=START_PATIENCE_S, credentials=configuration.credentials
        ) as client:
            crawl = _found_or_created(client, configuration)
    except (ToeholdError, Misconfigured) as error:
        raise CannotJoin(str(error)) from None
    if crawl.status.state == CrawlState.CRAWL_STATE_FINISHED:
        raise CannotJoin(
            f"crawl {configuration.crawl!r} has finished. Name another one in TOEHOLD_CRAWL, or delete it: "
            f"toehold delete --crawl {configuration.crawl} --frontier {configuration.frontier}"
        )
    return Joined(
        launched=crawl.status.state != CrawlState.CRAWL_STATE_NASCENT,
        allowed_addresses=tuple(crawl.spec.allowed_addresses),
        retry=crawl.spec.retry,
    )


def _found_or_created(client: FrontierClient, configuration: Configuration) -> Crawl:
    controller = CrawlController(client, configuration.crawl)
    try:
        return controller.describe()
    except UnknownCrawl:
        pass
    wanted = configuration.crawl_spec()
    try:
        controller.create(wanted.spec, wanted.seeds())
    except CrawlExists:  # another process was faster
        pass
    except InvalidSpec as error:
        raise CannotJoin(f"TOEHOLD_SPEC: {error}") from None
    return controller.describe()
