"""The machine notices each rule that is broken on purpose, and docs/reliability.md says which they are."""

import re

import pytest
from frontier_harness.soaking import Soak
from property.mutations import MUTATIONS, ROOT, Mutation, core_module, is_noticed, noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.rule)
def test_each_rule_stands_in_the_core_once(mutation: Mutation) -> None:
    """So that a mutation breaks what it says it breaks."""
    assert core_module(ROOT, mutation).read_text().count(mutation.source) == 1


def test_the_table_lists_them() -> None:
    section = (ROOT / "docs/reliability.md").read_text().partition("## Rules broken on purpose")[2]
    table = re.findall(r"^\| (.+?) \| `(.+?)` \| (.+?) \|$", section.partition("\n## ")[0], re.M)
    assert table == [(one.rule, f"core/{one.module}.py", " / ".join(one.noticed)) for one in MUTATIONS]


@pytest.mark.soak("mutants")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.rule)
def test_the_machine_notices_each_rule_that_is_broken(mutation: Mutation, soak: Soak) -> None:
    said = noticed(mutation)
    soak.count(faults=1, violated=not is_noticed(mutation, said))
    assert is_noticed(mutation, said), said
