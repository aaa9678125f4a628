"""Poller: asks the frontier for as many leases as the toes can start soon, and puts them into the book."""

import threading
import time
from collections.abc import Callable, Iterable

import structlog
from cachetools import LRUCache

from toehold.frontier.v1 import crawl_pb2
from toehold.frontier.v1.frontier_pb2 import EMPTY_REASON_OTHER_FETCHER
from toehold_client.errors import ToeholdError
from toehold_client.worker.addresses import AddressRule
from toehold_client.worker.rests import CallPace, poll_rest_s
from toehold_client.worker.threads import keep_calling

from ..fetching.fetch import ExtractSettings, FetchPolicy, Provenance, header_of
from ..output.archive import Archive
from .book import HeldLease, LeaseBook
from .frontier import FrontierConnection

LONG_POLL_S = 20.0
"""How long the frontier may hold back an answer while it has no lease to give."""

PROBE_REST_S = 5.0
"""How often the node tries to write while WARC files cannot be written."""

DEFAULT_PATIENCE_MS = 20_000
"""The limit of connections and silences, for a frontier that tells none."""

MAX_LEASES = 1000
MAX_POLICIES = 1000

log = structlog.get_logger()


class Poller:
    """Asks for leases until it is stopped.

    `frontier` is a connection of its own. Closing it breaks off a call that waits, and the frontier then
    keeps the leases that it would have answered with.
    """

    def __init__(
        self,
        frontier: FrontierConnection,
        book: LeaseBook,
        archive: Archive,
        crawl: str,
        give_back: Callable[[Iterable[HeldLease]], None],
    ) -> None:
        self._frontier = frontier
        self._book = book
        self._archive = archive
        self._crawl = crawl
        self._give_back = give_back
        # None for a policy that makes no sense: its leases fail, and others go on.
        self._policies: LRUCache[str, FetchPolicy | None] = LRUCache(MAX_POLICIES)
        self._refusal = ""
        self._unserved = False  # whether the node was told that its crawls are for other fetchers
        self._stop = threading.Event()

    def __repr__(self) -> str:
        crawl = repr(self._crawl) if self._crawl else "any crawl"
        refusal = f", refused: {self._refusal}" if self._refusal else ""
        stopped = ", stopped" if self._stop.is_set() else ""
        return f"<Poller for {crawl}: {len(self._policies)} policies{refusal}{stopped}>"

    def stop(self) -> None:
        """Ends `run`, and breaks off the call that it waits for."""
        self._stop.set()
        self._frontier.close()

    def run(self) -> None:
        """Fills the book until `stop`. Raises SessionSuperseded."""
        keep_calling(self._fill, CallPace(self._tell), self._stop)

    def _fill(self) -> float:
        """Waits for room in the book, and asks for as many leases. Returns how long to wait before asking
        again."""
        room = self._book.wait_for_room()
        if not room:
            self._wait_for_archive()
            return 0.0
        rest_s = self._poll(min(room, MAX_LEASES))
        self._refusal = ""
        return rest_s

    def _poll(self, room: int) -> float:
        """Asks once. Returns how long to wait before asking again."""
        # A late answer brings leases that may have lapsed. The wait is so short that leases of an answer in
        # time are young.
        wait_s = min(LONG_POLL_S, self._book.period_s / 3)
        asked_at_s = time.monotonic()
        answer = self._frontier.next(self._crawl, room, wait_s, list(self._policies))
        new = {policy.fetch_policy_id: usable_policy(policy) for policy in answer.fetch_policies}
        self._note_unserved(answer.empty_reason == EMPTY_REASON_OTHER_FETCHER)
        # Before the new policies push out older ones, which other leases of the answer may name.
        leases = [
            (lease, new.get(lease.fetch_policy_id) or self._policies.get(lease.fetch_policy_id))
            for lease in answer.leases
        ]
        self._policies.update(new)
        if leases:
            self._give_back(self._book.add(leases, asked_at_s))
            return 0.0
        return poll_rest_s(answer)

    def _wait_for_archive(self) -> None:
        """Waits while the book takes in no leases: because the node ends, or because pages cannot be
        stored."""
        if not self._stop.wait(PROBE_REST_S) and self._archive.probe():
            self._book.resume()

    def _note_unserved(self, unserved: bool) -> None:
        if unserved and not self._unserved:
            log.warning("crawl_for_others", crawl=self._crawl)
        self._unserved = unserved

    def _tell(self, refusal: ToeholdError) -> None:
        # Once, and not every two seconds: a node may be started before its crawl is created.
        if str(refusal) != self._refusal:
            self._refusal = str(refusal)
            log.warning("leases_refused", error=str(refusal), request_id=refusal.request_id)


def usable_policy(policy: crawl_pb2.FetchPolicy) -> FetchPolicy | None:
    """The policy as fetches use it. Logs one that makes no sense, and returns None."""
    try:
        return FetchPolicy(
            policy_id=policy.fetch_policy_id,
            user_agent=policy.user_agent,
            timeout_ms=policy.timeout.ToMilliseconds(),
            max_bytes=policy.max_bytes,
            addresses=AddressRule.parse(policy.allowed_addresses),
            product_token=policy.product_token,
            connect_timeout_ms=policy.connect_timeout.ToMilliseconds() or DEFAULT_PATIENCE_MS,
            read_timeout_ms=policy.read_timeout.ToMilliseconds() or DEFAULT_PATIENCE_MS,
            accept_media_types=tuple(policy.accept_media_types),
            reject_media_types=tuple(policy.reject_media_types),
            max_content_length=policy.max_content_length,
            max_bytes_per_second=policy.max_bytes_per_second,
            cookies=policy.cookies,
            keep_alive=policy.keep_alive,
            min_delay_ms=policy.min_delay.ToMilliseconds(),
            proxy=policy.proxy,
            user=policy.user,
            password=policy.password,
            headers=tuple(map(header_of, policy.headers)),
            referer=policy.referer,
            extract=_extract(policy.extract) if policy.HasField("extract") else ExtractSettings(),
            provenance=_provenance(policy.provenance, policy.user_agent),
        )
    except ValueError as error:
        log.error(
            "fetch_policy_unusable",
            policy=policy.fetch_policy_id,
            error=str(error),
        )
        return None


def _extract(spec: crawl_pb2.ExtractSpec) -> ExtractSettings:
    return ExtractSettings(
        max_links=spec.max_links,
        javascript=spec.javascript,
        obey_nofollow=spec.obey_nofollow,
        obey_robots_meta=spec.obey_robots_meta,
        sitemap_lastmod=spec.sitemap_lastmod,
    )


def _provenance(whose: crawl_pb2.Provenance, user_agent: str) -> Provenance:
    """What archives say of a crawl; only this user agent if the frontier, an older one, tells nothing."""
    return Provenance(
        launch_ms=whose.launch_time.ToMilliseconds(),
        operator=whose.operator,
        contact=whose.contact,
        description=whose.description,
        user_agent=whose.user_agent or user_agent,
        robots_policy=whose.robots_policy,
    )
