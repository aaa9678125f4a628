"""The whole conformance kit: with our own node, and with every fault of the scripted fetcher."""

import sys
from pathlib import Path

import pytest
from conformance_doubles.broken import Broken, wrongly_judged
from frontier_harness.soaking import Soak

from toehold_conformance import kit
from toehold_conformance.cases import ALL

pytestmark = [pytest.mark.soak("conformance"), pytest.mark.timeout(1800)]

FLAGS = ("--frontier", "{frontier}", "--crawl", "{crawl}", "--name", "{name}")
NODE = (str(Path(sys.executable).with_name("toehold-node")), *FLAGS, "--toes", "10", "--warc", "{dir}")
DOUBLE = (sys.executable, str(Path(__file__).parents[1] / "conformance_doubles" / "fetcher.py"), *FLAGS)


@pytest.mark.parametrize("fetcher", [NODE, DOUBLE], ids=["node", "scripted"])
def test_a_fetcher_that_keeps_the_contract_passes_every_case(fetcher: tuple[str, ...], soak: Soak) -> None:
    failed = {result.case.name: result.problem for result in kit.run(fetcher) if not result.holds}
    soak.count(checked=len(ALL), violated=len(failed))
    assert failed == {}


@pytest.mark.parametrize("fault", list(Broken))
def test_a_fault_makes_exactly_its_cases_fail(fault: Broken, soak: Soak) -> None:
    results = kit.run((*DOUBLE, "--broken", fault))
    failed = {result.case.name for result in results if not result.holds}
    wrong = wrongly_judged(fault, failed)
    soak.count(faults=1, checked=len(ALL), violated=len(wrong))
    assert not wrong, {result.case.name: result.problem for result in results if result.case.name in failed}
