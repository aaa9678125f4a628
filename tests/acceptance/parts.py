"""A frontier, nodes and a crawl, each started by hand as the README says, on one practice web."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from acceptance.judging import FEW, SPEC, complaints, node_options, seeds_of
from acceptance.outcomes import LogLine, check_failures, closed_files, crawl_log, pages, unstored_pages
from acceptance.programs import Program, Programs, toehold
from frontier_harness.ports import KeptPort
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

from practice_web.practice import PracticeWeb
from practice_web.truth import request_counts
from toehold_client import CrawlController, FrontierClient
from toehold_client.spec.plain import to_plain

CRAWL = "practice"

LEASE_S = 3.0
"""The lease period here: short, so that what a dead node held comes back soon."""


class Parts:
    """The parts of one crawl. The frontier keeps its address, however often it is started."""

    frontier: Program

    def __init__(
        self,
        web: PracticeWeb,
        programs: Programs,
        folder: Path,
        *,
        lease_s: float = LEASE_S,
        options: Sequence[str] = (),
    ) -> None:
        """`options` are more of the frontier's."""
        self.web = web
        self._programs = programs
        self._folder = folder
        self.data = folder / "data"
        """The frontier's data directory."""
        self._options = (
            *("--lease-seconds", str(lease_s), "--heartbeat-seconds", str(lease_s / 10)),
            *options,
        )
        self._nodes: set[str] = set()
        self._keys: tuple[str, ...] = ()
        self._followed: Program | None = None
        self._port = KeptPort()
        self.address = self._port.address
        self.start_frontier()

    def start_frontier(self) -> None:
        """Starts the frontier, for the first time or again."""
        self.frontier = self._programs.frontier(self.data, *self._options, listen=self.address).program

    def launch(self, keys: Iterable[str] = FEW, settings: str = "") -> None:
        """Launches the crawl of the hosts of these keys, and follows its events from the first. `settings`:
        of its spec; by default SPEC's.
        """
        self._keys = tuple(keys)
        seeds = json.dumps(seeds_of(self.web, self._keys))
        spec = self._folder / "spec.toml"
        spec.write_text(f'name = "{CRAWL}"\nseeds = {seeds}\n{settings or SPEC.read_text()}')
        launched = toehold("launch", str(spec), "--frontier", self.address)
        assert launched.returncode == 0, launched.stderr
        follow = self._programs.toehold("events", "--follow", "--json", "--frontier", self.address)
        eventually(lambda: follow.said, "the crawl's first event")
        self._followed = follow

    def node(self, name: str, *options: str, frontier: str = "", command: Sequence[str] = ()) -> Program:
        """A node that runs; a node of that name may have run before. `frontier` is another way there, and
        `command` another way to run the program.
        """
        self._nodes.add(name)
        address = frontier or self.address
        told = *node_options(self.web), *options
        return self._programs.node(name, address, self.warcs(name), *told, command=command)

    def warcs(self, name: str) -> Path:
        """Where a node writes."""
        return self._folder / "warcs" / name

    def until_asked(self, count: int) -> None:
        """Waits until the web has had so many requests."""
        eventually(lambda: len(self.web.log()) >= count, f"{count} requests", WHOLE_CRAWL_S)

    def until_finished(self) -> None:
        """Waits until the crawl has come to its end, as its events tell."""
        assert self._followed is not None
        assert self._followed.wait(WHOLE_CRAWL_S) == 0, self._followed.complaints
        eventually(lambda: self.status()["status"]["state"] == "FINISHED", "the crawl's end")
        self.until_logged()

    def until_logged(self) -> None:
        """Waits until crawl.log has all that has come to an end: its last lines may be late."""
        eventually(lambda: len(self.pages) >= sum(self.ended().values()), "crawl.log to be complete")

    def ended(self) -> dict[str, int]:
        """How many pages have come to each end, by the crawl's statistics."""
        statistics = self.status()["statistics"]
        return {word: statistics[f"{word}_count"] for word in ("succeeded", "failed", "disregarded")}

    def set(self, setting: str) -> None:
        """Changes a setting of the crawl."""
        done = toehold("set", setting, "--frontier", self.address)
        assert done.returncode == 0, done.stderr

    def has_finished(self) -> bool:
        """Whether the crawl has come to its end, as its events tell."""
        return self._followed is not None and not self._followed.runs

    def status(self) -> Any:
        """What `toehold status --json` says of where the crawl is and what it has done."""
        with FrontierClient(self.address) as client:
            answer = CrawlController(client, CRAWL).statistics()
        return {"status": to_plain(answer.status), "statistics": to_plain(answer.statistics)}

    def leased(self, node: str) -> int:
        """How many leases a node holds, by the frontier's account."""
        with FrontierClient(self.address) as client:
            return sum(each.leased_count for each in client.get_frontier().nodes if each.node == node)

    @property
    def pages(self) -> list[LogLine]:
        """The pages in crawl.log."""
        return pages(crawl_log(self.data / "crawls" / CRAWL / "crawl.log"))

    def pages_of(self, node: str) -> list[LogLine]:
        """The pages in crawl.log that this node fetched, in one process or several."""
        return [line for line in self.pages if line.node.partition("/")[0] == node]

    def repeated(self) -> list[str]:
        """Pages that were asked for more than once."""
        return [url for url, count in request_counts(self.web.log()).items() if count > 1]

    def complaints(self, again: Collection[str] = (), unruly: Collection[str] = ()) -> list[str]:
        """What there is to say about the finished crawl, by the access log, crawl.log, its statistics, its
        events and its WARC files. `again`, `unruly`: see judging.complaints.
        """
        return [
            *complaints(self.web, self._keys, again, unruly),
            *self._wrong_dispositions(),
            *self._wrong_events(),
            *self.wrong_warcs(),
        ]

    def wrong_warcs(self) -> list[str]:
        """Pages of crawl.log whose node has not stored them, and closed files with faults."""
        found = [file for name in self._nodes for file in closed_files(self.warcs(name))]
        return [
            *(failure for file in found for failure in check_failures(file)),
            *(
                problem
                for name in self._nodes
                for problem in unstored_pages(self.web.web, self.pages_of(name), self.warcs(name))
            ),
        ]

    def _wrong_dispositions(self) -> list[str]:
        counts = Counter(line.url for line in self.pages)
        statistics = self.status()["statistics"]
        said = self.ended()
        told = Counter(line.disposition for line in self.pages)
        return [
            *(f"{count} final dispositions of {url}" for url, count in counts.items() if count > 1),
            *(
                f"{number} {word}, in crawl.log {told[word]}"
                for word, number in said.items()
                if number != told[word]
            ),
            *(f"{statistics[name]} {name}" for name in ("queued_count", "leased_count") if statistics[name]),
        ]

    def _wrong_events(self) -> list[str]:
        assert self._followed is not None
        numbers = [json.loads(line)["sequence"] for line in self._followed.said.splitlines()]
        return [] if numbers == [*range(1, len(numbers) + 1)] else [f"events {numbers}"]
