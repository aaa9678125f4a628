"""Answers of the frontier that get lost on their way to the node."""

from __future__ import annotations

import pytest
from acceptance.parts import Parts
from faults.relay import Relay
from frontier_harness.soaking import Soak


@pytest.mark.soak("network")
def test_lost_answers_of_schedule_finished_and_next_cost_no_page_and_no_repeat(
    parts: Parts, soak: Soak
) -> None:
    """Schedule and Finished repeated change nothing; what a lost Next gave out comes back after a period."""
    with Relay(parts.address, lose={"Schedule": 3, "Finished": 4, "Next": 100}) as relay:
        parts.node("one", frontier=relay.address)
        parts.launch()
        parts.until_finished()
        assert min(relay.lost[name] for name in ("Schedule", "Finished", "Next")) > 0
        soak.count(faults=sum(relay.lost.values()), checked=len(parts.pages))
    assert parts.complaints() == []
