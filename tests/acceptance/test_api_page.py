"""The examples of docs/api.md, run in their order against a frontier and a node on the practice web."""

import re
from pathlib import Path
from typing import Any

import pytest
from acceptance.judging import ONE, node_options, seeds_of
from acceptance.programs import Programs

from practice_web.practice import PracticeWeb

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_run(
    web: PracticeWeb, programs: Programs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    frontier = programs.frontier(tmp_path / "data")
    programs.node("north", frontier.address, tmp_path / "warcs", *node_options(web))
    (seed,) = seeds_of(web, ONE)
    stands_for = {
        '"127.0.0.1:7707"': repr(frontier.address),
        "https://docs.example.org/": seed,
        "https//docs.example.org/": seed.replace(":", "", 1),
        '"contact": "me@example.org"': '"contact": "me@example.org", "allowed_addresses": ["loopback"]',
    }
    text = PAGE.read_text()
    for word, real in stands_for.items():
        assert word in text
        text = text.replace(word, real)
    names: dict[str, Any] = {}
    for example in EXAMPLE.finditer(text):
        line = text.count("\n", 0, example.start(1))
        exec(compile("\n" * line + example[1], str(PAGE), "exec"), names)
    told = capfd.readouterr().out
    assert "did you mean http" in told
    assert "RUNNING\n" in told and "node north joined\n" in told  # what `listen(print)` prints
    assert "north NODE_PRESENCE_PRESENT" in told
    assert "UNKNOWN_CRAWL - " in told
