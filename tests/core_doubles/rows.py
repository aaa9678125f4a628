"""What is stored, read row by row."""

from typing import TypeVar

from frontier_server.core.rows import keys
from frontier_server.core.rows.records import Record, decode
from frontier_server.core.rows.store import Family, Store
from frontier_server.core.state.crawl import Crawl

R = TypeVar("R", bound=Record)
OF_CRAWLS = [family for family in Family if family not in (Family.HOSTS, Family.ROBOTS)]


def rows(store: Store, family: Family, prefix: bytes) -> list[tuple[bytes, bytes]]:
    """Keys behind the prefix, and values."""
    return [(key[len(prefix) :], value) for key, value in store.scan(family, prefix, prefix)]


def rows_of(store: Store, crawl: Crawl, family: Family, kind: type[R]) -> dict[bytes, R]:
    """The rows of a crawl."""
    found = rows(store, family, keys.crawl_prefix(crawl.number))
    return {key: decode(kind, value) for key, value in found}


def everything(store: Store) -> list[tuple[Family, bytes, bytes]]:
    """Every row of every crawl, and of the server."""
    return [(family, *row) for family in Family for row in rows(store, family, b"")]


def all_rows_of(store: Store, number: int) -> list[tuple[Family, bytes, bytes]]:
    """Every row of a crawl."""
    prefix = keys.crawl_prefix(number)
    return [(family, *row) for family in OF_CRAWLS for row in rows(store, family, prefix)]


def nothing_is_left_of(store: Store, number: int) -> bool:
    """Whether no row of a crawl is stored."""
    return not all_rows_of(store, number)
