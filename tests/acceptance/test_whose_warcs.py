"""Several crawls on one node of two processes: whose record is in which file, and when files are finished."""

import signal
from pathlib import Path

from acceptance.outcomes import closed_files, open_files
from acceptance.programs import Programs, pass_time
from faults.finite_site import FiniteSite
from frontier_harness.waiting import PATIENCE_S, eventually
from node_doubles.warcs import Record, check, read

from toehold.frontier.v1 import crawl_pb2
from toehold_client import CrawlController, FrontierClient

PAGES = [f"/{n}" for n in range(6)]
HEARTBEAT_S = 0.2


def _spec(site: FiniteSite, description: str) -> crawl_pb2.CrawlSpec:
    spec = crawl_pb2.CrawlSpec(
        allowed_addresses=["loopback"],
        contact="crawls@library.example",
        operator="Library",
        description=description,
        run_while_empty=description == "stays",
    )
    spec.politeness.min_delay.FromMilliseconds(0)
    spec.politeness.delay_factor = 0
    return spec


def _launch(client: FrontierClient, site: FiniteSite, name: str, description: str) -> CrawlController:
    crawl = CrawlController(client, name)
    crawl.create(_spec(site, description))
    crawl.add_seeds(sorted(site.urls))
    crawl.launch()
    return crawl


def _info(records: list[Record]) -> dict[str, str]:
    lines = records[0].block.decode().split("\r\n")
    return dict(line.split(": ", 1) for line in lines if line)


def _of(files: list[Path], crawl: str) -> list[Path]:
    return [path for path in files if path.name.startswith(f"LIB-{crawl}-20")]


def _open(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.glob("*.open")]


def test_each_file_holds_one_launch_of_one_crawl_and_is_finished_when_that_has_ended(
    programs: Programs, tmp_path: Path
) -> None:
    warcs, pages = tmp_path / "warcs", tmp_path / "pages"
    with FiniteSite(4, PAGES) as site:
        frontier = programs.frontier(tmp_path / "data", "--heartbeat-seconds", str(HEARTBEAT_S))
        options = ("--processes", "2", "--toes", "8", "--file-prefix", "LIB", "--pages", str(pages))
        node = programs.node("node", frontier.address, warcs, *options, *site.resolve)
        with FrontierClient(frontier.address) as client:
            stays = _launch(client, site, "stays", "stays")
            stays.wait_for("EMPTY", timeout_s=PATIENCE_S)
            launched = set()
            for description in ("first", "second"):
                again = _launch(client, site, "again", description)
                again.wait_for("FINISHED", timeout_s=PATIENCE_S)
                launched.add(again.describe().launch_time.ToJsonString()[:19])
                eventually(lambda: not _of(_open(warcs, pages), "again"), "the end of its files")
                again.delete()
            stays.pause()
            stays.wait_for("PAUSED", timeout_s=PATIENCE_S)
            kept = open_files(warcs)
            assert _of(kept, "stays") == kept and 1 <= len(kept) <= 2
            pass_time(8)  # longer than a crawl takes to be idle, to be asked about, and to be closed
            stays.resume()
            more = [site.url(host, f"/more{n}") for host in site.hosts for n in range(3)]
            stays.add_seeds(more)
            eventually(lambda: set(more) <= set(site.asked()), "the new pages")
            assert set(kept) <= set(open_files(warcs)), "a pause begins no new file"
            assert len(open_files(warcs)) <= 2
        node.signal(signal.SIGTERM)
        assert node.wait() == 0, node.complaints
    assert _open(warcs, pages) == []
    found = closed_files(warcs)
    check(*found)
    infos = []
    for path in found:
        records = read(path)
        info = _info(records)
        infos.append((info["isPartOf"], info["description"], info["launched"][:19]))
        assert path in _of(found, info["isPartOf"])
        assert (info["operator"], info["contact"], info["robots"]) == (
            "Library",
            "crawls@library.example",
            "obey",
        )
        assert info["http-header-user-agent"].endswith(" (+crawls@library.example)")
        agent = f"\r\nUser-Agent: {info['http-header-user-agent']}\r\n".encode()
        assert all(agent in record.block for record in records if record.kind == "request")
        ids = {record.headers["WARC-Warcinfo-ID"] for record in records[1:]}
        assert ids == {records[0].headers["WARC-Record-ID"]}
    assert {info[:2] for info in infos} == {("stays", "stays"), ("again", "first"), ("again", "second")}
    assert {info[2] for info in infos if info[0] == "again"} == launched
    for path in pages.glob("*.jsonl"):
        crawl = path.name.split("-")[1]
        assert path.read_text().count(f'"crawl":"{crawl}"') == len(path.read_text().splitlines())
