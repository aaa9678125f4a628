"""A spider joins its crawl, and creates it first if need be. These calls block."""

from dataclasses import dataclass

from toehold.frontier.v1.admin_pb2 import Crawl
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, RetrySpec
from toehold_client import CrawlController, FrontierClient, ToeholdError
from toehold_client.errors import CrawlExists, InvalidSpec, PermissionDenied, UnknownCrawl

from .configuration import FETCHER, Configuration, Misconfigured
from .log import logger

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
    _check_kind(crawl, configuration)
    return Joined(
        launched=crawl.status.state != CrawlState.CRAWL_STATE_NASCENT,
        allowed_addresses=tuple(crawl.spec.allowed_addresses),
        retry=crawl.spec.retry,
    )


def _check_kind(crawl: Crawl, configuration: Configuration) -> None:
    """Raises CannotJoin if the crawl is for other fetchers; warns if it is for others, too."""
    name, kind = configuration.crawl, crawl.spec.fetcher
    if kind == FETCHER:
        return
    change = f"toehold set --crawl {name} fetcher={FETCHER} --frontier {configuration.frontier}"
    if kind:
        raise CannotJoin(
            f"crawl {name!r} is for fetchers of kind {kind!r}, and spiders are {FETCHER!r}. Name another "
            f"one in TOEHOLD_CRAWL, or let it be theirs: {change}"
        )
    logger.warning(
        "Crawl %r is for fetchers of any kind, so a toehold-node on this frontier may take pages from its "
        "spiders. This keeps them for spiders: %s",
        *(name, change),
    )


def _found_or_created(client: FrontierClient, configuration: Configuration) -> Crawl:
    controller = CrawlController(client, configuration.crawl)
    try:
        return _claimed(controller, controller.describe())
    except UnknownCrawl:
        pass
    wanted = configuration.crawl_spec()
    try:
        controller.create(wanted.spec, wanted.seeds())
    except CrawlExists:  # another process was faster
        pass
    except InvalidSpec as error:
        raise CannotJoin(f"TOEHOLD_SPEC: {error}") from None
    return _claimed(controller, controller.describe())


def _claimed(controller: CrawlController, crawl: Crawl) -> Crawl:
    """The crawl, now for spiders alone if nobody has fetched for it yet and it is for fetchers of any kind.

    A crawl that was launched may have other fetchers, which must not lose it without a word.
    """
    if crawl.spec.fetcher or crawl.status.state != CrawlState.CRAWL_STATE_NASCENT:
        return crawl
    try:
        return controller.update(CrawlSpec(fetcher=FETCHER))
    except PermissionDenied:  # the caller lacks the role `operate`
        return crawl
