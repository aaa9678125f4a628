"""Parsers of foreign text, fuzzed by the group: no crash, hang or growth, no error but those documented."""

import pytest
from frontier_harness.soaking import Soak
from fuzz.campaign import run
from fuzz.groups import GROUPS

INPUTS = 30_000
"""Of a group: some minutes."""


@pytest.mark.soak("fuzz")
@pytest.mark.timeout(0)  # each input has its own, and CYCLES may be any number
@pytest.mark.parametrize("group", GROUPS)
def test_parsers_stand_whatever_they_are_given(group: str, soak: Soak) -> None:
    targets = GROUPS[group]
    found = []
    for target in targets:
        tried, findings, statistics = run(target, soak.seed, soak.cycles(INPUTS) // len(targets))
        print(statistics)
        soak.count(faults=tried, violated=len(findings))
        found += findings
    assert not found, "\n".join(map(str, found))
