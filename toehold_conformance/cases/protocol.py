"""The exchange with the frontier and the manners on the web, judged over a whole crawl."""

from collections import Counter, defaultdict
from itertools import pairwise

from toehold.frontier.v1.crawl_pb2 import Disposition, FetchPolicy
from toehold.frontier.v1.frontier_pb2 import OUTCOME_FETCHED
from toehold_client.spec.plain import enum_word, seconds_of
from toehold_conformance.answers import LEAF, Request, later, page
from toehold_conformance.case import Cases, Level
from toehold_conformance.evidence import Evidence, Fails
from toehold_conformance.processes import LEASE_S

from .site import SITE, TARGETS

CASES = Cases("The exchange with the frontier", SITE)

_MOST_POLLS_PER_S = 10
_FAULTY = (Disposition.DISPOSITION_INVALID_REPORT, Disposition.DISPOSITION_UNKNOWN_TOKEN)


@CASES.add("Send the User-Agent of the lease's fetch policy, whole.", "FetchPolicy.user_agent")
def user_agent(seen: Evidence) -> None:
    agents = {policy.user_agent for policy in _policies(seen)}
    for request in seen.requests:
        sent = request.headers.get("user-agent", "")
        if sent not in agents:
            right = min(agents, default="")
            raise Fails(f"The fetcher asked for {seen.uri_of(request)} as {sent!r}; {right!r} is right.")


@CASES.add(
    "Request only URIs that are leased, once per lease (robots.txt may redirect).",
    "PURPOSE_PAGE, PURPOSE_ROBOTS",
)
def only_leases(seen: Evidence) -> None:
    leased = Counter(given.lease.uri for given in seen.leases)
    counts = Counter(seen.uri_of(request) for request in seen.requests)
    for uri, times in counts.items():
        if times > leased[uri] and TARGETS not in uri:
            raise Fails(f"The fetcher requested {uri} {times} times, and had {leased[uri]} leases of it.")


@CASES.add(
    "Never make two requests to a host at once.",
    "PolitenessSpec.max_parallel",
)
def one_at_a_time(seen: Evidence) -> None:
    by_host: dict[str, list[Request]] = defaultdict(list)
    for request in seen.requests:
        by_host[request.site].append(request)
    for requests in by_host.values():
        requests.sort(key=lambda request: request.began_s)
        for before, after in pairwise(requests):
            if after.began_s < before.ended_s:
                raise Fails(
                    f"The fetcher requested {seen.uri_of(after)} before {seen.uri_of(before)} was complete."
                )


@CASES.add("Send reports that the frontier takes.", "Report, Disposition")
def valid_reports(seen: Evidence) -> None:
    for each in seen.reported:
        if each.result.disposition in _FAULTY:
            uri = each.lease.uri if each.lease is not None else "an unknown lease"
            decision = enum_word(Disposition.DESCRIPTOR, each.result.disposition)
            problem = f": {each.result.problem}" if each.result.problem else ""
            raise Fails(
                f"The report of {uri} with status {each.report.fetch_status} was {decision}{problem}."
            )
    if not any(True for _ in seen.reported):
        raise Fails("The fetcher reported nothing.")


@CASES.add("Report a page only after Schedule has answered for its links.", "The header of frontier.proto")
def links_before_report(seen: Evidence) -> None:
    must_offer_links_first(seen)


def must_offer_links_first(seen: Evidence) -> None:
    """Fails if a report went out before the links of its page were taken in."""
    answered: dict[str, float] = {}
    for offered in seen.offered:
        via = offered.candidate.via
        answered[via] = max(answered.get(via, 0.0), _taken_in_s(seen, offered.uri, via))
    for each in seen.reported:
        if each.lease is None or each.report.outcome != OUTCOME_FETCHED:
            continue
        if each.call.began_s < answered.get(each.lease.uri, 0.0):
            raise Fails(
                f"The fetcher reported {each.lease.uri} before Schedule had answered for the links on it."
            )


def _taken_in_s(seen: Evidence, uri: str, via: str) -> float:
    """When a link of a page was first taken in."""
    return min(each.call.ended_s for each in seen.offers(uri) if each.candidate.via == via)


@CASES.add(
    "Name all leases in heartbeats while they are held, so that a long fetch is not given out again.",
    "Heartbeat, HeartbeatRequest.tokens",
    hosts={"": {"/": page("/long"), "/long": later(LEASE_S + 2, LEAF)}},
)
def heartbeats(seen: Evidence) -> None:
    seen.must_report(200, path="/long")
    if len(seen.asked("/long")) > 1 or not seen.is_settled("/long"):
        raise Fails(f"The fetcher let the lease of {seen.uri('/long')} lapse while it fetched it.")


@CASES.add(
    "Send heartbeats at the interval that the frontier asks for.", "HeartbeatResponse.interval_duration"
)
def heartbeat_interval(seen: Evidence) -> None:
    beats = [call for call in seen.called("Heartbeat") if call.answered]
    if len(beats) < 2:
        raise Fails(f"The fetcher sent {len(beats)} heartbeats during the whole crawl.")
    interval_s = seconds_of(beats[0].response.interval_duration)
    lasted_s = beats[-1].began_s - beats[0].began_s
    mean_s = lasted_s / (len(beats) - 1)
    if not interval_s / 3 <= mean_s <= interval_s * 3:
        raise Fails(f"The fetcher sent a heartbeat every {mean_s:.1f} s; {interval_s:g} s is right.")


@CASES.add(
    "When there are no leases, ask again after retry_duration, not in a tight loop.",
    "NextResponse.retry_duration",
)
def patience(seen: Evidence) -> None:
    polls = [call for call in seen.called("Next") if call.began_s >= seen.facts.get("idle", float("inf"))]
    if "idle" in seen.facts and len(polls) > _MOST_POLLS_PER_S * 1.5:
        raise Fails(f"The fetcher asked an idle crawl for leases {len(polls)} times within 1.5 s.")
    calls = seen.called("Next")
    if not calls:
        raise Fails("The fetcher has never called Next.")
    for before, after in pairwise(calls):
        if not before.answered or before.response.leases or after.began_s < before.ended_s:
            continue
        rest_s = seconds_of(before.response.retry_duration)
        waited_s = after.began_s - before.ended_s
        if before.request.session == after.request.session and waited_s < 0.8 * rest_s - 0.05:
            raise Fails(
                f"The fetcher called Next {waited_s:.2f} s after it was told to wait for {rest_s:.2f} s."
            )


@CASES.add("Give Next a deadline that is longer than its wait_duration.", "NextRequest.wait_duration")
def deadlines(seen: Evidence) -> None:
    for call in seen.called("Next"):
        wait_s = seconds_of(call.request.wait_duration)
        if call.deadline_s <= wait_s:
            times = f"a wait of {wait_s:g} s and a deadline of {call.deadline_s:.1f} s"
            raise Fails(f"The fetcher called Next with {times}.")


@CASES.add("Wait for leases within Next (a long poll).", "NextRequest.wait_duration", level=Level.ADVISED)
def long_poll(seen: Evidence) -> None:
    if not any(seconds_of(call.request.wait_duration) > 0 for call in seen.called("Next")):
        raise Fails("The fetcher has never set wait_duration.")


@CASES.add(
    "Name the fetch policies that you have, so that they are not sent again.",
    "NextRequest.known_fetch_policy_ids",
    level=Level.ADVISED,
)
def known_policies(seen: Evidence) -> None:
    times = Counter(policy.fetch_policy_id for policy in _policies(seen))
    most = max(times.values(), default=0)
    if most > 5:
        raise Fails(f"The frontier had to send the same fetch policy {most} times.")


def _policies(seen: Evidence) -> list[FetchPolicy]:
    return [
        policy for call in seen.called("Next") if call.answered for policy in call.response.fetch_policies
    ]
