"""The pool that lends a limit of a whole crawl to its parts."""

from frontier_server.coordinator.pool import Pool


def test_documents_that_a_checkpoint_brought_count_as_lent() -> None:
    """Else a part would get portions for long that are below what it has."""
    pool = Pool(2, comes_back=False)
    for part, fetched in enumerate((1_000_000, 0)):
        pool.record(part, 0, fetched, starves=True, rests=False, obeyed=True)
    pool.lend(1_000_100)
    assert [share.told for share in pool.shares] == [1_000_025, 25]
