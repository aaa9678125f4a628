"""What a frontier that runs has on its disk of a crawl, read beside it."""

from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from frontier_server.core.rows.keys import CrawlRow
from frontier_server.core.rows.records import SpecRow, decode
from frontier_server.core.rows.store import Family

Row = tuple[Family, bytes]


def rows_of(data: Path, crawl: str) -> dict[Row, bytes]:
    """All rows of a crawl that has one of this name."""
    rows = _all_rows(data / "store")
    (prefix,) = (
        key[:4]
        for (family, key), value in rows.items()
        if family is Family.CRAWLS and key[4] == CrawlRow.SPEC and decode(SpecRow, value).name == crawl
    )
    return {(family, key): value for (family, key), value in rows.items() if key.startswith(prefix)}


def files_of(data: Path, crawl: str) -> dict[str, bytes]:
    """A crawl's log files and what is in them."""
    return {file.name: file.read_bytes() for file in (data / "crawls" / crawl).iterdir()}


def _all_rows(store: Path) -> dict[Row, bytes]:
    options = Options(raw_mode=True)
    families = {family.value: Options(raw_mode=True) for family in Family}
    opened = Rdict(str(store), options, families, AccessType.read_only(False))
    rows: dict[Row, bytes] = {}
    for family in Family:
        column = opened.get_column_family(family.value)
        rows.update(((family, key), value) for key, value in column.items())  # type: ignore[misc]
        column.close()
    opened.close()
    return rows
