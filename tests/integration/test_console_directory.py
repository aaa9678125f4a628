"""A console for the directory of a `toehold crawl`, which runs, pauses, goes on and ends."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from frontier_harness.console import ConsoleProcess, NoStream, told
from frontier_harness.divided import of_toehold
from frontier_harness.small_site import SmallSite, small_site
from frontier_harness.waiting import PATIENCE_S, WHOLE_CRAWL_S, eventually

PAGES = 24
CRAWL = "crawl"
SPEC = 'name = "crawl"\nallowed_addresses = ["loopback"]\n'
PATH = f"/console/crawls/{CRAWL}"


@pytest.fixture
def site() -> Iterator[SmallSite]:
    with small_site(PAGES) as site:
        yield site


def crawl_of(site: SmallSite, folder: Path, min_delay_s: int) -> subprocess.Popen[bytes]:
    """A run of the crawl in `folder`/made."""
    (folder / "spec.toml").write_text(SPEC)
    command = [sys.executable, "-m", "toehold_cli", *of_toehold(("crawl", site.url(), "--dir", "made"))]
    command += ["--spec", "spec.toml", "--min-delay", str(min_delay_s), "--delay-factor", "0"]
    return subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def look_in(console: ConsoleProcess, state: str) -> Any:
    """A look at the crawl in this state. A page connects again when its stream ends, and so does this."""

    def found() -> Any:
        with suppress(NoStream, httpx.TransportError), told(console.http, f"{PATH}/live") as events:
            for each in events:
                if each.kind == "look":
                    return each.content["state"] == state and not each.content["away"] and each.content
        return None

    return eventually(found, state)


def answer_to(console: ConsoleProcess, method: str, path: str, **options: Any) -> Any:
    """The answer to a request, made again while the frontier of the directory moves: the look that a page has
    may come from the one that has ended just then.
    """

    def answered() -> Any:
        with suppress(httpx.TransportError):
            response = console.http.request(method, path, **options)
            return response.status_code != 503 and response.json()
        return None

    return eventually(answered, f"an answer to {path}")


def test_one_console_follows_a_crawl_from_run_to_run_and_to_its_end(tmp_path: Path, site: SmallSite) -> None:
    with crawl_of(site, tmp_path, min_delay_s=5) as first:  # it takes two minutes
        while not (tmp_path / "made" / "frontier.json").exists():
            assert first.poll() is None
        with ConsoleProcess("", tmp_path, "--dir", str(tmp_path / "made")) as console:
            assert look_in(console, "RUNNING")["actions"] == ["pause", "stop", "teardown"]
            first.send_signal(signal.SIGINT)
            first.wait(PATIENCE_S)
            assert look_in(console, "PAUSED")
            resume = {"crawl": CRAWL, "targetState": "TARGET_STATE_RUN"}
            refused = answer_to(console, "POST", "/v1/FrontierService/RequestState", json=resume)
            assert refused["error"]["details"][0]["reason"] == "READ_ONLY"
            with crawl_of(site, tmp_path, min_delay_s=0) as second:
                assert second.wait(WHOLE_CRAWL_S) == 0
            assert look_in(console, "FINISHED")["counts"]["succeeded"] == PAGES + 1
            files = answer_to(console, "GET", f"{PATH}/files")["files"]
            assert {"report.json", "crawl.log", "job.log"} <= {file["name"] for file in files}
            assert any(file["folder"] == "warcs" for file in files)
        assert console.child.returncode == 0
