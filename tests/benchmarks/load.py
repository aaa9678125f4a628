"""What the frontier is loaded with, and calls that cost the caller little.

URIs look like those of a crawl: found on pages, most of them on their page's own host. Requests are made
beforehand and sent as bytes, so that the server has a core to itself.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import grpc
from google.protobuf.message import Message

from toehold.frontier.v1 import admin_pb2, admin_pb2_grpc, crawl_pb2, frontier_pb2

LINKS_PER_PAGE = 50
OWN_LINKS_PER_PAGE = 40
BATCH = 500
IN_FLIGHT = 4
CALL_S = 60.0

_TEXT = (
    "about archive article blog catalog category comment contact culture detail download event feature "
    "forum gallery guide health help history index issue item journal library local market media member "
    "music news opinion page people photo press product profile project question recipe report research "
    "review science search section series service shop sport story summary support topic travel tutorial "
    "video weather"
)
_WORDS = _TEXT.split()


@dataclass(frozen=True, slots=True)
class Link:
    """A URI, and the page that it was found on."""

    uri: str
    via: str


def host_names(count: int) -> list[str]:
    """Names of so many hosts."""
    return [f"www.{_WORDS[n % len(_WORDS)]}-{n:05d}.example" for n in range(count)]


def links(hosts: Sequence[str], pages: int, first: int = 0) -> list[Link]:
    """The links of so many pages from the `first`, each URI once: 40 to the page's own host and 10 to others,
    some 80 characters each. Pages of all hosts take turns, as politeness has it."""
    chance = random.Random(1 + first)
    found: list[Link] = []
    for page in range(first, first + pages):
        own = hosts[page % len(hosts)]
        via = _uri(chance, own, page)
        for link in range(LINKS_PER_PAGE):
            host = own if link < OWN_LINKS_PER_PAGE else hosts[chance.randrange(len(hosts))]
            found.append(Link(_uri(chance, host, first * LINKS_PER_PAGE + len(found)), via))
    return found


def _uri(chance: random.Random, host: str, number: int) -> str:
    first, second, third, fourth = chance.choices(_WORDS, k=4)
    return f"https://{host}/{first}/{second}/{third}-{fourth}-{number:07d}.html?from={first}"


def schedule_requests(crawl: str, offered: Sequence[Link]) -> list[bytes]:
    """Schedule requests of `BATCH` candidates, as bytes."""
    return [
        frontier_pb2.ScheduleRequest(
            crawl=crawl,
            candidates=[
                frontier_pb2.Candidate(uri=link.uri, via=link.via, path="LL")
                for link in offered[start : start + BATCH]
            ],
        ).SerializeToString()
        for start in range(0, len(offered), BATCH)
    ]


class Load:
    """A client whose calls take and give bytes, within a `with` block."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(
            address, options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        )

        self.admin = admin_pb2_grpc.FrontierAdminServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def create_crawl(
        self,
        name: str,
        hosts: Sequence[str],
        rest_ms: int = 0,
        *,
        launch: bool = False,
        surt_prefixes: Sequence[str] = (),
        run_while_empty: bool = False,
    ) -> None:
        """A crawl of these hosts, which rest so long after each fetch. To be launched, it takes a seed: the
        first host's front page."""
        scope = crawl_pb2.ScopeSpec(hosts=hosts, surt_prefixes=surt_prefixes)
        spec = crawl_pb2.CrawlSpec(
            allowed_addresses=["loopback"], scope=scope, run_while_empty=run_while_empty
        )
        spec.politeness.delay_factor = 0
        spec.politeness.min_delay.FromMilliseconds(rest_ms)
        spec.politeness.max_delay.FromMilliseconds(rest_ms)
        admin = self.admin
        admin.CreateCrawl(admin_pb2.CreateCrawlRequest(crawl=name, spec=spec), timeout=CALL_S)
        if launch:
            self.launch(name, hosts[0])

    def launch(self, name: str, host: str) -> None:
        """Launch a crawl; its seed is a host's front page."""
        seeds = [admin_pb2.AddSeedsRequest(crawl=name, uris=[f"https://{host}/"])]
        self.admin.AddSeeds(iter(seeds), timeout=CALL_S)
        self.admin.LaunchCrawl(admin_pb2.LaunchCrawlRequest(crawl=name), timeout=CALL_S)

    def call(self, method: str) -> "grpc.UnaryUnaryMultiCallable[bytes, bytes]":
        """A method of FrontierService, from bytes to bytes."""
        return self._channel.unary_unary(
            f"/toehold.frontier.v1.FrontierService/{method}",
            request_serializer=None,
            response_deserializer=None,
        )

    def events(self, crawl: str) -> Any:
        """The events of a crawl, from now on."""
        request = frontier_pb2.StateEventsRequest(crawl=crawl)
        return self._stream("FrontierService/StateEvents", request)

    def outcomes(self, crawl: str) -> Any:
        """The outcomes of a crawl, from now on."""
        request = admin_pb2.StreamOutcomesRequest(crawl=crawl, follow=True)
        return self._stream("FrontierAdminService/StreamOutcomes", request)

    def _stream(self, method: str, request: Message) -> Any:
        call: Any = self._channel.unary_stream(f"/toehold.frontier.v1.{method}", None, None)
        return call(request.SerializeToString())

    def schedule(
        self, requests: Sequence[bytes], verdict: crawl_pb2.Verdict.ValueType
    ) -> "Callable[[], int]":
        """Work that offers these, `IN_FLIGHT` at a time; how many candidates they were.

        Raises RuntimeError unless each verdict is as expected: what was not done must not be counted.
        """

        def work() -> int:
            call = self.call("Schedule")
            waiting: deque[grpc.Future[bytes]] = deque()
            answers: list[bytes] = []
            for request in requests:
                if len(waiting) == IN_FLIGHT:
                    answers.append(waiting.popleft().result())
                waiting.append(call.future(request, timeout=CALL_S))
            answers.extend(future.result() for future in waiting)
            verdicts = [
                found
                for answer in answers
                for found in frontier_pb2.ScheduleResponse.FromString(answer).verdicts
            ]
            if set(verdicts) != {verdict}:
                raise RuntimeError(
                    f"expected nothing but {crawl_pb2.Verdict.Name(verdict)}, got {set(verdicts)}"
                )
            return len(verdicts)

        return work
