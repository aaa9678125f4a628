"""A store whose row of places is lost: what its other rows show, and URIs that now belong elsewhere."""

import zlib

import pytest
from core_doubles.codec import candidate
from core_doubles.lives import fetch, quick
from core_doubles.memory_store import MemoryStore
from core_doubles.placing import SUFFIXES
from core_doubles.shell import SECRET, Shell
from unit.test_rebuilding import agrees, rebuilt, rows_of

from frontier_server.core.machines.lifecycle import Input
from frontier_server.core.opening import opening
from frontier_server.core.rows import keys
from frontier_server.core.rows.keys import CrawlRow
from frontier_server.core.rows.records import PlacesRow, decode
from frontier_server.core.rows.store import Family
from frontier_server.core.spec.settings import QueueSettings, ScopeSettings
from frontier_server.core.uri.suffixes import packed

INSTALLED = zlib.decompress(SUFFIXES).decode()
OTHER = packed(INSTALLED.replace("\nco.uk\n", "\nco.uk\ncity.uk\n"))
PLACES = keys.crawl_key(keys.SERVER, CrawlRow.PLACES)
SERVER = keys.crawl_key(keys.SERVER, CrawlRow.SERVER)
HOSTS = ("a.city.uk", "b.city.uk", "city.uk", "other.example")


def lived(suffixes: bytes, *, by_site: bool = True, version: int = 3, fetched: bool = True) -> Shell:
    """A crawl that has fetched the pages of a few hosts, and has others in its queues and in the future."""
    store = MemoryStore()
    store.write(opening.new_store(SECRET, 1, suffixes))
    row = opening.server_row(store)
    row.format = version
    changes = {**opening.places_changes(PlacesRow(suffixes, by_site)), **opening.server_changes(row)}
    store.write(changes)
    shell = Shell(store)
    queues = QueueSettings(partition="registered-domain", assignment="registered-domain")
    shell.create(
        "c", quick(run_while_empty=True, queues=queues, scope=ScopeSettings(surt_prefixes=("http://(",)))
    )
    shell.launch("c", *(f"http://{host}/" for host in HOSTS))
    if fetched:
        for _ in range(8):
            fetch(shell, *shell.grants("c"))
    shell.schedule("c", *(f"http://{host}/{page}" for host in HOSTS for page in range(3)))
    later = [candidate(f"http://{host}/later", not_before_ms=shell.now_ms + 60_000) for host in HOSTS]
    shell.schedule("c", *later)
    return shell


def places(shell: Shell) -> PlacesRow:
    value = shell.store.get(Family.CRAWLS, PLACES)
    assert value is not None
    return decode(PlacesRow, value)


@pytest.mark.parametrize(("its", "installed"), [(OTHER, SUFFIXES), (SUFFIXES, OTHER), (OTHER, OTHER)])
def test_all_that_waited_is_fetched_once_whatever_list_is_installed(its: bytes, installed: bytes) -> None:
    before = lived(its)
    shell, rebuilding = rebuilt([row for row in rows_of(before.store) if row[1] != PLACES], installed)
    agrees(shell)
    assert rebuilding.lost == [
        "the list of public suffixes that the store was made with is lost: the installed one counts from now "
        "on, and pages of sites that the two tell apart may be fetched again"
    ]
    shell.now_ms = before.now_ms
    if shell.state("c").value == "PAUSED":
        shell.request("c", Input.RESUME)
    found = []
    for _ in range(60):
        grants = shell.grants("c")
        found += [grant.uri for grant in grants if not grant.robots]
        fetch(shell, *grants)
        shell.now_ms += 5_000
        shell.tick()
    assert sorted(found) == sorted(f"http://{host}/{page}" for host in HOSTS for page in (0, 1, 2, "later"))
    agrees(shell)


@pytest.mark.parametrize("with_noise", [False, True])
@pytest.mark.parametrize(
    ("by_site", "version", "fetched"),
    [(True, 3, False), (True, 3, True), (False, 3, True), (False, 2, False), (False, 2, True)],
)
def test_rows_show_by_which_rule_the_places_of_a_store_are_made(
    by_site: bool, version: int, fetched: bool, with_noise: bool
) -> None:
    before = lived(SUFFIXES, by_site=by_site, version=version, fetched=fetched)
    rows = [row for row in rows_of(before.store) if row[1] != PLACES]
    if with_noise:
        rows.append((Family.HOSTS, b"\xff" * 12, b"\xff"))
    shell, _ = rebuilt(rows, SUFFIXES)
    assert places(shell).by_site is by_site
