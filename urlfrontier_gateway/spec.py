"""The spec of the gateway's crawls: Toehold keeps and orders the URLs, and the clients do all else."""

from google.protobuf.duration_pb2 import Duration

from toehold.frontier.v1 import crawl_pb2

DEFAULT_DELAY_S = 1
"""URLFrontier's default: how long a queue rests after it has given URLs."""

MAX_DELAY_S = 86_400
"""The longest rest of that kind that Toehold has."""

DAY_S = 86_400

FETCHER = "urlfrontier"
"""The kind of fetchers that the gateway is: its clients alone know what its URLs carry."""


def crawl_spec(crawl_id: str, *, delay_s: int, active: bool) -> crawl_pb2.CrawlSpec:
    """The spec of the crawl with this id.

    Clients fetch, so robots.txt, the rests of hosts, retries and revisits are theirs. Toehold's own nodes get
    none of these URLs, since the crawls are for another kind of fetcher.
    """
    none = Duration()
    return crawl_pb2.CrawlSpec(
        description=crawl_id,
        fetcher=FETCHER,
        allowed_addresses=["loopback"],
        scope=crawl_pb2.ScopeSpec(surt_prefixes=["+http://("], max_path_repetitions=0, max_path_segments=0),
        politeness=crawl_pb2.PolitenessSpec(
            delay_factor=0,
            min_delay=none,
            max_delay=none,
            max_crawl_delay=none,
            overload_delay=none,
            max_overload_delay=none,
            max_parallel=1000,
            across_crawls=False,
        ),
        robots=crawl_pb2.RobotsSpec(policy="ignore"),
        # Leases lapse with their gateway, and a lapse counts as an attempt.
        retry=crawl_pb2.RetrySpec(max_attempts=10_000, max_lapses=255),
        # A lease lives twice as long at most, if it is kept alive.
        fetch=crawl_pb2.FetchSpec(timeout=Duration(seconds=DAY_S)),
        identity=crawl_pb2.IdentitySpec(keep_uris=True),
        queues=crawl_pb2.QueueSpec(
            # A key may stand for a host or a domain; both lie within one partition of this kind.
            partition="registered-domain",
            cost="unit",
            error_penalty=0,
            session_budget=-1,
            uri_precedence="base",
            max_leases_per_queue=1000,
            min_gap=Duration(seconds=delay_s),
            uri_order="due-time",
        ),
        run_while_empty=True,
        weight=0,
        pause_at_start=not active,
        # A pause leaves clients their URLs until they are done with them.
        pause_timeout=Duration(seconds=DAY_S),
        resume_after_trouble=True,
    )
