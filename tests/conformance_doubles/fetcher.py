"""A small fetcher that keeps the contract, and can break it in one way: `--broken follows-redirects`.

fetcher.py --frontier HOST:PORT --crawl NAME --name NODE [--broken FAULT]
"""

import argparse
import base64
import contextlib
import dataclasses
import hashlib
import itertools
import os
import queue
import random
import re
import signal
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import grpc
from conformance_doubles.broken import Broken
from conformance_doubles.http_exchange import (
    CONNECT_LOST,
    DISCONNECT,
    PROTOCOL_ERROR,
    TIME,
    TIMEOUT,
    Answer,
    Cancelled,
    Rules,
    fetch,
)
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from grpc_status import rpc_status

from toehold.frontier.v1 import frontier_pb2 as pb
from toehold.frontier.v1.crawl_pb2 import Disposition, FetchPolicy
from toehold.frontier.v1.frontier_pb2_grpc import FrontierServiceStub

TOES = 4
MOST_HELD = 2 * TOES
LONG_POLL_S = 5.0
CALL_S = 10.0
GIVE_UP_S = 15.0
MAX_ROBOTS_BYTES = 500 * 1024
ROBOTS_REDIRECTS = 5
EMBEDS = {"img": "src", "script": "src", "iframe": "src", "link": "href"}
RUNTIME_EXCEPTION = -5
REDIRECTS = (301, 302, 303, 307, 308)


class Links(HTMLParser):
    """The links of a page: references and their hops."""

    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.found: dict[str, str] = {}
        self.nofollow = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "base" and not self.base:
            self.base = values.get("href", "")
        elif tag == "meta" and values.get("name") == "robots":
            self.nofollow = "nofollow" in values.get("content", "")
        elif tag == "a" and values.get("href"):
            self.found.setdefault(values["href"], "L")
        elif tag in EMBEDS and values.get(EMBEDS[tag]):
            self.found.setdefault(values[EMBEDS[tag]], "E")


@dataclass(slots=True, eq=False)
class Held:
    """A lease that is held."""

    lease: pb.Lease
    policy: FetchPolicy
    started: bool = False
    ended: bool = False
    interrupted: bool = False


class Fetcher:
    """The leases, the toe threads, and the calls."""

    def __init__(self, frontier: str, crawl: str, node: str, broken: Broken | None) -> None:
        self.crawl, self.node, self.broken = crawl, node, broken
        self.session = f"{node}-1" if broken is Broken.KEEPS_SESSION else uuid.uuid4().hex
        options = [("grpc.max_reconnect_backoff_ms", 1000), ("grpc.initial_reconnect_backoff_ms", 100)]
        self.stub = FrontierServiceStub(grpc.insecure_channel(frontier, options))
        self.policies: dict[str, FetchPolicy] = {}
        self.held: dict[bytes, Held] = {}
        self.waiting: queue.SimpleQueue[Held] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.leaving = threading.Event()
        self.interval_s = 0.5

    # calls

    def call(self, method: str, request: Any, timeout_s: float = CALL_S) -> Any:
        """Calls, and repeats what may be repeated."""
        began_s = time.monotonic()
        attempt = 0
        while True:
            attempt += 1
            try:
                return getattr(self.stub, method)(request, timeout=timeout_s)
            except grpc.RpcError as error:
                failed: Any = error
                reason, hint_s = details(failed)
                if reason == "SESSION_SUPERSEDED" and self.broken is not Broken.SURVIVES_SUPERSESSION:
                    os._exit(3)
                repeatable = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
                if reason and failed.code() not in repeatable:
                    raise
                if self.broken is Broken.ENDS_AT_ERRORS:
                    os._exit(1)
                if self.broken is Broken.DROPS_FAILED_CALLS and method in ("Schedule", "Finished"):
                    return None
                if self.leaving.is_set() and time.monotonic() > began_s + GIVE_UP_S:
                    raise
                backoff_s = min(0.2 * 2**attempt, 5.0) * random.uniform(0.8, 1.2)
                time.sleep(0.1 if self.broken is Broken.IGNORES_HINTS else max(hint_s, backoff_s))

    def run(self) -> None:
        """Fetches until it is asked to leave, and says goodbye."""
        toes = [threading.Thread(target=self.work, daemon=True) for _ in range(TOES)]
        for thread in toes:
            thread.start()
        if self.broken is not Broken.SENDS_NO_HEARTBEAT:
            threading.Thread(target=self.beat, daemon=True).start()
        threading.Thread(target=self.feed, daemon=True).start()
        self.leaving.wait()
        while self.held:  # a call of Next that was under way may bring more
            with self.lock:
                unstarted = [held for held in self.held.values() if not held.started]
            self.release(unstarted)
            time.sleep(0.05)
        self.call("Heartbeat", pb.HeartbeatRequest(node=self.node, session=self.session, leaving=True))

    def feed(self) -> None:
        """Asks for leases."""
        while not self.leaving.is_set():
            room = MOST_HELD - len(self.held)
            if room <= 0:
                time.sleep(0.05)
                continue
            wait_s = 0.0 if self.broken is Broken.ASKS_IN_A_LOOP else LONG_POLL_S
            request = pb.NextRequest(
                crawl=self.crawl,
                node=self.node,
                session=self.session,
                max_leases=room,
                wait_duration=duration(wait_s),
                known_fetch_policy_ids=list(self.policies),
            )
            answer = self.call("Next", request, wait_s + CALL_S)
            self.policies.update((policy.fetch_policy_id, policy) for policy in answer.fetch_policies)
            for lease in answer.leases:
                held = Held(lease, self.policies[lease.fetch_policy_id])
                with self.lock:
                    self.held[lease.token] = held
                self.waiting.put(held)
            if not answer.leases and self.broken is not Broken.ASKS_IN_A_LOOP:
                self.leaving.wait(answer.retry_duration.ToTimedelta().total_seconds())

    def beat(self) -> None:
        """Sends heartbeats, and obeys the answers."""
        while True:
            request = pb.HeartbeatRequest(node=self.node, session=self.session, tokens=list(self.held))
            answer = self.call("Heartbeat", request)
            self.interval_s = answer.interval_duration.ToTimedelta().total_seconds()
            with self.lock:
                asked = {
                    name: [self.held[token] for token in getattr(answer, name) if token in self.held]
                    for name in ("ended_tokens", "release_tokens", "interrupt_tokens")
                }
                if self.broken is not Broken.KEEPS_ENDED_LEASES:
                    for held in asked["ended_tokens"]:
                        held.ended = True
                        self.held.pop(held.lease.token, None)
            if self.broken is not Broken.IGNORES_RELEASE:
                self.release([held for held in asked["release_tokens"] if not held.started])
            if self.broken is not Broken.IGNORES_INTERRUPT:
                self.release([held for held in asked["interrupt_tokens"] if not held.started])
                for held in asked["interrupt_tokens"]:
                    held.interrupted = True
            if answer.drain and self.broken is not Broken.IGNORES_DRAIN:
                self.leaving.set()
            time.sleep(self.interval_s)

    def release(self, unstarted: list[Held]) -> None:
        """Hands leases back that no toe has taken."""
        with self.lock:
            free = [held for held in unstarted if not held.started]
            for held in free:
                held.started = held.ended = True  # toes leave it alone
        if free:
            self.report(*(pb.Report(token=held.lease.token, outcome=pb.OUTCOME_RELEASED) for held in free))

    def report(self, *reports: pb.Report) -> None:
        """Hands leases back."""
        answer = self.call(
            "Finished", pb.FinishedRequest(reports=reports, node=self.node, session=self.session)
        )
        stale = Disposition.DISPOSITION_STALE
        late = answer is not None and any(result.disposition == stale for result in answer.results)
        if late and self.broken is Broken.ENDS_AT_STALE:
            os._exit(1)
        with self.lock:
            for report in reports:
                self.held.pop(report.token, None)

    # fetches

    def work(self) -> None:
        """A toe thread."""
        while True:
            held = self.waiting.get()
            with self.lock:
                if held.started or held.ended:
                    continue
                held.started = True
            self.process(held)

    def process(self, held: Held) -> None:
        """Fetches a lease, offers its links and reports it."""
        start_s, begun_s = time.time(), time.monotonic()
        try:
            is_robots = held.lease.purpose == pb.PURPOSE_ROBOTS
            if is_robots and self.broken is not Broken.IGNORES_ROBOTS_PURPOSE:
                answer, status, peer = self.fetch_robots(held)
            else:
                answer = self.fetch_page(held)
                status, peer = answer.status, answer.peer
        except Cancelled:
            if held.interrupted and not held.ended:
                self.report(pb.Report(token=held.lease.token, outcome=pb.OUTCOME_FETCHED, fetch_status=-7000))
            return
        if self.broken is Broken.READS_HEADERS_AS_ASCII and not "".join(answer.headers.values()).isascii():
            answer, status = Answer(RUNTIME_EXCEPTION), RUNTIME_EXCEPTION
        report = pb.Report(
            token=held.lease.token,
            outcome=pb.OUTCOME_FETCHED,
            fetch_status=self.told(status),
            fetch_duration=duration(time.monotonic() - begun_s),
            body_bytes=len(answer.body),
            media_type=answer.media_type,
            peer_address=peer,
        )
        report.start_time.FromNanoseconds(round(start_s * 1e9))
        if answer.status > 0:
            self.describe(report, held, answer)
        offers: list[pb.Candidate] = []
        if not is_robots:
            offers = self.offers(held, answer)
        if held.ended:
            return
        reports_first = self.broken is Broken.REPORTS_BEFORE_LINKS
        if reports_first:
            self.report(report)
        if offers:
            self.call("Schedule", pb.ScheduleRequest(crawl=held.lease.crawl, candidates=offers))
        if not reports_first:
            self.report(report)

    def told(self, status: int) -> int:
        """A status as it is reported."""
        if self.broken is Broken.BENDS_STATUSES and status > 599:
            return 500
        if self.broken is Broken.CALLS_ALL_FAILURES_LOST and status < 0:
            return CONNECT_LOST
        return status

    def describe(self, report: pb.Report, held: Held, answer: Answer) -> None:
        """Adds what an answer says of itself."""
        digest = hashlib.sha1(answer.body, usedforsecurity=False).digest()
        report.digest = f"sha1:{base64.b32encode(digest).decode()}"
        if answer.status == 304 and held.lease.last_digest:
            report.digest = held.lease.last_digest
        if answer.truncation and self.broken is not Broken.HIDES_CUTS:
            report.truncation = pb.Truncation.Value(f"TRUNCATION_{answer.truncation}")
        if not answer.truncation:
            report.etag = answer.headers.get("etag", "")
            report.last_modified = answer.headers.get("last-modified", "")
        if held.lease.purpose == pb.PURPOSE_ROBOTS and 200 <= report.fetch_status < 300:
            if self.broken is Broken.IGNORES_ROBOTS_PURPOSE:
                return
            body = answer.decoded() or b""
            most = 10**9 if self.broken is Broken.CUTS_NO_ROBOTS else MAX_ROBOTS_BYTES
            report.robots_body = body[:most]
            report.robots_empty = not body
        with contextlib.suppress(ValueError):
            if "retry-after" in answer.headers:
                report.retry_after_duration.CopyFrom(duration(rest_s(answer.headers["retry-after"])))

    def rules(self, held: Held, *, is_robots: bool = False) -> Rules:
        """How to fetch a lease."""
        policy = held.policy

        def wants(media_type: str, length: int) -> bool:
            if is_robots or self.broken is Broken.IGNORES_FILTER:
                return True
            if policy.max_content_length and length > policy.max_content_length:
                return False
            kinds = (media_type, media_type.partition("/")[0] + "/*")
            return not set(kinds) & set(policy.reject_media_types)

        long_s = 60.0
        ignores = self.broken is Broken.IGNORES_DEADLINE
        return Rules(
            user_agent="Other/1.0" if self.broken is Broken.OTHER_AGENT else policy.user_agent,
            timeout_s=long_s if ignores else policy.timeout.ToTimedelta().total_seconds(),
            connect_timeout_s=policy.connect_timeout.ToTimedelta().total_seconds(),
            read_timeout_s=(
                long_s
                if self.broken is Broken.IGNORES_SILENCE
                else policy.read_timeout.ToTimedelta().total_seconds()
            ),
            max_bytes=10**8 if self.broken is Broken.IGNORES_MAX_BYTES else policy.max_bytes,
            allowed=(
                ["0.0.0.0/0", "::/0"]
                if self.broken is Broken.CONNECTS_ANYWHERE
                else list(policy.allowed_addresses)
            ),
            wants=wants,
            cancelled=lambda: held.ended or held.interrupted,
            keeps_parts=self.broken is not Broken.DROPS_SILENT_BODIES,
        )

    def fetch_page(self, held: Held) -> Answer:
        """Fetches a page; conditionally if it was fetched before."""
        lease = held.lease
        validators = {"If-None-Match": lease.etag, "If-Modified-Since": lease.last_modified}
        if self.broken is Broken.SENDS_NO_VALIDATORS:
            validators = {}
        sent = {name: value for name, value in validators.items() if value}
        answer = fetch(lease.uri, self.rules(held), sent)
        if self.broken is Broken.FOLLOWS_REDIRECTS:
            for _ in range(5):
                if answer.status not in REDIRECTS or "location" not in answer.headers:
                    break
                answer = fetch(urljoin(lease.uri, answer.headers["location"]), self.rules(held), {})
        return answer

    def fetch_robots(self, held: Held) -> tuple[Answer, int, str]:
        """Fetches a robots.txt: the answer, the status to report, and the address of its own host."""
        uri, peer = held.lease.uri, ""
        most = 9 if self.broken is Broken.FOLLOWS_SIX_REDIRECTS else ROBOTS_REDIRECTS
        rules = self.rules(held, is_robots=True)
        if self.broken is not Broken.CUTS_ROBOTS_AS_PAGES:
            rules = dataclasses.replace(rules, max_bytes=10**7)
        before = b""
        for _ in range(most + 1):
            answer = fetch(uri, rules, {})
            peer = peer or answer.peer
            if self.broken is Broken.MIXES_ROBOTS_BODIES:
                answer.body = before = before + answer.body
            if answer.status not in REDIRECTS or "location" not in answer.headers:
                break
            uri = urljoin(uri, self.location(answer))
        status = answer.status
        if 300 <= status < 400:
            status = -404
        elif 200 <= status < 300 and self.broken is not Broken.CLAIMS_EMPTY_ROBOTS:
            if answer.truncation == TIME:
                status = TIMEOUT
            elif answer.truncation == DISCONNECT and not answer.body:
                status = CONNECT_LOST
            elif answer.decoded() is None:
                status = PROTOCOL_ERROR
        return answer, status, peer

    def location(self, answer: Answer) -> str:
        """The target of a redirect, as it is written there: in UTF-8 if possible, else in Latin-1."""
        target = answer.headers["location"]
        if self.broken is not Broken.READS_LOCATIONS_AS_LATIN_1:
            with contextlib.suppress(UnicodeDecodeError):
                return target.encode("latin-1").decode()
        return target

    def offers(self, held: Held, answer: Answer) -> list[pb.Candidate]:
        """The candidates of an answer's links."""
        lease = held.lease
        found: dict[str, str] = {}
        base = lease.uri
        if answer.status in REDIRECTS and answer.headers.get("location"):
            found[self.location(answer)] = "R"
        elif answer.status > 0 and answer.media_type == "text/html":
            links = Links()
            links.feed((answer.decoded() or b"").decode("utf-8", "replace"))
            if not (links.nofollow and held.policy.extract.obey_robots_meta):
                found = links.found
            if self.broken is not Broken.DROPS_BASE:
                base = urljoin(base, links.base)
            if self.broken is Broken.RESOLVES_AT_THE_ROOT and not links.base:
                base = urljoin(base, "/")
        if self.broken is not Broken.IGNORES_MAX_LINKS:
            found = dict(itertools.islice(found.items(), held.policy.extract.max_links))
        return [self.candidate(lease, reference, base, hop) for reference, hop in found.items()]

    def redirects(self, lease: pb.Lease, hop: str) -> bytes:
        """What a candidate says of the redirects that led to it."""
        match self.broken:
            case Broken.FORGETS_REDIRECTS:
                return b""
            case Broken.COPIES_REDIRECTS_TO_LINKS:
                return lease.redirects
            case _:
                return lease.redirects if hop == "R" else b""

    def candidate(self, lease: pb.Lease, reference: str, base: str, hop: str) -> pb.Candidate:
        """One link."""
        is_relative = re.match("[a-z]+:", reference) is None
        return pb.Candidate(
            uri=reference,
            base=base if is_relative else "",
            via=lease.uri,
            path=lease.path if self.broken is Broken.FORGETS_HOPS else lease.path + hop,
            source=lease.uri if self.broken is Broken.FORGETS_SOURCE else lease.source,
            redirects=self.redirects(lease, hop),
        )


def details(error: Any) -> tuple[str, float]:
    """The reason of an error's ErrorInfo and the rest that it asks for; empty and 0 without."""
    reason, rest = "", 0.0
    status = rpc_status.from_call(error)
    for detail in status.details if status is not None else ():
        info, retry = ErrorInfo(), RetryInfo()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(retry):
            rest = retry.retry_delay.ToTimedelta().total_seconds()
    return reason, rest


def rest_s(header: str) -> float:
    """The seconds of a Retry-After."""
    if header.isdecimal():
        return float(header)
    return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())


def duration(seconds: float) -> Duration:
    """A time in seconds, as the contract writes it."""
    whole = Duration()
    whole.FromNanoseconds(round(seconds * 1e9))
    return whole


def main(environment: Mapping[str, str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frontier", default=environment.get("TOEHOLD_FRONTIER", ""))
    parser.add_argument("--crawl", default=environment.get("TOEHOLD_CRAWL", ""))
    parser.add_argument("--name", default=environment.get("TOEHOLD_NODE", ""))
    parser.add_argument("--broken", type=Broken, default=None)
    options = parser.parse_args()
    fetcher = Fetcher(options.frontier, options.crawl, options.name, options.broken)
    if options.broken is not Broken.ENDS_AT_ONCE:
        signal.signal(signal.SIGTERM, lambda number, frame: fetcher.leaving.set())
    fetcher.run()


if __name__ == "__main__":
    main(os.environ)
    sys.exit(0)
