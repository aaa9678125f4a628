"""`toehold crawl` that is interrupted while its node starts."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from toehold_cli.commands.crawl import crawl
from toehold_cli.embedded.children import Child
from toehold_client.watching.interruptions import Interruptions


def test_two_signals_that_come_while_its_node_starts_stop_it_with_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the node's processes may fetch already while another begins."""
    waits = Child.wait_ready

    def wait_ready(child: Child, interruptions: Interruptions, **limits: Any) -> str:
        if limits:  # the node's
            interruptions.count = 2
        return waits(child, interruptions, **limits)

    monkeypatch.setattr(Child, "wait_ready", wait_ready)
    flags = ["--dir", str(tmp_path / "crawl"), "--contact", "you@example.org"]
    seed = "http://127.0.0.1:9/"  # an address that is not fetched from
    ended = CliRunner().invoke(crawl, [*flags, seed], standalone_mode=False)
    assert ended.return_value == 130, ended.output
    assert (tmp_path / "crawl" / "report.json").exists()
    assert "before the crawl began" not in ended.output
