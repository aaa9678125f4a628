"""The pool that lends a limit of a whole crawl to its parts."""

import pytest

from frontier_server.coordinator.pool import Pool


def test_documents_that_a_checkpoint_brought_count_as_lent() -> None:
    """Else a part would get portions for long that are below what it has."""
    pool = Pool(2, comes_back=False)
    for part, fetched in enumerate((1_000_000, 0)):
        pool.record(part, 0, fetched, starves=True, rests=False, obeyed=True)
    pool.lend(1_000_100)
    assert [share.told for share in pool.shares] == [1_000_025, 25]


@pytest.mark.parametrize("slack", [1, 2, 5])
def test_a_part_that_uses_none_of_its_share_keeps_nothing_from_one_that_starves(slack: int) -> None:
    """It has URIs, but none is due."""
    pool, lent, fetched = Pool(2, comes_back=False), [50, 50], [50, 50 - slack]
    for _ in range(20):
        for part in range(2):
            starves = part == 0 and fetched[0] == lent[0]
            pool.record(part, lent[part], fetched[part], starves=starves, rests=False, obeyed=True)
            pool.lend(100)
        for part in range(2):
            pool.order(part)
            lent[part] = pool.shares[part].told
        fetched[0] = lent[0]
    assert fetched == [50 + slack, 50 - slack]
