"""Power cuts of a node: pages that were reported are in its archive, which can be read to its end."""

from pathlib import Path

import pytest
from faults.power import archive
from faults.power.node_program import MUTANTS
from frontier_harness.soaking import Soak

from crawler_node.output.rotation import MAX_DESCRIPTORS

CUTS = 60
A_SYNC_FAILS = "sync *.warc.gz.open EIO 1\nsync *.jsonl.open EIO 1"


@pytest.mark.soak("cuts")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("trouble", ["", A_SYNC_FAILS], ids=["", "a sync fails"])
def test_pages_that_were_reported_are_in_the_archive_after_any_power_cut(
    library: Path, tmp_path: Path, soak: Soak, trouble: str
) -> None:
    made = archive.run(library, tmp_path, trouble=trouble)
    tally = archive.judged(made, tmp_path / "cut", -(-soak.cycles(1_000) // 10), soak.seed)
    soak.count(faults=tally.cuts, checked=tally.items, lost=tally.lost, violated=tally.violated)
    assert not tally.findings, tally.findings[:20]
    assert tally.items


@pytest.mark.soak("cuts")
@pytest.mark.timeout(1800)
def test_pages_of_more_crawls_than_may_be_open_are_in_the_archive_after_any_power_cut(
    library: Path, tmp_path: Path, soak: Soak
) -> None:
    made = archive.run(library, tmp_path, crawls=MAX_DESCRIPTORS + 6, pages=60)
    tally = archive.judged(made, tmp_path / "cut", -(-soak.cycles(1_000) // 25), soak.seed)
    soak.count(faults=tally.cuts, checked=tally.items, lost=tally.lost, violated=tally.violated)
    assert not tally.findings, tally.findings[:20]
    assert tally.items


@pytest.mark.soak("cuts")
@pytest.mark.timeout(1800)
def test_a_whole_crawl_in_one_directory_is_there_after_any_power_cut(
    library: Path, tmp_path: Path, soak: Soak
) -> None:
    made = archive.run_embedded(library, tmp_path)
    count = -(-soak.cycles(1_000) // 20)
    tally = archive.judged(made, tmp_path / "cut", count, soak.seed, missing=archive.missing_embedded)
    soak.count(
        faults=tally.cuts,
        checked=tally.items,
        lost=tally.lost,
        doubled=tally.doubled,
        violated=tally.violated,
    )
    assert not tally.findings, tally.findings[:20]
    assert tally.items


@pytest.mark.soak("mutants")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_promise_of_a_node_is_noticed(
    library: Path, tmp_path: Path, soak: Soak, mutant: str
) -> None:
    made = archive.run(library, tmp_path, mutant, A_SYNC_FAILS)
    tally = archive.judged(made, tmp_path / "cut", CUTS, seed=1, enough=1)
    soak.count(faults=1, violated=not tally.findings)
    assert tally.findings
