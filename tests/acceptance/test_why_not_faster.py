"""What limits a real crawl, and how long it takes, if a host is slower than others or a limit is near."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acceptance.programs import Programs, toehold
from frontier_harness.small_site import small_site
from frontier_harness.waiting import eventually

FAST, SLOW = ("one.example", "two.example"), "slow.example"
PAGES = 265


@contextmanager
def crawl(programs: Programs, folder: Path, limits: str = "") -> Iterator[tuple[str, str]]:
    """A crawl of three hosts with as many pages each, one of which asks for 5 s between two of them."""
    with small_site(PAGES) as site:
        site.robots[SLOW] = "User-agent: *\nCrawl-delay: 5\n"
        frontier = programs.frontier(folder / "data")
        there = "--frontier", frontier.address
        seeds = ", ".join(f'"{site.url(host)}"' for host in (*FAST, SLOW))
        spec = folder / "spec.toml"
        spec.write_text(
            f'name = "mixed"\nseeds = [{seeds}]\nallowed_addresses = ["loopback"]\n'
            f"[politeness]\nmin_delay_seconds = 0.3\ndelay_factor = 0.0\n{limits}"
        )
        assert toehold("launch", str(spec), *there).returncode == 0
        programs.node(
            "north", frontier.address, folder / "north", *site.resolve((*FAST, SLOW)), "--toes", "8"
        )
        yield there


def statistics(there: tuple[str, str]) -> dict[str, Any]:
    """What the frontier tells of the crawl."""
    told = toehold("status", *there, "--json")
    assert told.returncode == 0, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)["statistics"]
    return found


def until(there: tuple[str, str], pattern: str) -> tuple[re.Match[str], dict[str, Any]]:
    """Waits until what limits the crawl is this; the statistics of that moment."""
    found: list[tuple[re.Match[str], dict[str, Any]]] = []

    def look() -> bool:
        told = statistics(there)
        match = re.fullmatch(pattern, told.get("limited_by", ""))
        found.extend([(match, told)] if match else [])
        return bool(found)

    eventually(look, pattern)
    return found[-1]


WAITS = r"Limited by politeness: 2 hosts wait 0\.3 s, slow\.example waits its Crawl-delay of 5 s\. "


def test_hosts_are_counted_by_their_own_waits_and_the_slowest_says_how_long_it_takes(
    programs: Programs, tmp_path: Path
) -> None:
    """265 pages at 5 s are 22 min, whatever the rate of the others."""
    with crawl(programs, tmp_path) as there:
        _, told = until(there, WAITS + r"About 2[12] min for \d+ URLs, slow\.example last")
        assert told["remaining_host"] == SLOW
        assert told["limiting_setting"] == "politeness.min_delay_seconds"
        status = " ".join(toehold("status", *there).stdout.split())
        assert re.search(r"estimate about 2[12] min left \(slow\.example last\)", status), status


def test_near_a_limit_its_time_is_told_and_what_would_be_left(programs: Programs, tmp_path: Path) -> None:
    """The time falls with the pages that the limit leaves, however slow the machine; without the limit it is
    over 20 min."""
    with crawl(programs, tmp_path, "[limits]\nmax_documents = 60\n") as there:
        match, told = until(there, WAITS + r"Page limit in about (\d|1[0-5]) s; (\d+) URLs would be left")
        pages = 60 - int(told["succeeded_count"])
        assert told["remaining_limit"] == "limits.max_documents"
        assert int(match[2]) == int(told["queued_count"]) - pages
        # Each host gives a page at once, and then one an interval; told are whole seconds.
        assert int(match[1]) >= (pages - 3) / (2 / 0.3 + 1 / 5) - 1
