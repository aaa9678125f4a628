"""`toehold` run in this process on a real frontier: what is printed, and how it ends."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from toehold_cli.main import run

from .calls import PAUSE, Stubs, fresh_name, seed_of, spec

Toehold: TypeAlias = Callable[..., tuple[int, str, str]]
"""Runs `toehold` with these arguments: exit code, output, errors. Never a traceback."""


def toehold_of(capsys: pytest.CaptureFixture[str]) -> Toehold:
    """Runs `toehold` in this process."""

    def run_it(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return run_it


class At:
    """`toehold` for one crawl."""

    def __init__(self, toehold_at: Toehold, crawl: str) -> None:
        self._toehold_at = toehold_at
        self.crawl = crawl

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output, errors."""
        return self._toehold_at(*arguments, "--crawl", self.crawl)

    def output(self, *arguments: str) -> str:
        """What a command that succeeds prints."""
        code, output, errors = self.run(*arguments)
        assert (code, errors) == (0, "")
        return output

    def json(self, *arguments: str) -> list[Any]:
        """The same, for programs."""
        return [json.loads(line) for line in self.output(*arguments, "--json").splitlines()]

    def refused(self, *arguments: str) -> tuple[int, str]:
        """How a command that fails ends, and what it says."""
        code, output, errors = self.run(*arguments)
        assert (output, code != 0) == ("", True)
        return code, errors

    def key(self, host: str = "a") -> str:
        """The key of the queue of a host of the crawl's own."""
        return f"example,{self.crawl},{host},"


def paused_crawl(toehold_at: Toehold, stubs: Stubs) -> At:
    """A paused crawl of two hosts, whose seeds and three pages of the first wait."""
    crawl = fresh_name()
    first = seed_of(crawl, "a.")
    stubs.launch(crawl, first, seed_of(crawl, "b."), of=spec(run_while_empty=True))
    stubs.schedule(crawl, *(f"{first}{page}" for page in ("x", "y", "z")))
    stubs.request(crawl, PAUSE)
    return At(toehold_at, crawl)


def facts(output: str) -> dict[str, str]:
    """Names and values of what is printed for people."""
    pairs = (line.split("  ", 1) for line in output.splitlines() if "  " in line.strip())
    return {pair[0].strip(): pair[1].strip() for pair in pairs}
