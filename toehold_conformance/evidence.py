"""The evidence of a play for its cases: the requests that reached the web, the calls that reached the
frontier, and how the fetcher ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

from toehold.frontier.v1 import crawl_pb2, frontier_pb2
from toehold_client.spec.plain import enum_word

from .answers import Request
from .tap import Call

ROBOTS = "/robots.txt"

_SOON_S = 3.0
"""How much later than its limit a fetch may end."""


class Fails(Exception):
    """The fetcher does something else than the contract says: one sentence about what it did."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A report that the frontier answered."""

    report: frontier_pb2.Report
    result: frontier_pb2.ReportResult
    lease: frontier_pb2.Lease | None
    call: Call


@dataclass(frozen=True, slots=True)
class Offered:
    """A candidate that was offered to Schedule."""

    candidate: frontier_pb2.Candidate
    uri: str
    """Absolute."""
    call: Call


@dataclass(frozen=True, slots=True)
class Given:
    """A lease, and the answer that brought it."""

    lease: frontier_pb2.Lease
    call: Call

    @property
    def at_s(self) -> float:
        """When the fetcher got it."""
        return self.call.ended_s


@dataclass(slots=True)
class Evidence:
    """A play, and the hosts that a case judges."""

    hosts: str
    """The name of those hosts."""
    origins: Mapping[str, str]
    """By the keys of hosts."""
    requests: Sequence[Request]
    calls: Sequence[Call]
    trespasses: Sequence[str] = ()
    """The origins of decoys that were connected to."""
    facts: Mapping[str, float] = field(default_factory=dict)
    """The notes of the play: moments (seconds on the monotonic clock) and numbers."""
    trouble: str = ""
    """Why the play did not come to its end; empty if it did."""

    # the web

    def uri(self, path: str = "/", host: str = "") -> str:
        """The URI of a path of a host of the case."""
        return self.origins[f"{self.hosts}/{host}" if host else self.hosts] + path

    def asked(self, path: str = "/", host: str = "") -> list[Request]:
        key = f"{self.hosts}/{host}" if host else self.hosts
        return [request for request in self.requests if (request.site, request.path) == (key, path)]

    def uri_of(self, request: Request) -> str:
        """The URI that was asked for."""
        return self.origins[request.site] + request.path

    def must_ask(self, *paths: str, host: str = "") -> None:
        """Each of these must have been asked for."""
        for path in paths:
            if not self.asked(path, host):
                raise Fails(f"The fetcher did not fetch {self.uri(path, host)}.")

    def must_not_ask(self, *paths: str, host: str = "", why: str) -> None:
        """None of these may have been asked for."""
        for path in paths:
            if self.asked(path, host):
                raise Fails(f"The fetcher requested {self.uri(path, host)}, {why}.")

    # the frontier

    def called(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    @property
    def leases(self) -> list[Given]:
        """All leases that the fetcher has been given."""
        return [
            Given(lease, call)
            for call in self.called("Next")
            if call.answered
            for lease in call.response.leases
        ]

    @property
    def reported(self) -> Iterator[Reported]:
        """All reports that the frontier has answered, even if the fetcher did not get the answer."""
        leases = {given.lease.token: given.lease for given in self.leases}
        for call in self.called("Finished"):
            if call.response is not None:
                for report, result in zip(call.request.reports, call.response.results, strict=False):
                    yield Reported(report, result, leases.get(report.token), call)

    def reports(self, path: str = "/", host: str = "") -> list[frontier_pb2.Report]:
        """The reports of fetches of a URI."""
        uri = path if "://" in path else self.uri(path, host)
        return [
            each.report
            for each in self.reported
            if each.lease is not None
            and each.lease.uri == uri
            and each.report.outcome == frontier_pb2.OUTCOME_FETCHED
        ]

    def report(self, path: str = "/", host: str = "") -> frontier_pb2.Report:
        """The last report of a fetch of a URI."""
        found = self.reports(path, host)
        if not found:
            uri = path if "://" in path else self.uri(path, host)
            raise Fails(self._why_unreported(uri))
        return found[-1]

    def robots(self, host: str = "") -> frontier_pb2.Report:
        """The report of a host's robots.txt."""
        return self.report(ROBOTS, host)

    def must_report(self, *statuses: int, path: str = "/", host: str = "") -> frontier_pb2.Report:
        """The report of a URI, which must have one of these statuses."""
        report = self.report(path, host)
        if report.fetch_status not in statuses:
            right = " or ".join(str(status) for status in statuses)
            uri = path if "://" in path else self.uri(path, host)
            raise Fails(f"The fetcher reported {report.fetch_status} for {uri}; {right} is right.")
        return report

    def must_end(self, limit_s: float, path: str = "/") -> None:
        """The fetcher must have given up this page's requests soon after a limit."""
        for request in self.asked(path):
            took_s = request.ended_s - request.began_s
            if took_s > limit_s + _SOON_S:
                raise Fails(
                    f"The fetcher waited {took_s:.1f} s for {self.uri(path)}; {limit_s:g} s is right."
                )

    def must_be_cut(self, how: frontier_pb2.Truncation.ValueType, path: str = "/") -> frontier_pb2.Report:
        """The report of a URI, which must tell that its body was cut in this way."""
        report = self.must_report(200, path=path)
        if report.truncation != how:
            told, right = (
                enum_word(frontier_pb2.Truncation.DESCRIPTOR, value) for value in (report.truncation, how)
            )
            raise Fails(f"The fetcher reported truncation {told} for {self.uri(path)}; {right} is right.")
        return report

    @property
    def offered(self) -> Iterator[Offered]:
        """All candidates that the frontier has judged."""
        for call in self.called("Schedule"):
            if call.response is not None:
                for candidate in call.request.candidates:
                    yield Offered(candidate, absolute(candidate), call)

    def offers(self, uri: str) -> list[Offered]:
        """The candidates of a URI."""
        return [offered for offered in self.offered if offered.uri == uri]

    def offer(self, path: str, host: str = "", *, on: str = "/") -> frontier_pb2.Candidate:
        """The candidate of a link of a page of the case."""
        uri = path if "://" in path else self.uri(path, host)
        page = self.uri(on)
        for offered in self.offers(uri):
            if offered.candidate.via == page:
                return offered.candidate
        if not self.reports(on):
            raise Fails(self._why_unreported(page))
        if self.offers(uri):
            via = self.offers(uri)[0].candidate.via
            raise Fails(f"The fetcher offered {uri} with via {via!r}; {page} is right.")
        raise Fails(f"The fetcher did not offer {uri}, to which {page} leads.")

    def is_settled(self, path: str = "/", host: str = "") -> bool:
        """Whether a report of a URI has counted as its final one."""
        uri = self.uri(path, host)
        final = (crawl_pb2.Disposition.DISPOSITION_SUCCEEDED, crawl_pb2.Disposition.DISPOSITION_FAILED)
        return any(
            each.lease is not None and each.lease.uri == uri and each.result.disposition in final
            for each in self.reported
        )

    def must_be_complete(self) -> None:
        """The crawl of the play must have come to its end."""
        if self.trouble:
            raise Fails(self.trouble)

    def _why_unreported(self, uri: str) -> str:
        if any(given.lease.uri == uri for given in self.leases):
            return f"The fetcher got a lease of {uri} and did not report a fetch."
        hosts = [given for given in self.leases if origin_of(given.lease.uri) == origin_of(uri)]
        if all(given.lease.purpose == frontier_pb2.PURPOSE_ROBOTS for given in hosts):
            return (
                f"The fetcher has never got a lease of {uri}, because of its report of the robots.txt there."
            )
        return f"The fetcher has never got a lease of {uri}, because it did not offer it to Schedule."


def absolute(candidate: frontier_pb2.Candidate) -> str:
    """The URI of a candidate, resolved and without a fragment."""
    uri = urljoin(candidate.base, candidate.uri) if candidate.base else candidate.uri
    return uri.partition("#")[0]


def origin_of(uri: str) -> str:
    """The scheme, host and port of a URI."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}"
