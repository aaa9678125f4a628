"""`toehold crawl` with the real programs on a small site: to the end, interrupted, and taken up again."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from frontier_harness import embedded
from frontier_harness.divided import PROCESSES, SHARDS, shards_option
from frontier_harness.embedded import (
    ALL_PATHS,
    PAGES,
    Run,
    all_gone,
    archived,
    children_of,
    lines_of_pages,
    once_each,
    report_in,
    toehold,
    until_pausing,
)
from frontier_harness.ports import KeptPort
from frontier_harness.small_site import SmallSite
from frontier_harness.waiting import PATIENCE_S, eventually
from node_doubles.warcs import read

from toehold_cli.embedded.directory import open_directory
from toehold_cli.embedded.plan import Plan, make_spec, sort_out
from toehold_cli.embedded.spec_options import SpecOptions
from toehold_cli.main import run
from toehold_client.client import FrontierClient
from toehold_client.watching.interruptions import Interruptions

site, crawl = embedded.site, embedded.crawl  # fixtures


def test_the_node_of_toehold_crawl_offers_the_fetcher_kind_of_its_spec(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    (tmp_path / "spec.toml").write_text('fetcher = "browser"\n')
    assert crawl("--spec", "spec.toml").end()[0] == 0
    once_each(site)


def test_it_crawls_to_the_end_reports_leaves_no_program_and_starts_anew_only_if_told(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    run = crawl("--json")
    code, stdout, stderr = run.end()
    assert (code, stderr) == (0, "")
    report = json.loads(stdout)
    assert report == report_in(tmp_path)
    assert (report["state"], report["exit_status"], report["pages"]) == ("FINISHED", "FINISHED", PAGES + 1)
    assert report["fetch_statuses"] == {"200": PAGES + 1}
    assert report["verdicts"]["QUEUED"] == PAGES + 1
    assert report["bytes"] > 0 and report["duration_seconds"] > 0
    assert datetime.fromisoformat(report["start_time"]) < datetime.fromisoformat(report["end_time"])
    once_each(site)
    assert site.asked["/robots.txt"] == 1
    it = tmp_path / "it"
    assert report["warc_files"] == [str(file.relative_to(it)) for file in sorted(it.glob("warcs/*"))]
    assert all(name.endswith(".warc.gz") for name in report["warc_files"]), "closed and renamed"
    assert run.children() == []
    assert not (it / "frontier.json").exists()
    code, _, stderr = crawl().end()
    assert code == 5
    assert "has finished" in stderr and "--fresh" in stderr
    code, stdout, _ = crawl("--fresh").end()
    assert code == 0
    assert f"Moved the old crawl to {tmp_path / 'it.1'}" in stdout
    assert "Finished" in stdout and "\x1b" not in stdout, "plain lines, as nobody looks"
    assert json.loads((tmp_path / "it.1" / "report.json").read_text()) == report
    assert set(site.asked.values()) == {2}


HOOK = """
def page(page):
    return {"links": len(page.links)} if page.status == 200 else None
"""


def test_pages_go_wherever_they_are_wanted_from_several_processes(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(HOOK)
    dead = "http://127.0.0.1:1/"
    code, stdout, stderr = crawl(
        *("--processes", "2", "--pages", "--pages-text", "html", "--hook", "mine:page"),
        *("--warc-metadata", "none", "--max-bytes-per-second", "10000000"),
        *("--file-prefix", "LIB", "--max-file-mib", "1", "--gzip-level", "1", "--operator", "Library"),
        *("--max-attempts", "1", "--json", dead),
    ).end()
    assert (code, stderr) == (0, "")
    once_each(site)
    report = json.loads(stdout)
    pages = {line["url"]: line for line in lines_of_pages(tmp_path)}
    root = site.url().rstrip("/")
    assert {f"{root}{path}" for path in ALL_PATHS} <= pages.keys()
    assert pages[f"{root}/page/1"]["html"].startswith("<!DOCTYPE html><title>/page/1 old</title>")
    assert pages[f"{root}/"]["extra"] == {"links": PAGES}
    assert archived(tmp_path) >= {f"{root}{path}" for path in ALL_PATHS}
    it = tmp_path / "it"
    assert report["page_files"] == [str(file.relative_to(it)) for file in sorted(it.glob("pages/*"))]
    assert report["page_bytes"] > 0
    name = r"(warcs|pages)/LIB-crawl-[0-9]{17}-[0-9]{5}-embedded_[12]~[0-9]+\.(warc\.gz|jsonl)"
    assert all(re.fullmatch(name, file) for file in [*report["warc_files"], *report["page_files"]])
    assert list(it.rglob("*.open")) == []
    for file in report["warc_files"]:
        assert b"\r\noperator: Library\r\n" in read(it / file)[0].block
    assert "logs/node.log" in report["logs"] and "logs/uri-errors.log" in report["logs"]
    assert dead.rstrip("/") in (it / "logs" / "uri-errors.log").read_text()


def test_what_is_written_may_be_another_thing_in_each_run_and_gaps_are_told(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    let_go = site.hold("/page/5")
    run = crawl()
    run.until(lambda: site.asked["/page/5"])
    run.process.send_signal(signal.SIGTERM)
    until_pausing(tmp_path)
    let_go.set()
    assert run.end()[0] == 130
    code, stdout, _ = crawl("--no-warc", "--pages").end()
    assert code == 0
    it = tmp_path / "it"
    assert f"Earlier runs wrote to {it / 'warcs'}; this one does not." in stdout
    assert f"{it / 'pages'} begins with this run; it lacks the pages so far." in stdout
    root = site.url().rstrip("/")
    first, then = archived(tmp_path), {line["url"] for line in lines_of_pages(tmp_path)}
    assert {f"{root}{path}" for path in ALL_PATHS} <= first | then
    files = list((it / "pages").iterdir())
    assert "JSON Lines" in stdout and f"{len(files)} in pages" in stdout
    once_each(site)


def test_killing_it_leaves_none_of_the_nodes_processes(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    let_go = site.hold("/page/5")
    run = crawl("--processes", "2")
    run.until(lambda: site.asked["/page/5"])
    children = run.children()
    frontiers, nodes = map(children_of, children)
    assert (len(frontiers), len(nodes)) == (0 if SHARDS == 1 else PROCESSES, 2)
    run.process.kill()
    run.process.wait()
    eventually(lambda: all_gone([*children, *frontiers, *nodes]), "the processes to end")
    let_go.set()
    assert crawl("--processes", "2").end()[0] == 0
    assert report_in(tmp_path)["pages"] == PAGES + 1


def test_a_frontier_that_dies_is_told_with_the_end_of_its_log(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    let_go = site.hold("/page/5")
    run = crawl()
    run.until(lambda: site.asked["/page/5"])
    children = run.children()
    frontier = json.loads((tmp_path / "it" / "frontier.json").read_text())["pid"]
    assert frontier in children
    os.kill(frontier, signal.SIGKILL)
    code, _, stderr = run.end()
    assert code == 1
    assert "Error: the frontier server was killed by signal 9" in stderr
    assert "frontier.log" in stderr and ("serving" if SHARDS == 1 else "stopped") in stderr
    assert "Traceback" not in stderr
    assert all_gone(children)
    let_go.set()
    assert crawl().end()[0] == 0
    assert report_in(tmp_path)["pages"] == PAGES + 1


def test_a_node_that_dies_is_started_again(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    let_go = site.hold("/page/5")
    run = crawl()  # one process: of several the first fetches before all are there
    run.until(lambda: site.asked["/page/5"])
    frontier = json.loads((tmp_path / "it" / "frontier.json").read_text())["pid"]
    (node,) = set(run.children()) - {frontier}
    os.kill(node, signal.SIGKILL)
    let_go.set()
    code, stdout, _ = run.end()
    assert code == 0
    assert "Starting the node again (1 of 3): the crawler node was killed by signal 9" in stdout
    report = report_in(tmp_path)
    assert report["pages"] == PAGES + 1
    assert report["unfinished_warc_files"] == [], "the dead node's file has been repaired"
    assert archived(tmp_path) >= {site.url().rstrip("/") + path for path in ALL_PATHS}


def test_killed_between_any_two_steps_it_goes_on_from_there(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    seeds = sort_out([("", site.url())], skip_bad=False)
    spec = make_spec(None, SpecOptions(min_delay=0, delay_factor=0, fetch_timeout=20), seeds)
    plan = Plan("crawl", spec, (site.url(),))
    with Interruptions() as none, open_directory(tmp_path / "it", plan, none, fresh=False, say=print) as it:
        data = str(it.frontier)
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "frontier_server", "--data", data, "--listen", "127.0.0.1:0"),
            *shards_option(()),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    with server, FrontierClient(server.stdout.readline().split()[-1]) as client:
        client.create_crawl("crawl", spec)
        server.kill()
    assert crawl().end()[0] == 0, "created, but neither seeded nor launched"
    once_each(site)
    report = report_in(tmp_path)
    (tmp_path / "it" / "report.json").unlink()
    assert crawl().end()[0] == 0, "finished, but not reported"
    assert report_in(tmp_path) == report
    once_each(site)


MORTAL_NODE = """
import os, sys
with open("starts", "a") as starts:
    starts.write("x")
print("toehold-node embedded fetching for nobody with 0 toes", flush=True)
print("the roof is on fire", file=sys.stderr)
sys.exit(1)
"""


WORN_OUT_NODE = """
import os, sys
with open("starts", "a+") as starts:
    starts.write("x")
    starts.seek(0)
    count = len(starts.read())
print("toehold-node embedded fetching for nobody with 0 toes", flush=True)
sys.exit(5 if count <= 5 else 4)
"""


def test_a_node_that_left_too_many_threads_behind_is_started_again_however_often(
    crawl: Callable[..., Run], tmp_path: Path
) -> None:
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    (fakes / "crawler_node.py").write_text(WORN_OUT_NODE)
    code, stdout, stderr = crawl(fakes=fakes).end()
    assert stdout.count("too many of its toe threads did not end") == 5
    assert (code, (tmp_path / "starts").read_text()) == (1, "x" * 6)
    assert "a directory that it writes to cannot be used" in stderr


def test_a_node_that_dies_again_and_again_ends_the_run(crawl: Callable[..., Run], tmp_path: Path) -> None:
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    (fakes / "crawler_node.py").write_text(MORTAL_NODE)
    code, stdout, stderr = crawl(fakes=fakes).end()
    assert code == 1
    assert "Starting the node again (3 of 3): " in stdout
    assert "the crawler node ended with exit code 1" in stderr and "the roof is on fire" in stderr
    assert (tmp_path / "starts").read_text() == "x" * 4
    assert crawl().end()[0] == 0, "the crawl itself is unharmed"


def test_its_frontier_listens_where_it_is_told_so_that_others_can_be_told_too(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    with KeptPort() as kept:
        let_go = site.hold("/page/5")
        run = crawl("--frontier-port", str(kept.port))
        run.until(lambda: site.asked["/page/5"])
        code, stdout, _ = toehold(tmp_path, "status", "--frontier", kept.address)
        assert code == 0 and "RUNNING" in stdout
        let_go.set()
        assert run.end()[0] == 0


def test_a_port_that_is_taken_is_told(crawl: Callable[..., Run], site: SmallSite) -> None:
    code, _, stderr = crawl("--frontier-port", str(site.server_port)).end()
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{site.server_port}: the port is taken" in stderr


def test_an_output_that_nobody_reads_any_more_pauses_the_crawl(
    crawl: Callable[..., Run], site: SmallSite, tmp_path: Path
) -> None:
    let_go = site.hold("/page/5")
    run = crawl()
    run.until(lambda: site.asked["/page/5"])
    assert run.process.stdout is not None
    run.process.stdout.close()
    until_pausing(tmp_path)
    let_go.set()
    assert run.process.wait(PATIENCE_S) == 130
    assert report_in(tmp_path)["state"] == "PAUSED"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("www.example.com",), "--contact is needed"),
        (("http://[",), "is not a URL"),
        (("https//example.org",), "'https//example.org' is not a URL; did you mean https://example.org?"),
        (("localhost", "htp://localhost/"), "To crawl from the other seeds, add --skip-bad-seeds."),
        (("localhost", "--exclude", "docs"), "did you mean /docs/ or *docs*?"),
        (("localhost", "--exclude", "/"), "--exclude / excludes the seed https://localhost"),
        (("localhost", "--max-time", "5"), "must be a time such as 90s, 30m, 2h, 1d or 1h30m."),
        (("localhost", "--parallel", "4611686018427387904"), "must be between 1 and 1000, got 461168"),
        (("localhost", "--file-prefix", "../x"), "the prefix of file names must have 1 to 64"),
        (("localhost", "--seeds-file", "none.txt"), "none.txt cannot be read"),
        (("localhost", "--user-agent", "my bot"), "fetch.product_token"),
        ((), "give at least one URL"),
        (("localhost", "--spec", "none.toml"), "none.toml cannot be read"),
        (
            ("localhost", "--contact", "nobody"),
            "contact: must be an http(s) URL or an e-mail address, got 'nobody'",
        ),
        (("localhost", "--resolve", "nonsense"), "HOST:PORT:ADDR"),
        (("localhost", "--min-delay", "nan"), "must be between 0 and 86400, got nan"),
        (("localhost", "--toes", "0"), "--toes"),
        (("localhost", "--processes", "20"), "20 processes need 20 toes or more, got 16"),
        (("localhost", "--no-warc"), "--no-warc needs --pages, --mirror or --hook"),
        (("localhost", "--hook", "nonsense"), "hook 'nonsense' must have the form"),
        (("localhost", "--hook", "nonsense:x", "--processes", "2"), "nonsense cannot be imported"),
        (("localhost", "--ca-file", "none.pem"), "none.pem"),
        (("localhost", "--dir", "/dev/null"), "is not a directory"),
    ],
)
def test_bad_input_is_told_in_a_sentence_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(("crawl", *arguments)) == 2
    stdout, stderr = capsys.readouterr()
    assert told in " ".join(stderr.split())
    assert "Traceback" not in stderr + stdout
    assert list(tmp_path.iterdir()) == []
