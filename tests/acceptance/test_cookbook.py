"""docs/cookbook.md, task by task: the very commands, run against sites on loopback."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acceptance.cookbook import Step, Task, tasks
from acceptance.example_site import DOCS, MANUAL, NEWS, OLD, PRIVATE, ROBOTS, WWW, Request, Sites, serve_sites
from acceptance.outcomes import all_exchanges
from acceptance.programs import Program, Programs, script, toehold
from frontier_harness.ports import KeptPort
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

MOST_COMMANDS = 3
PAUSED = 130
"""How `toehold crawl` ends when it was interrupted."""

TITLES = [
    "Crawl a site politely to WARC",
    "Crawl only its /docs/",
    "Write JSON Lines with a hook of your own",
    "Fetch a list of URLs, and nothing else",
    "Pause overnight, and go on in the morning",
    "Double the limit of a crawl",
    "See why a URL is not fetched",
    "Let two nodes work for one frontier",
    "Recrawl what has changed",
    "See what failed and why, by host",
]
PAGES = 22
"""How many pages www.example.org has that a crawl of it may fetch; some of them are errors."""

SPEC = """\
[politeness]
delay_factor = 0
min_delay_seconds = 0.02
[retry]
max_attempts = 3
delay_seconds = 0.1
[robots]
max_attempts = 3
retry_delay_seconds = 0.1
[fetch]
proxy = "{proxy}"
"""
"""Leads crawls to the sites, and lets them hurry."""

PORT = "7707"
"""The port in the cookbook. Another one stands for it here, as it may be taken."""

WRAPPER = """\
#!/bin/sh
typed="{name} $*"
for word; do
    shift
    set -- "$@" "$(printf %s "$word" | sed s/{written}/{port}/)"
done
case $typed in
    "toehold crawl"*)
        shift
        set -- crawl --spec {spec} --ca-file {ca_file} --resume-with "$typed" "$@"
        case $typed in *--hook*) ;; *) set -- "$@" --processes 2 ;; esac ;;
    toehold-node*) set -- "$@" --ca-file {ca_file} ;;
esac
exec {program} "$@"
"""
"""A command of the cookbook, which adds what a crawl needs to reach the sites."""


@dataclass(frozen=True)
class Reader:
    """A reader of the cookbook: a directory, a shell whose programs find the sites, and the tasks."""

    folder: Path
    sites: Sites
    programs: Programs
    path: str
    """The shell's PATH."""
    tasks: dict[str, Task] = field(default_factory=tasks)

    def steps(self, number: int) -> tuple[Step, ...]:
        """The commands of a task, once its files are written."""
        task = self.tasks[TITLES[number - 1]]
        for name, content in task.files.items():
            (self.folder / name).write_text(content)
        return task.steps

    def start(self, step: Step) -> Program:
        """A command of the cookbook, at work."""
        return self.programs.start(
            f"command-{len(list(self.programs.folder.iterdir()))}",
            *("/usr/bin/env", "-C", str(self.folder), f"PATH={self.path}", "COLUMNS=80"),
            *("/bin/sh", "-c", f"exec {step.command}"),
        )

    def end(self, step: Step, program: Program, *, code: int = 0) -> str:
        """What a command has printed, once it has ended. It must show what the cookbook promises."""
        ended = program.wait(WHOLE_CRAWL_S)
        said = program.said + program.complaints
        assert ended == code, f"{step.command}\n{said}"
        assert step.unseen(said) == [], f"{step.command}\n{said}"
        return said

    def shows(self, step: Step) -> bool:
        """Whether a command, run to its end, now prints what the cookbook promises."""
        program = self.start(step)
        return program.wait() == 0 and step.unseen(program.said) == []

    def run(self, step: Step) -> str:
        """What a command prints, run to its end."""
        return self.end(step, self.start(step))

    def report(self, directory: str) -> Any:
        """The report of the last run in a crawl's directory."""
        return json.loads((self.folder / directory / "report.json").read_text())


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("cookbook")
    for name in ("bin", "programs", "work"):
        (folder / name).mkdir()
    with serve_sites(folder) as sites, KeptPort() as port, Programs(folder / "programs") as programs:
        (folder / "spec.toml").write_text(SPEC.format(proxy=sites.proxy))
        for name in ("toehold", "toehold-node"):
            wrapper = folder / "bin" / name
            wrapper.write_text(
                WRAPPER.format(
                    name=name,
                    program=script(name),
                    written=PORT,
                    port=port.port,
                    spec=folder / "spec.toml",
                    ca_file=sites.ca_file,
                )
            )
            wrapper.chmod(0o755)
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        yield Reader(folder / "work", sites, programs, path)


@pytest.fixture(scope="module")
def whole(reader: Reader) -> Path:
    """The directory of the first task's crawl."""
    reader.run(reader.steps(1)[0])
    return reader.folder / "crawl-www.example.org"


@pytest.fixture(scope="module")
def listed(reader: Reader) -> list[Request]:
    """What the crawl of a list of URLs asked for."""
    before = len(reader.sites.requests)
    reader.run(reader.steps(4)[0])
    return reader.sites.requests[before:]


def test_the_cookbook_has_ten_tasks_of_at_most_three_commands() -> None:
    found = tasks()
    assert list(found) == TITLES
    assert all(1 <= len(task.steps) <= MOST_COMMANDS for task in found.values())


def test_a_site_is_crawled_politely_to_warc(reader: Reader, whole: Path) -> None:
    reader.run(reader.steps(1)[1])
    assert reader.report(whole.name)["pages"] == PAGES
    asked = [request for request in reader.sites.requests if request.path == ROBOTS]
    assert asked == reader.sites.requests[:1], "robots.txt comes first, and once"
    assert PRIVATE not in reader.sites.paths()
    stored = {exchange.url for exchange in all_exchanges(whole / "warcs")}
    assert {f"https://{WWW}{path}" for path in (*NEWS, *MANUAL)} <= stored


def test_only_a_part_of_a_site_is_crawled(reader: Reader) -> None:
    before = len(reader.sites.requests)
    crawl, refusals = reader.steps(2)
    reader.run(crawl)
    assert set(reader.sites.paths(since=before)) == {"/docs/", *MANUAL, "/docs/1999.html"}
    reader.run(refusals)


def test_pages_become_json_lines_with_what_a_hook_says(reader: Reader) -> None:
    crawl, head = reader.steps(3)
    reader.run(crawl)
    assert json.loads(reader.run(head))["extra"] == {"words": 6}
    (file,) = (reader.folder / "words" / "pages").iterdir()
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert {page["url"]: page["extra"]["words"] for page in found if "extra" in page} == {
        f"https://{WWW}/docs/": 6,
        **{f"https://{WWW}{path}": 2 for path in MANUAL},
    }
    assert not (reader.folder / "words" / "warcs").exists()


def test_a_list_of_urls_is_fetched_and_nothing_else(reader: Reader, listed: list[Request]) -> None:
    asked = {(each.host, each.path, each.status) for each in listed if each.path != ROBOTS}
    assert asked == {
        (WWW, "/about.html", 200),
        (WWW, "/news/1.html", 200),
        (DOCS, "/", 200),
        (DOCS, "/missing.html", 404),
    }
    reader.run(reader.steps(4)[1])


def test_a_crawl_pauses_overnight_and_goes_on_in_the_morning(reader: Reader) -> None:
    evening, morning = reader.steps(5)
    assert evening.interrupted and evening.command == morning.command
    before = len(reader.sites.requests)
    reader.sites.close_after(8)
    crawl = reader.start(evening)
    eventually(lambda: len(reader.sites.requests) > before + 8, "a request that waits")
    crawl.signal(signal.SIGINT)
    night = str(reader.folder / "night")
    eventually(lambda: "PAUSING" in toehold("status", "--dir", night).stdout, "that the crawl pauses")
    reader.sites.open()
    reader.end(evening, crawl, code=PAUSED)
    assert reader.report("night")["pages"] < PAGES
    reader.run(morning)
    assert reader.report("night")["pages"] == PAGES
    assert set(Counter(reader.sites.paths(since=before)).values()) == {1}, "no page is fetched twice"


def test_a_limit_is_doubled(reader: Reader) -> None:
    for step, pages in zip(reader.steps(6), (10, 20), strict=True):
        reader.run(step)
        assert reader.report("sample")["pages"] == pages


@pytest.mark.usefixtures("whole")
def test_the_reason_is_told_why_a_url_is_not_fetched(reader: Reader) -> None:
    for step in reader.steps(7):
        reader.run(step)


def test_two_nodes_work_for_one_frontier(reader: Reader) -> None:
    crawl, node, nodes = reader.steps(8)
    before = len(reader.sites.requests)
    reader.sites.close_after(4)
    first = reader.start(crawl)
    eventually(lambda: len(reader.sites.requests) > before + 4, "a request that waits")
    second = reader.start(node)
    second.wait_ready()
    assert node.unseen(second.said) == [], second.said
    eventually(lambda: reader.shows(nodes), "both nodes")
    reader.sites.open()
    reader.end(crawl, first)
    assert second.runs
    second.signal(signal.SIGINT)
    assert second.wait() == 0, second.complaints
    asked = Counter((each.host, each.path) for each in reader.sites.requests[before:] if each.path != ROBOTS)
    assert asked.keys() >= {(WWW, path) for path in (*MANUAL, *NEWS)} | {(DOCS, "/10.html")}
    assert set(asked.values()) == {1}, "no page is fetched by both"
    stored = [
        *all_exchanges(reader.folder / "both" / "warcs"),
        *all_exchanges(reader.folder / "warcs-of-second"),
    ]
    assert {exchange.url for exchange in stored} >= {f"https://{host}{path}" for host, path in asked}


@pytest.mark.usefixtures("whole")
def test_a_recrawl_tells_what_has_changed(reader: Reader) -> None:
    recrawl, changes = reader.steps(9)
    before = len(reader.sites.requests)
    reader.sites.has_changed = True
    reader.run(recrawl)
    answers = Counter(each.status for each in reader.sites.requests[before:] if each.path != ROBOTS)
    assert answers == {304: PAGES - 3, 200: 1, 404: 1, 500: 1}
    assert f"{PAGES} pages fetched again: 1 changed, {PAGES - 1} unchanged" in reader.run(changes)


@pytest.mark.usefixtures("listed")
def test_what_failed_is_told_by_host_with_the_reason(reader: Reader) -> None:
    (failures,) = reader.steps(10)
    said = reader.run(failures)
    assert {line.split()[0] for line in said.splitlines()[1:-1]} == {OLD, DOCS}
