"""The drill of docs/machines.md, typed as it stands into one shell: a machine is lost with its disk."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from acceptance.manual import DOCS, blocks
from acceptance.programs import script
from frontier_harness.descendants import kill_all
from frontier_harness.ports import KeptPort, bound_at_one_port, is_there
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

PAGE = "machines.md"
SITES = [f"127.0.0.{number}" for number in range(1, 7)]
PAGES = ["/", *(f"/{number}.html" for number in range(1, 101))]


class Terminal:
    """A shell in a directory. It types commands as the page has them, with other ports."""

    def __init__(self, folder: Path, ports: dict[str, str]) -> None:
        self.folder = folder
        self._ports = ports
        self._screen, self._ends = folder / "screen", folder / "ends"
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "TOEHOLD_", "COVERAGE"))
        }
        with self._screen.open("wb") as screen:
            self._shell = subprocess.Popen(
                ["bash"],
                cwd=folder,
                env=environment | {"PATH": f"{Path(script('toehold')).parent}:{os.environ['PATH']}"},
                stdin=subprocess.PIPE,
                stdout=screen,
                stderr=screen,
                text=True,
            )
        self._typed = 0

    def words(self, text: str) -> str:
        """A text of the page with these ports."""
        return re.sub(r"\b[0-9]{4}\b", lambda port: self._ports.get(port[0], port[0]), text)

    def shows(self) -> str:
        """All that the screen has."""
        return self._screen.read_text()

    def types(self, command: str) -> str:
        """What a command shows that succeeds; of one in the background, that it was started."""
        assert self._shell.stdin is not None
        seen = len(self.shows())
        self._shell.stdin.write(f"{self.words(command)}\necho $? >>{self._ends}\n")
        self._shell.stdin.flush()
        self._typed += 1

        def ends() -> list[str]:
            return self._ends.read_text().splitlines() if self._ends.exists() else []

        eventually(
            lambda: len(ends()) == self._typed or self._shell.poll() is not None, command, WHOLE_CRAWL_S
        )
        shown = self.shows()[seen:]
        assert ends()[-1:] == ["0"], (command, shown)
        return shown

    def close(self) -> None:
        """Close it, with all that it has started."""
        kill_all(self._shell.pid)
        self._shell.wait()
        assert self._shell.stdin is not None
        self._shell.stdin.close()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if not is_there(SITES[-1]):
        pytest.skip("this system has no further addresses of loopback")
    kept = {port: KeptPort() for port in ("9000", "7701", "7702", "7703")}
    sockets = bound_at_one_port(*SITES)
    ports = {port: str(each.port) for port, each in kept.items()}
    ports["8000"] = str(sockets[0].getsockname()[1])
    for each in sockets:
        each.close()
    with closing(Terminal(tmp_path, ports)) as terminal:
        for name, content in files().items():
            (tmp_path / name).write_text(terminal.words(content))
        yield terminal


def files() -> dict[str, str]:
    """The files that the page asks the reader to write, by the names in their first lines."""
    found = re.findall(r"^```\w+\n(# (\S+)\n.*?)^```$", (DOCS / PAGE).read_text(), re.M | re.S)
    return {name: content for content, name in found}


def requests(folder: Path) -> Counter[tuple[int, str]]:
    """How often each page of each site was asked for."""
    found: Counter[tuple[int, str]] = Counter()
    for number, _ in enumerate(SITES, 1):
        log = (folder / f"site-{number}.log").read_text()
        found.update((number, path) for path in re.findall(r'"GET (\S+) HTTP', log) if path != "/robots.txt")
    return found


def machines_of(listed: str) -> dict[str, str]:
    """Which machine has each member, as `toehold shards list` says."""
    return dict(re.findall(r"^(shard-\d+|coordinator): .*?(?:slots \d+ to \d+; )?(\w+), epoch", listed, re.M))


@pytest.mark.undivided("the machines of the page have six shards")
def test_a_machine_is_lost_with_its_disk_and_the_crawl_ends_complete(terminal: Terminal) -> None:
    store, machines, sites, crawl, lose, look, again, end = blocks(PAGE, "## Drill: lose a machine")
    for command in (*store, *machines):
        terminal.types(command)
    eventually(lambda: terminal.shows().count("toehold-frontier serving on") == 3, "three machines to serve")
    for command in (*sites, *crawl):
        shown = terminal.types(command)
    before = machines_of(shown)
    assert len(before) == 7 and "two" in before.values(), shown
    eventually(lambda: sum(requests(terminal.folder).values()) >= 150, "some pages")

    assert len(lose) == 3
    for command in lose:
        shown = terminal.types(command)
    assert "Finished" in shown, shown
    asked = requests(terminal.folder)
    assert asked.keys() == {(site, page) for site, _ in enumerate(SITES, 1) for page in PAGES}
    again_asked = [each for each, count in asked.items() if count > 1]
    lost = sum(machine == "two" for machine in before.values())
    assert len(again_asked) <= 2 * lost, "only what was out when the machine was lost"

    report, verify, listed, logged = look
    assert re.search(r"^succeeded +606$", terminal.types(report), re.M)
    assert re.search(r"^result +no difference found$", terminal.types(verify), re.M)
    assert set(machines_of(terminal.types(listed)).values()) == {"one", "three"}
    eventually(lambda: terminal.types(logged).split() == ["606"], "all pages in crawl.log")

    for command in again:
        terminal.types(command)
    eventually(lambda: "two" in machines_of(terminal.types(listed)).values(), "the machine's share")
    for command in end:
        terminal.types(command)
