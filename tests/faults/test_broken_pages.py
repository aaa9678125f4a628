"""Pages at which a hook or an extractor of a real node raises: each is stored, reported and counted."""

import signal
from pathlib import Path

import pytest
from acceptance.outcomes import closed_files
from acceptance.programs import Programs
from fastwarc.warc import ArchiveIterator, WarcRecordType
from faults.finite_site import FiniteSite
from faults.stage import Stage

from toehold_client import CrawlController

HOSTS = 2
HOOK, HEADER, DOCUMENT = "/hook-raises", "/headers-break", "/document-breaks"
"""The pages at which faults.breaking_hook breaks something."""


def test_a_page_that_breaks_a_hook_or_an_extractor_is_stored_reported_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])  # where the hook is found
    logs = tmp_path / "logs"
    with FiniteSite(HOSTS, ["/good", HOOK, HEADER, DOCUMENT]) as site, Programs(tmp_path) as programs:
        stage = Stage(programs, tmp_path, site, 30)
        node = stage.node("--hook", "faults.breaking_hook:page", "--logs", str(logs))
        stage.crawl()
        statuses = stage.until_finished()
        assert set(statuses.values()) == {200}
        counts = CrawlController(stage.client, "stuck").statistics().statistics.annotation_counts
        assert counts["hookFailed"] == HOSTS and counts["extractorFailed"] == 2 * HOSTS
        remarks = {line.url: line.annotations for line in stage.outcomes()}
        for host in site.hosts:
            assert "hookFailed" in remarks[site.url(host, HOOK)]
            assert "extractorFailed:header" in remarks[site.url(host, HEADER)]
            assert "extractorFailed" in remarks[site.url(host, DOCUMENT)]
            assert not {"hookFailed", "extractorFailed"} & set(remarks[site.url(host, "/good")])
        node.signal(signal.SIGTERM)
        assert node.wait() == 0, node.complaints
        assert site.urls <= stored(tmp_path / "warcs")
        stage.client.close()
    trace = (logs / "runtime-errors.log").read_text()
    for broken in ("the hook is broken", "an extractor is broken", "the document is broken"):
        assert trace.count(f"LookupError: {broken}") == HOSTS


def stored(folder: Path) -> set[str]:
    """The URLs whose answers are in the WARC files of a folder."""
    found = set()
    for file in closed_files(folder):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                found.add(record.headers["WARC-Target-URI"])
    return found
