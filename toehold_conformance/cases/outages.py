"""Failures around the fetcher: kills of either side, a busy frontier, a bad network, a held crawl."""

import time
from collections import Counter
from collections.abc import Callable

import grpc

from toehold.frontier.v1.crawl_pb2 import TargetState
from toehold_conformance.case import Cases, Play
from toehold_conformance.evidence import Evidence, Fails
from toehold_conformance.stage import Stage
from toehold_conformance.tap import Call, Fault

from . import slow
from .protocol import must_offer_links_first

_DOWN_S = 1.0
_RETRY_S = 1.0
_METHODS = ("Next", "Heartbeat", "Schedule", "Finished")


def _kill_fetcher(stage: Stage) -> None:
    fetcher = stage.fetch()
    stage.wait_for_requests(2)
    fetcher.kill()
    stage.note("killed")
    stage.fetch()
    stage.finish()


KILLED = Play("killed", _kill_fetcher, slow.hosts(6))

CASES = Cases("Outages", KILLED)


@CASES.add(
    "After a kill -9 and a new start take a new session, and repeat only what was under way.",
    "NextRequest.session",
)
def kill_of_the_fetcher(seen: Evidence) -> None:
    killed_s = seen.facts.get("killed", float("inf"))
    slow.must_fetch_all_once(seen, but=slow.in_flight(seen, killed_s, killed_s))
    before = {call.request.session for call in seen.called("Next") if call.began_s < killed_s}
    after = {call.request.session for call in seen.called("Next") if call.began_s > killed_s}
    if before & after:
        raise Fails("The fetcher called Next with the session of its earlier process.")


def _kill_frontier(stage: Stage) -> None:
    fetcher = stage.fetch()
    stage.wait_for_requests(2)
    stage.kill_frontier()
    stage.note("killed")
    time.sleep(_DOWN_S)
    stage.start_frontier()
    stage.note("back")
    stage.finish()
    stage.facts["alive"] = fetcher.exit_code is None


FRONTIER_KILLED = Play("frontier-killed", _kill_frontier, slow.hosts(6))


@CASES.add(
    "Wait for a frontier that is down, and then report what was fetched meanwhile.",
    "The header of frontier.proto: UNAVAILABLE may be tried again",
    play=FRONTIER_KILLED,
)
def kill_of_the_frontier(seen: Evidence) -> None:
    again = slow.in_flight(seen, seen.facts.get("killed", 0.0), seen.facts.get("back", 0.0))
    slow.must_fetch_all_once(seen, but=again)
    if not seen.facts.get("alive"):
        raise Fails("The fetcher ended while the frontier was down.")


def _with_faults(faults: Callable[[Call, int], Fault | None]) -> Callable[[Stage], None]:
    """A crawl in which calls fail: `faults` also gets how many calls of that method were before."""

    def direct(stage: Stage) -> None:
        counts: Counter[str] = Counter()

        def fault(call: Call) -> Fault | None:
            counts[call.method] += 1
            return faults(call, counts[call.method] - 1)

        stage.tap.fault = fault
        fetcher = stage.fetch()
        stage.finish()
        stage.facts["alive"] = fetcher.exit_code is None

    return direct


def _overloaded(call: Call, before: int) -> Fault | None:
    if call.method not in _METHODS or before != 0:
        return None
    return Fault(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "the frontier is overloaded", "OVERLOADED", retry_s=_RETRY_S
    )


OVERLOADED = Play("overloaded", _with_faults(_overloaded), slow.hosts(3))


@CASES.add(
    "Repeat a call that was OVERLOADED, not before its RetryInfo says.",
    "The header of frontier.proto: RESOURCE_EXHAUSTED carries google.rpc.RetryInfo",
    play=OVERLOADED,
)
def overloaded(seen: Evidence) -> None:
    _must_survive(seen)
    _must_heed_hints(seen)


def _unreachable(call: Call, before: int) -> Fault | None:
    if call.method == "Schedule" and before < 3:
        return Fault(grpc.StatusCode.UNAVAILABLE, "the connection broke off")
    if call.method in ("Next", "Heartbeat", "Finished") and before == 1:
        return Fault(grpc.StatusCode.UNAVAILABLE, "the connection broke off")
    return None


UNREACHABLE = Play("unreachable", _with_faults(_unreachable), slow.hosts(3))


@CASES.add(
    "Repeat a call that failed without an ErrorInfo: the transport failed.",
    "The header of frontier.proto: UNAVAILABLE may be tried again",
    play=UNREACHABLE,
)
def broken_connections(seen: Evidence) -> None:
    _must_survive(seen)


@CASES.add(
    "While Schedule fails, keep the report of the page back.",
    "The header of frontier.proto: links go before the report",
    play=UNREACHABLE,
)
def failed_schedule(seen: Evidence) -> None:
    must_offer_links_first(seen)
    _must_survive(seen)


def _lost(call: Call, before: int) -> Fault | None:
    if call.method in ("Schedule", "Finished") and before in (0, 1):
        return Fault(grpc.StatusCode.UNAVAILABLE, "the connection broke off", answer_is_lost=True)
    return None


LOST = Play("lost-answers", _with_faults(_lost), slow.hosts(3))


@CASES.add(
    "Repeat a Schedule or a Finished whose answer was lost: all RPCs may be repeated without harm.",
    "The header of frontier.proto, Finished",
    play=LOST,
)
def lost_answers(seen: Evidence) -> None:
    _must_survive(seen)
    # A heartbeat may have told the fetcher meanwhile that the lease is over.
    beats = [call for call in seen.called("Heartbeat") if call.answered]
    over = {token for call in beats for token in call.response.ended_tokens}
    for call in seen.called("Finished"):
        if call.fault is None:
            continue
        tokens = {report.token for report in call.request.reports} - over
        again = {
            report.token
            for later in seen.called("Finished")
            if later.began_s >= call.ended_s
            for report in later.request.reports
        }
        if not tokens <= again:
            raise Fails("The fetcher did not repeat a Finished whose answer was lost.")


def _hold(stage: Stage) -> None:
    refusals = [0]

    def fault(call: Call) -> Fault | None:
        if call.method != "Schedule" or refusals[0] == 2:
            return None
        refusals[0] += 1
        return Fault(grpc.StatusCode.UNAVAILABLE, "the crawl is held", "CRAWL_HELD", retry_s=_RETRY_S)

    stage.tap.fault = fault
    fetcher = stage.fetch()
    stage.wait_for_requests(1)
    stage.ask(TargetState.TARGET_STATE_HOLD)
    with stage.client() as client:
        stage.wait(
            "The crawl was not held within 20 s, as the fetcher kept leases.",
            lambda: client.get_crawl(stage.crawl).status.held,
            20,
        )
    stage.note("held")
    time.sleep(1.5)
    stage.note("released")
    stage.ask(TargetState.TARGET_STATE_RUN)
    stage.finish()
    stage.facts["alive"] = fetcher.exit_code is None


HELD = Play("held", _hold, slow.hosts(3))


@CASES.add(
    "Wait while a crawl is held (CRAWL_HELD), and go on when it is released.",
    "Schedule, TARGET_STATE_HOLD",
    play=HELD,
)
def held_crawl(seen: Evidence) -> None:
    _must_survive(seen)
    _must_heed_hints(seen)


def _must_survive(seen: Evidence) -> None:
    if seen.trouble:
        raise Fails(seen.trouble)
    if not seen.facts["alive"]:
        raise Fails("The fetcher ended because a call failed.")
    slow.must_fetch_all_once(seen)


def _must_heed_hints(seen: Evidence) -> None:
    """A call that failed with a RetryInfo must not have been repeated before that time."""
    for call in seen.calls:
        if call.fault is None or not call.fault.retry_s:
            continue
        for later in seen.called(call.method):
            if later.began_s <= call.ended_s or not _same(call, later):
                continue
            waited_s = later.began_s - call.ended_s
            if waited_s < 0.9 * call.fault.retry_s:
                raise Fails(
                    f"The fetcher repeated {call.method} {waited_s:.1f} s after {call.fault.reason}, which "
                    f"asked for {call.fault.retry_s:g} s."
                )


def _same(call: Call, later: Call) -> bool:
    """Whether a call repeats another one."""
    if call.method == "Schedule":
        return any(candidate in later.request.candidates for candidate in call.request.candidates)
    if call.method == "Finished":
        tokens = {report.token for report in call.request.reports}
        return any(report.token in tokens for report in later.request.reports)
    return bool(call.request.session == later.request.session)
