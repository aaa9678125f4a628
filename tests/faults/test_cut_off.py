"""Nodes that hang, that are cut off or told to end: what they held others fetch, and nothing counts twice."""

import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from acceptance.judging import FEW
from acceptance.outcomes import closed_files, open_files
from acceptance.parts import LEASE_S, Parts
from acceptance.programs import Programs, pass_time
from faults.proxy import Network, Proxy
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

from practice_web.practice import PracticeWeb


def test_a_node_that_hung_for_longer_than_a_lease_counts_nothing_twice(parts: Parts) -> None:
    hung, _ = parts.node("hung"), parts.node("other")
    parts.launch()
    eventually(lambda: len(parts.pages_of("hung")) >= 20, "pages of the node")
    _cut_off(parts, "hung", partial(hung.signal, signal.SIGSTOP), partial(hung.signal, signal.SIGCONT))
    _wait_until_lapsed(parts)
    hung.signal(signal.SIGCONT)
    parts.until_finished()
    repeated = parts.repeated()
    assert len(repeated) <= len(FEW)  # one lease was out for each host
    # Stopped just before it asks for a page, a process asks when it goes on, whatever has happened since.
    assert parts.complaints(again=repeated, unruly=repeated) == []
    hung.signal(signal.SIGTERM)
    assert hung.wait() == 0, hung.complaints


@pytest.mark.parametrize(
    "network", [Network.LATE, pytest.param(Network.SILENT, marks=pytest.mark.soak("network"))]
)
def test_a_node_cut_off_for_longer_than_a_lease_fetches_nothing_that_was_given_to_another(
    parts: Parts, network: Network
) -> None:
    with Proxy(parts.address) as proxy:
        cut_off, _ = parts.node("cut-off", frontier=proxy.address), parts.node("other")
        parts.launch()
        eventually(lambda: len(parts.pages_of("cut-off")) >= 20, "pages of the node")
        become = proxy.become
        cut_off_s = _cut_off(parts, "cut-off", partial(become, network), partial(become, Network.WELL))
        _wait_until_lapsed(parts)
        proxy.become(Network.WELL)
        parts.until_finished()
        repeated = parts.repeated()
        assert len(repeated) <= len(FEW)
        first = {entry.url: entry.start for entry in reversed(parts.web.log())}
        late = [url for url in repeated if first[url] > cut_off_s + LEASE_S / 2]
        assert late == []  # all were under way when it was cut off, before anybody else got them
        assert parts.complaints(again=repeated) == []
        cut_off.signal(signal.SIGTERM)
        assert cut_off.wait() == 0, cut_off.complaints


def test_a_node_whose_connections_break_again_and_again_fetches_each_page_once(parts: Parts) -> None:
    with Proxy(parts.address) as proxy:
        proxy.delay_s = 0.005
        parts.node("one", frontier=proxy.address)
        parts.launch()
        for asked in (40, 90, 140, 190):
            parts.until_asked(asked)
            proxy.become(Network.CUT)
            pass_time(LEASE_S / 10)
            proxy.become(Network.WELL)
        parts.until_finished()
    assert parts.complaints() == []


def test_a_node_told_to_end_closes_its_files_and_hands_back_what_it_has_not_started(
    web: PracticeWeb, programs: Programs, tmp_path: Path
) -> None:
    parts = Parts(web, programs, tmp_path, lease_s=2 * WHOLE_CRAWL_S)  # nothing comes back by lapsing
    ending = parts.node("ending", "--toes", "1")
    parts.launch()
    parts.until_asked(60)
    parts.node("other")
    ending.signal(signal.SIGTERM)
    assert ending.wait() == 0, ending.complaints
    assert closed_files(parts.warcs("ending"))
    assert open_files(parts.warcs("ending")) == []
    parts.until_finished()
    assert parts.status()["statistics"]["lapsed_count"] == 0
    assert parts.complaints() == []


def _cut_off(parts: Parts, node: str, begin: Callable[[], object], end: Callable[[], object]) -> float:
    """Cuts a node off at a moment at which it holds leases, so that some lapse, and says when that was."""

    def cut_off() -> float:
        begin_s = time.monotonic()
        begin()
        pass_time(LEASE_S / 10)  # reports that were under way arrive, and a call that waits is answered
        if parts.leased(node):
            return begin_s
        end()
        eventually(lambda: parts.leased(node), "a lease of the node")  # its connections may be new
        return 0.0

    return eventually(cut_off, "leases that a node which is cut off holds")


def _wait_until_lapsed(parts: Parts) -> None:
    """Waits until leases have lapsed that a cut-off node held, and their hosts' next pages were fetched."""
    eventually(lambda: parts.status()["statistics"]["lapsed_count"] > 0, "a lease to lapse")
    asked = len(parts.web.log())
    parts.until_asked(asked + len(FEW))
