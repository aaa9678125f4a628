"""One process of a node, as its supervisor sees it."""

import signal
import sys

import pytest

from crawler_node.control import worker
from crawler_node.control.worker import Worker
from crawler_node.fetching.cookies import CookieJars


def test_a_process_that_hangs_before_its_first_line_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that loops in C may be leased before the process has said that it works."""
    monkeypatch.setattr(worker, "START_S", 0.2)
    begun: list[str] = []
    sleeps = (sys.executable, "-c", "import time; time.sleep(600)")
    hung = Worker(1, lambda: sleeps, hang_s=0.2, jars=CookieJars())
    assert hung.live(lambda: begun.append("ready")) == -signal.SIGKILL
    assert begun == []


def test_a_process_that_ends_before_its_first_line_has_ended() -> None:
    ended = Worker(1, lambda: (sys.executable, "-c", "raise SystemExit(4)"), hang_s=30, jars=CookieJars())
    assert ended.live(lambda: None) == 4
