"""The machine notices each rule that is broken on purpose."""

import pytest
from frontier_harness.soaking import Soak
from property.mutations import MUTATIONS, ROOT, Mutation, core_module, is_noticed, noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.rule)
def test_each_rule_stands_in_the_core_once(mutation: Mutation) -> None:
    """So that a mutation breaks what it says it breaks."""
    assert core_module(ROOT, mutation).read_text().count(mutation.source) == 1


@pytest.mark.soak("mutants")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.rule)
def test_the_machine_notices_each_rule_that_is_broken(mutation: Mutation, soak: Soak) -> None:
    said = noticed(mutation)
    soak.count(faults=1, violated=not is_noticed(mutation, said))
    assert is_noticed(mutation, said), said
