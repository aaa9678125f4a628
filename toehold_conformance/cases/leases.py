"""Leases that end early: lapsed, cancelled, or taken over."""

import signal
import time

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, TargetState
from toehold_client.rpc.contract import duration
from toehold_conformance.case import Cases, Play
from toehold_conformance.evidence import Evidence, Fails
from toehold_conformance.processes import HEARTBEAT_S, LEASE_S
from toehold_conformance.stage import Stage

from . import slow

_END_S = 15.0
_OBEY_S = 4.0


def _stand_still(stage: Stage) -> None:
    fetcher = stage.fetch()
    stage.wait_for_requests(2)
    fetcher.send(signal.SIGSTOP)
    stage.note("stopped")
    with stage.client() as client:
        stage.wait(
            "The leases of a fetcher that stood still did not lapse.",
            lambda: client.get_statistics(stage.crawl).statistics.lapsed_count > 0,
            3 * LEASE_S,
        )
    fetcher.send(signal.SIGCONT)
    stage.note("continued")
    stage.finish()
    stage.facts["alive"] = fetcher.exit_code is None


LAPSE = Play("lapse", _stand_still, slow.hosts(3))

CASES = Cases("Leases that end early", LAPSE)


@CASES.add(
    "Go on after leases have lapsed, as when the machine stood still: STALE is an ordinary answer.",
    "DISPOSITION_STALE, HeartbeatResponse.ended_tokens",
)
def lapse(seen: Evidence) -> None:
    again = slow.in_flight(seen, seen.facts.get("stopped", 0.0), seen.facts.get("continued", 0.0))
    slow.must_fetch_all_once(seen, but=again)
    if not seen.facts.get("alive"):
        raise Fails("The fetcher ended after its leases had lapsed.")


def _cancel(stage: Stage) -> None:
    fetcher = stage.fetch()
    stage.wait_for_requests(2)
    stage.ask(TargetState.TARGET_STATE_PAUSE)
    stage.note("paused")
    time.sleep(1.0 + _OBEY_S)
    stage.note("judged")
    stage.facts["alive"] = fetcher.exit_code is None


ENDED = Play("ended", _cancel, slow.hosts(2, slow.ENDLESS), CrawlSpec(pause_timeout=duration(1)))


@CASES.add(
    "Stop fetching the leases that a heartbeat's answer has in ended_tokens.",
    "HeartbeatResponse.ended_tokens",
    play=ENDED,
)
def ended_leases(seen: Evidence) -> None:
    seen.must_be_complete()
    for request in seen.requests:
        if request.path == slow.SLOW and (not request.over or request.ended_s >= seen.facts["judged"]):
            raise Fails(f"The fetcher went on fetching {seen.uri_of(request)} after its lease had ended.")
    if not seen.facts["alive"]:
        raise Fails("The fetcher ended when its leases did.")


@CASES.add(
    "Don't name leases in heartbeats once they were in ended_tokens.",
    "HeartbeatRequest.tokens, HeartbeatResponse.ended_tokens",
    play=ENDED,
)
def ended_leases_are_forgotten(seen: Evidence) -> None:
    seen.must_be_complete()
    beats = [call for call in seen.called("Heartbeat") if call.answered]
    if not any(call.response.ended_tokens for call in beats):
        raise Fails(
            "The fetcher did not name its leases in heartbeats, so it did not learn that they had ended."
        )
    for told in beats:
        for later in beats:
            if later.began_s > told.ended_s + 2 * HEARTBEAT_S and set(told.response.ended_tokens) & set(
                later.request.tokens
            ):
                raise Fails("The fetcher named leases in a heartbeat that it had been told were over.")


def _supersede(stage: Stage) -> None:
    first = stage.fetch()
    stage.wait_for_requests(1)
    calls = len(stage.calls)
    stage.fetch()
    stage.wait(
        "The second process of the fetcher, with the same name, did not call Next with a session of its own.",
        lambda: (
            len({call.request.session for call in stage.calls[calls:] if call.method == "Next"}) > 1
            or first.exit_code is not None
        ),
    )
    stage.note("superseded")
    if not first.ends_within(_END_S):
        raise Fails(f"The first process went on for {_END_S:g} s after a second one had taken its name.")
    stage.finish()


SUPERSEDED = Play("superseded", _supersede, slow.hosts(4))


@CASES.add(
    "End when another process has taken the node's name: SESSION_SUPERSEDED is final.",
    "NextRequest.session",
    play=SUPERSEDED,
)
def superseded(seen: Evidence) -> None:
    at_s = seen.facts.get("superseded", float("inf"))
    slow.must_fetch_all_once(seen, but=slow.in_flight(seen, 0.0, at_s))
