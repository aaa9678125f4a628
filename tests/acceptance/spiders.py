"""Spiders of Scrapy as processes, on a frontier and the practice web."""

import sys
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

from acceptance.judging import SPEC, complaints, seeds_of
from acceptance.parts import CRAWL, Parts
from acceptance.programs import Program, Programs
from frontier_harness.waiting import WHOLE_CRAWL_S, eventually

SPIDERS = Path(__file__).parents[1] / "spiders"


def spider(programs: Programs, name: str, file: str, frontier: str, crawl: str, *options: str) -> Program:
    """A spider that runs with the settings that every spider on a frontier needs, and these options."""
    return programs.start(
        *(name, sys.executable, "-m", "spiders.offline", "runspider", str(SPIDERS / file)),
        *("-s", "SCHEDULER=toehold_scrapy.Scheduler"),
        *("-s", f"TOEHOLD_FRONTIER={frontier}", "-s", f"TOEHOLD_CRAWL={crawl}"),
        *("-s", "TELNETCONSOLE_ENABLED=0", "-s", "REMOTE_CONTROL_ENABLED=0", *options),
    )


class PracticeSpiders:
    """Processes of the practice spider on one crawl. `parts` has the frontier."""

    def __init__(self, parts: Parts, programs: Programs, folder: Path, keys: Iterable[str]) -> None:
        self.parts = parts
        self._programs = programs
        self._keys = tuple(keys)
        self._spec = folder / "brisk.toml"
        # The rests of hosts are judged by their minimum alone.
        self._spec.write_text(SPEC.read_text().replace("delay_factor = 1.0", "delay_factor = 0.0"))

    def start(self, name: str) -> Program:
        """A process that runs."""
        hosts = (entry.split(":") for entry in self.parts.web.resolve)
        return spider(
            *(self._programs, name, "practice.py", self.parts.address, CRAWL),
            *("-a", f"start={' '.join(seeds_of(self.parts.web, self._keys))}"),
            *("-s", f"TOEHOLD_SPEC={self._spec}", "-s", f"TOEHOLD_NODE={name}", "-s", "LOG_LEVEL=INFO"),
            *("-s", "TWISTED_DNS_RESOLVER=spiders.resolving.PracticeResolver"),
            *("-s", "PRACTICE_HOSTS=" + ",".join(f"{host}={address}" for host, _, address in hosts)),
        )

    def until_finished(self, *running: Program) -> None:
        """Waits until these processes have ended, as their crawl has."""
        for program in running:
            assert program.wait(WHOLE_CRAWL_S) == 0, program.complaints
            assert "Spider closed (finished)" in program.complaints
        eventually(lambda: self.parts.status()["status"]["state"] == "FINISHED", "the crawl's end")
        self.parts.until_logged()

    def complaints(self, again: Collection[str] = ()) -> list[str]:
        """All complaints about the finished crawl, by the access log and crawl.log."""
        counts = Counter(line.url for line in self.parts.pages)
        return [
            *complaints(self.parts.web, self._keys, again),
            *(f"{count} final dispositions of {url}" for url, count in counts.items() if count > 1),
        ]
