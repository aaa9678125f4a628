"""A running installation is upgraded, and goes back, step by step as docs/operating.md has it.

The later version is this one with another version, another format of stores, and one more field in a row.
"""

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.installing import Environments, run, sources
from acceptance.manual import Operator, blocks
from acceptance.programs import Program, Programs, script
from frontier_harness.ports import KeptPort
from frontier_harness.process import run_to_end
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.soaking import Soak
from frontier_harness.waiting import PATIENCE_S, eventually

from frontier_server.core.rows.records import FORMAT, OLDEST_FORMAT
from tools.release import build

LATER = "987.6.5"
DATA = 4
PAGES = 60
SPEC = """
name = "upgraded"
seeds = ["{seed}"]
allowed_addresses = ["loopback"]
[politeness]
delay_factor = 0.0
min_delay_seconds = 0
"""

pytestmark = [pytest.mark.soak("installs"), pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    folder = tmp_path_factory.mktemp("later")
    there = sources(folder / "sources")
    rows = "frontier_server/core/rows/records.py"
    for file, old, new in (
        ("pyproject.toml", r'^version = ".*"', f'version = "{LATER}"'),
        (rows, r"^FORMAT = .*", f"FORMAT = {FORMAT + 1}"),
        (rows, r"^(    stands_back:.*)", r"\1\n    more: int = 7"),
    ):
        text, changes = re.subn(old, new, (there / file).read_text(), count=1, flags=re.M)
        assert changes == 1, file
        (there / file).write_text(text)
    wheel = build(there, folder / "built", 1_700_000_000)[1]
    return Environments(wheel, folder)


@pytest.fixture
def site() -> Iterator[SmallSite]:
    with small_site(PAGES) as served:
        served.answer_s = 0.05
        yield served


def test_a_running_installation_is_upgraded_and_goes_back(
    later: Environments, site: SmallSite, tmp_path: Path, soak: Soak
) -> None:
    prepare, look, drain = blocks("operating.md", "## Upgrade a running installation")
    put_back, go_on = blocks("operating.md", "## Go back")
    data, port = tmp_path / "data", KeptPort()
    operator = Operator(port.address, DIR=data, NODE="one")
    (tmp_path / "spec.toml").write_text(SPEC.format(seed=site.url()))

    def state() -> str:
        told: str = json.loads(operator.types("toehold status --json"))["status"]["state"]
        return told

    def frontier(program: str) -> Program:
        flags = ("--data", str(data), "--listen", port.address)
        started = programs.start("frontier", program, *flags)
        started.wait_ready()
        return started

    def node(program: str, name: str) -> Program:
        flags = ("--name", name, "--frontier", port.address, "--warc", str(tmp_path / name))
        started = programs.start(name, program, *flags)
        started.wait_ready()
        return started

    def until_asked(pages: int) -> None:
        eventually(lambda: len(site.requests) >= pages, f"{pages} requests")

    with Programs(tmp_path) as programs:
        serving = frontier(script("toehold-frontier"))
        older = node(script("toehold-node"), "one")
        operator.types(f"toehold launch {tmp_path / 'spec.toml'}")
        until_asked(10)
        for command in prepare:
            if "checkpoints create" in command:
                paused = Counter(site.asked)
            said = operator.types(command)
        operator.names["NAME"] = said.partition(":")[0]
        serving.signal(signal.SIGTERM)
        assert serving.wait() == 0

        serving = frontier(str(later["frontier"] / "toehold-frontier"))
        for command in look:
            operator.types(command)
        until_asked(paused.total() + 10)
        assert older.runs
        (command,) = drain
        operator.types(command)
        assert older.wait() == 0, older.complaints
        node(str(later["node"] / "toehold-node"), "two")
        eventually(lambda: state() == "FINISHED", "the end of the crawl", PATIENCE_S)
        assert site.asked == Counter({f"/page/{n}": 1 for n in range(PAGES)} | {"/": 1, "/robots.txt": 1})
        soak.count(checked=PAGES)
        serving.signal(signal.SIGTERM)
        assert serving.wait() == 0

        refused = run_to_end("--data", str(data), "--listen", port.address)
        assert refused.returncode == DATA
        known = f"{OLDEST_FORMAT} to {FORMAT}"
        assert f"must have format {known} for this version of Toehold, got {FORMAT + 1}" in refused.stderr
        assert f"which version {LATER} wrote. Use that version or a later one" in refused.stderr

        for command in put_back:
            operator.types(command)
        serving = frontier(script("toehold-frontier"))
        assert state() == "PAUSED"
        for command in go_on:
            operator.types(command)
        eventually(lambda: state() == "FINISHED", "the end of the crawl", PATIENCE_S)
        fetched_again = site.asked - Counter({f"/page/{n}": 1 for n in range(PAGES)} | {"/": 1})
        assert {path for path in fetched_again if path != "/robots.txt"} == {
            f"/page/{n}" for n in range(PAGES) if not paused[f"/page/{n}"]
        }


def test_a_crawl_of_one_command_goes_on_with_a_later_version(
    later: Environments, site: SmallSite, tmp_path: Path
) -> None:
    brisk = ("--min-delay", "0", "--delay-factor", "0", "--processes", "1")
    crawl = ("crawl", site.url(), "--dir", "made", *brisk)
    begun = run(script("toehold"), *crawl, "--max-pages", "5", folder=tmp_path)
    assert begun.returncode == 0 and len(site.requests) < PAGES, begun.stderr
    done = run(later["all"] / "toehold", *crawl, "--max-pages", "1000", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert site.asked == Counter({f"/page/{n}": 1 for n in range(PAGES)} | {"/": 1, "/robots.txt": 1})
    refused = run(script("toehold"), "status", "--dir", "made", folder=tmp_path)
    assert refused.returncode == 2 and f"which version {LATER} wrote" in refused.stderr, refused.stderr
