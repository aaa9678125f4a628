"""Requests of operators while the fetcher works: pause, stop, drain; and the fetcher's own end."""

import signal
import time

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CrawlState, TargetState
from toehold.frontier.v1.frontier_pb2 import OUTCOME_RELEASED
from toehold_client.rpc.contract import duration
from toehold_conformance.answers import later, page
from toehold_conformance.case import Cases, Level, Play
from toehold_conformance.evidence import Evidence, Fails
from toehold_conformance.processes import HEARTBEAT_S, Fetcher
from toehold_conformance.stage import Stage

from . import slow

_OBEY_S = 2.0
"""How soon the fetcher must learn what it is asked for, and begin no more fetches."""

_SLOW_S = 3.0
"""How long a slow page takes: long enough that a lease which waits for a free toe begins too late."""

_HOSTS = slow.hosts(12, later(_SLOW_S, page("/last")))
_END_S = 15.0


def _pause(stage: Stage) -> None:
    stage.fetch()
    stage.wait_for_requests(2)
    stage.note("paused")
    stage.ask(TargetState.TARGET_STATE_PAUSE)
    stage.wait_for_state(CrawlState.CRAWL_STATE_PAUSED, seconds=20)
    stage.note("still")
    time.sleep(1.0)
    stage.note("resumed")
    stage.ask(TargetState.TARGET_STATE_RUN)
    stage.finish()


PAUSE = Play("pause", _pause, _HOSTS, CrawlSpec(pause_timeout=duration(60)))

CASES = Cases("Pause, stop and the end of the fetcher", PAUSE)


@CASES.add(
    "Hand unstarted leases back with OUTCOME_RELEASED when the crawl pauses.",
    "HeartbeatResponse.release_tokens",
)
def pause_releases(seen: Evidence) -> None:
    paused_s, resumed_s = seen.facts.get("paused", 0.0), seen.facts.get("resumed", float("inf"))
    told_s = paused_s + _OBEY_S
    for request in seen.requests:
        if told_s < request.began_s < resumed_s:
            late_s = request.began_s - paused_s
            raise Fails(
                f"The fetcher requested {seen.uri_of(request)} {late_s:.1f} s after the crawl was paused."
            )
    if "still" not in seen.facts:
        raise Fails(seen.trouble or "The crawl was not paused.")
    took_s = seen.facts["still"] - paused_s
    if took_s > _SLOW_S + 2 * _OBEY_S:
        raise Fails(f"The fetcher handed its last lease back {took_s:.1f} s after the crawl was paused.")


@CASES.add(
    "Finish the fetches under way when the crawl pauses, and go on when it is resumed.",
    "HeartbeatResponse.release_tokens",
)
def pause_finishes(seen: Evidence) -> None:
    _must_finish_started(seen, seen.facts.get("paused", 0.0))
    slow.must_fetch_all_once(seen)


def _stop(stage: Stage) -> None:
    stage.fetch()
    stage.wait_for_requests(2)
    stage.ask(TargetState.TARGET_STATE_FINISH)
    stage.note("stopped")
    time.sleep(4 * HEARTBEAT_S)
    stage.note("interrupted")
    stage.ask(TargetState.TARGET_STATE_FINISH)
    stage.wait_for_state(CrawlState.CRAWL_STATE_FINISHED, seconds=20)
    stage.note("finished")


STOP = Play("stop", _stop, slow.hosts(4, slow.ENDLESS), CrawlSpec(stop_timeout=duration(60)))


@CASES.add(
    "Go on with the fetches under way when the crawl stops.",
    "HeartbeatResponse.release_tokens",
    play=STOP,
)
def stop_finishes(seen: Evidence) -> None:
    for request in seen.requests:
        if (
            request.path == slow.SLOW
            and request.over
            and request.ended_s < seen.facts.get("interrupted", 0.0)
        ):
            raise Fails(f"The fetcher broke off {seen.uri_of(request)} at the first request to stop.")
    if "interrupted" not in seen.facts:
        raise Fails(seen.trouble)


@CASES.add(
    "Break off the fetches in interrupt_tokens at the second request to stop, and report them with -7000.",
    "HeartbeatResponse.interrupt_tokens",
    play=STOP,
)
def interrupt(seen: Evidence) -> None:
    at_s = seen.facts.get("interrupted", 0.0)
    for given in slow.unreported(seen, at_s):
        if slow.started(seen, given, at_s):
            statuses = slow.statuses(seen, given)
            if statuses != [-7000]:
                what = f"reported {statuses[0]} for" if statuses else "did not report"
                raise Fails(f"The fetcher {what} {given.lease.uri}, which was interrupted; -7000 is right.")
    seen.must_be_complete()
    took_s = seen.facts["finished"] - at_s
    if took_s > 3 * _OBEY_S:
        raise Fails(f"The fetcher reported its interrupted fetches {took_s:.1f} s after the second request.")


def _say_goodbye(stage: Stage) -> None:
    fetcher = stage.fetch()
    stage.wait_for_requests(2)
    stage.note("asked")
    fetcher.send(signal.SIGTERM)
    _see_it_end(stage, fetcher, "after SIGTERM")


def _drain(stage: Stage) -> None:
    fetcher = stage.fetch()
    stage.wait_for_requests(2)
    with stage.client() as client:
        stage.note("asked")
        for name in sorted({call.request.node for call in stage.calls if call.method == "Next"}):
            client.drain_node(name)
    _see_it_end(stage, fetcher, "after it was asked to drain")


def _see_it_end(stage: Stage, fetcher: Fetcher, when: str) -> None:
    if not fetcher.ends_within(_END_S):
        raise Fails(f"The fetcher did not end within {_END_S:g} s {when}.")
    stage.note("ended")
    with stage.client() as client:
        stage.facts["left"] = client.get_statistics(stage.crawl).statistics.leased_count
    stage.fetch()
    stage.finish()


GOODBYE = Play("goodbye", _say_goodbye, _HOSTS)
DRAIN = Play("drain", _drain, _HOSTS)


@CASES.add(
    "At SIGTERM finish the fetches under way, hand back the others, send a heartbeat with leaving, and end.",
    "HeartbeatRequest.leaving",
    play=GOODBYE,
    level=Level.ADVISED,
)
def goodbye(seen: Evidence) -> None:
    _must_leave_in_order(seen)


@CASES.add(
    "When asked to drain, finish the fetches under way, hand back the others, say that you leave, and end.",
    "HeartbeatResponse.drain",
    play=DRAIN,
)
def drain(seen: Evidence) -> None:
    _must_leave_in_order(seen)


def _must_leave_in_order(seen: Evidence) -> None:
    if "ended" not in seen.facts:
        raise Fails(seen.trouble)
    asked_s, ended_s = seen.facts["asked"], seen.facts["ended"]
    beats = [call for call in seen.called("Heartbeat") if call.answered and call.began_s <= ended_s]
    if not beats or not beats[-1].request.leaving:
        raise Fails("The fetcher ended without a heartbeat with leaving.")
    if seen.facts["left"]:
        raise Fails(f"The fetcher ended with {seen.facts['left']:g} leases that it had not handed back.")
    for request in seen.requests:
        if asked_s + _OBEY_S < request.began_s < ended_s:
            late_s = request.began_s - asked_s
            raise Fails(
                f"The fetcher requested {seen.uri_of(request)} {late_s:.1f} s after it was asked to end."
            )
    _must_finish_started(seen, asked_s)
    slow.must_fetch_all_once(seen)


def _must_finish_started(seen: Evidence, at_s: float) -> None:
    """The fetches under way at a moment must have been finished."""
    released = {each.report.token for each in seen.reported if each.report.outcome == OUTCOME_RELEASED}
    for given in slow.unreported(seen, at_s):
        if slow.started(seen, given, at_s) and given.lease.token in released:
            raise Fails(f"The fetcher released {given.lease.uri}, which it had begun to fetch.")
    for request in seen.requests:
        if request.began_s <= at_s and not request.complete:
            raise Fails(f"The fetcher broke off {seen.uri_of(request)}, which was under way.")
