"""`toehold crawl` whose frontier meets trouble: it ends as the manual says, and the same command goes on."""

import os
import subprocess
from pathlib import Path

import pytest
from faults.errors import cases, manual
from faults.errors.trial import Trouble
from faults.finite_site import FiniteSite
from faults.power import archive
from frontier_harness.soaking import Soak
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually


@pytest.mark.soak("errors")
@pytest.mark.timeout(900)
def test_a_whole_crawl_whose_frontier_fails_is_taken_up_by_the_same_command(
    library: Path, tmp_path: Path, soak: Soak
) -> None:
    trouble, row = Trouble(library, tmp_path), manual.rows()[cases.EMBEDDED]
    pages = [f"/{number}" for number in range(archive.PAGES)]
    with FiniteSite(0, pages) as site:
        urls = {site.url("127.0.0.1", path) for path in pages}
        command = archive.embedded_command(trouble.root / "crawl", urls)
        site.gate.clear()
        first = subprocess.Popen(
            command,
            env=os.environ | trouble.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        eventually(lambda: site.asked().total() > 1, "a request for a page")
        trouble.begin("sync */frontier/store/*.log EIO 1")
        site.gate.set()
        said, _ = first.communicate(timeout=WHOLE_CRAWL_S)
        trouble.end()
        assert trouble.strokes and first.returncode in row.exit_codes and row.is_told(said), said
        again = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=WHOLE_CRAWL_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    assert again.returncode == 0, (again.stdout, again.stderr)
    archived, listed = archive.stored(trouble.root / "crawl")
    (log,) = (trouble.root / "crawl" / "frontier" / "crawls").glob("*/crawl.log")
    logged = [line.split()[3] for line in log.read_text().splitlines()]
    lost = (urls - archived) | (urls - listed) | (urls - set(logged))
    doubled = len(logged) - len(set(logged))
    soak.count(faults=1, checked=3 * len(urls), lost=len(lost), doubled=doubled)
    assert not lost and not doubled
