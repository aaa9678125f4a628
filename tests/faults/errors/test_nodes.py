"""Nodes whose disks fail, and files that dead nodes have left damaged: what the manual says follows."""

from pathlib import Path

import grpc
import pytest
from faults.errors import cases, manual
from faults.errors.cases import Case
from faults.errors.damage import Damage, cut, flipped, holed
from faults.errors.trial import Health, Trouble
from faults.finite_site import FiniteSite
from faults.power import archive
from faults.power.archive import CRAWL, FINISHED
from faults.power.records import Marks
from frontier_harness.process import ServerProcess
from frontier_harness.soaking import Soak
from frontier_harness.waiting import eventually

ROWS = manual.rows()
PAGES = [f"/{number}" for number in range(archive.PAGES)]


def ended(server: ServerProcess) -> bool:
    return server.stubs.describe(CRAWL).status.state == FINISHED


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.trouble, marks=() if number == 1 else pytest.mark.soak("errors"))
        for number, case in enumerate(cases.AT_NODES)
    ],
)
def test_a_node_that_cannot_store_pages_takes_no_leases_until_it_can_and_reports_what_is_stored(
    library: Path, tmp_path: Path, soak: Soak, case: Case
) -> None:
    trouble, row = Trouble(library, tmp_path), ROWS[case.row]
    marks = Marks(trouble.journal)
    with (
        FiniteSite(archive.HOSTS, PAGES) as site,
        ServerProcess(tmp_path / "data") as server,
        archive.crawled(server, site, marks),
    ):
        site.gate.clear()
        with archive.node(trouble.environment, trouble.root, server.address, site) as node:
            health = Health(grpc.insecure_channel(node.service))
            trouble.begin(case.trouble)
            site.gate.set()
            eventually(lambda: row.said[0] in node.said, row.said[0])
            trouble.end()
            eventually(lambda: ended(server), "the crawl's end")
            assert row.is_told(node.said)
            assert health.said == [row.health]
            assert node.stop() == 0
        assert server.stubs.statistics(CRAWL).succeeded_count == len(site.urls)
        archived, listed = archive.stored(trouble.root)
        lost = (site.urls - archived) | (site.urls - listed)
        soak.count(faults=trouble.strokes, checked=2 * len(site.urls), lost=len(lost))
        assert trouble.strokes and not lost
    marks.close()


@pytest.mark.soak("corruption")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("files", "damage"),
    [("warcs/*.open", flipped), ("warcs/*.open", cut), ("pages/*.open", holed), ("pages/*.open", cut)],
)
def test_of_a_damaged_file_that_a_dead_node_has_left_what_is_whole_is_kept(
    library: Path, tmp_path: Path, soak: Soak, files: str, damage: Damage
) -> None:
    row, marks, root = ROWS[cases.LEFT_DAMAGED], Marks(tmp_path / "journal"), tmp_path / "root"
    with (
        FiniteSite(archive.HOSTS, PAGES) as site,
        ServerProcess(tmp_path / "data") as server,
        archive.crawled(server, site, marks),
    ):
        with archive.node({}, root, server.address, site) as node:
            eventually(lambda: server.stubs.statistics(CRAWL).succeeded_count > len(site.urls) // 2, "pages")
            node.child.kill()
            node.child.wait()
        (path,) = root.glob(files)
        damage(path)
        with archive.node({}, root, server.address, site) as node:
            # Its other file may be seen to, and told of, first; a node that is stopped sees to no more.
            eventually(lambda: row.is_told(node.said) and not path.exists(), node.said)
            assert node.stop() == 0
        archived, listed = archive.stored(root)
        soak.count(faults=1, checked=len(archived) + len(listed))
        assert archived and listed and not list(root.glob("*/*.open"))
        assert bool(list(root.glob(files.replace(".open", ".torn")))) == (damage is not cut)
    marks.close()
