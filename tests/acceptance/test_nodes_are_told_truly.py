"""Nodes, time and speed are told as they are, also of nodes that die or share a name, and after a restart."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from acceptance.at_terminal import check_fits, plain, terminal_of, until_told
from acceptance.programs import Program, Programs, script, toehold
from frontier_harness.ports import KeptPort
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.waiting import eventually

HOSTS = ("one.example", "two.example")
PAGES = 400


@dataclass
class Slow:
    """A crawl of two hosts that takes minutes, on a frontier that keeps its address."""

    programs: Programs
    folder: Path
    site: SmallSite
    port: KeptPort
    frontier: Program

    @property
    def there(self) -> tuple[str, str]:
        return "--frontier", self.port.address

    def restart(self) -> None:
        """`kill -9` of the frontier, and another one with its data."""
        self.frontier.kill()
        self.frontier = start_frontier(self.programs, self.folder, self.port.address)

    def node(self, name: str) -> Program:
        options = (*self.site.resolve(HOSTS), "--toes", "2")
        return self.programs.node(name, self.port.address, self.folder / name, *options)

    def rival(self, name: str) -> Program:
        """Another process under the name of a node."""
        return self.programs.start(
            *(f"rival-{name}", script("toehold-node"), "--name", name, *self.there),
            *("--warc", str(self.folder / "rival"), *self.site.resolve(HOSTS), "--toes", "3"),
        )

    def known(self) -> dict[str, dict[str, Any]]:
        """The nodes that the frontier knows."""
        listed = toehold("nodes", *self.there, "--json")
        assert listed.returncode == 0, listed.stderr
        return {node["node"]: node for node in map(json.loads, listed.stdout.splitlines())}

    def summary(self) -> str:
        """What `toehold nodes` says below the nodes."""
        return toehold("nodes", *self.there).stdout.partition("\n\n")[0].splitlines()[-1]


def start_frontier(programs: Programs, folder: Path, address: str) -> Program:
    options = ("--lease-seconds", "3", "--heartbeat-seconds", "0.3")
    return programs.frontier(folder / "data", *options, listen=address).program


@contextmanager
def slow_crawl(programs: Programs, folder: Path) -> Iterator[Slow]:
    """The crawl, launched within the context."""
    with small_site(PAGES) as site:
        port = KeptPort()
        frontier = start_frontier(programs, folder, port.address)
        seeds = ", ".join(f'"{site.url(host)}"' for host in HOSTS)
        spec = folder / "spec.toml"
        spec.write_text(
            f'name = "slow"\nseeds = [{seeds}]\nallowed_addresses = ["loopback"]\n'
            "[politeness]\nmin_delay_seconds = 0.8\ndelay_factor = 0.0\n"
        )
        crawl = Slow(programs, folder, site, port, frontier)
        assert toehold("launch", str(spec), *crawl.there).returncode == 0
        yield crawl


@pytest.fixture
def slow(programs: Programs, tmp_path: Path) -> Iterator[Slow]:
    with slow_crawl(programs, tmp_path) as crawl:
        yield crawl


def test_killed_nodes_are_silent_then_lost_and_are_no_longer_counted(slow: Slow) -> None:
    piped = slow.programs.toehold("watch", *slow.there, "--interval", "0.5")
    north, south = slow.node("north"), slow.node("south")
    with terminal_of(slow.programs) as terminal:
        terminal.toehold("watch", *slow.there, "--interval", "0.3")
        until_told(lambda: plain(terminal.shown), r"nodes 2 present, 4 toes: .* leases? north 2 toes")
        south.kill()
        until_told(
            lambda: plain(terminal.shown),
            r"nodes 1 of 2 present, 2 toes: .* leases? south silent for \d s",
            r"nodes 1 of 2 present, 2 toes: .* leases? south lost \d s ago",
        )
        until_told(lambda: piped.said, r"problem: node south: silent for \d s")
        until_told(lambda: piped.said, r"problem: node south: lost \d s ago")
        eventually(
            lambda: slow.summary() == "1 node works, with 2 toe threads; 1 is lost.", "the same of `nodes`"
        )

        north.kill()
        until_told(
            lambda: plain(terminal.shown)[-4_000:],
            r"why No node asks for leases \(last asked \d+ s ago\)",
            r"problems no node is there, so nothing is fetched",
            r"nodes 0 of 2 present, 0 toes; 0 leases north lost \d s ago south lost \d+ s ago",
        )
        eventually(lambda: slow.summary() == "No node works; 2 are lost.", "both to be lost")
        why = toehold("explain", *slow.there).stdout
        assert re.search(r"no node has asked for leases for \d+ s: start toehold-node", why)
        assert "nodes ask" not in why + plain(terminal.shown) + piped.said

        assert toehold("nodes", "forget", "south", *slow.there).stdout == "south: forgotten\n"
        assert list(slow.known()) == ["north"]
        until_told(lambda: plain(terminal.shown)[-2_500:], r"nodes north lost \d+ s ago largest")
        check_fits(terminal.shown)


@pytest.mark.soak("kills")
def test_after_a_restart_of_the_frontier_a_lost_node_was_seen_when_it_was_seen(slow: Slow) -> None:
    north = slow.node("north")
    eventually(lambda: "north" in slow.known(), "a node that has called")
    north.kill()
    eventually(lambda: slow.known()["north"]["presence"] == "LOST", "a node that is lost")
    before = slow.known()["north"]["last_seen_time"]
    slow.restart()
    assert slow.known()["north"]["last_seen_time"] <= before
    eventually(lambda: slow.known()["north"]["presence"] == "LOST", "a node that did not call again")
    assert slow.summary() == "No node works; 1 is lost."
    assert slow.known()["north"]["last_seen_time"] <= before
