"""Whether anything of a crawl is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from core_doubles.rows import OF_CRAWLS
from core_doubles.shell import Shell

from frontier_server.core.rows import keys
from frontier_server.core.rows.store import Changes, Family


def stored_of(shell: Shell, number: int) -> dict[tuple[Family, bytes], bytes]:
    """All rows of a crawl."""
    prefix = keys.crawl_prefix(number)
    return {
        (family, key): value
        for family in OF_CRAWLS
        for key, value in shell.store.scan(family, prefix, prefix)
    }


@contextmanager
def still(shell: Shell, crawl: str) -> Iterator[None]:
    """Assert that no row of a crawl is written inside, be it as it was, and that all are what they were."""
    number = shell.core.views.crawl(crawl).number
    before, write, prefix = stored_of(shell, number), shell.store.write, keys.crawl_prefix(number)

    def checked(changes: Changes) -> None:
        written = [
            (family.name, key.hex())
            for family, key in changes
            if family in OF_CRAWLS and key.startswith(prefix)
        ]
        assert not written, f"written of crawl {crawl}: {written}"
        write(changes)

    with patch.object(shell.store, "write", checked):
        yield
    assert stored_of(shell, number) == before
