"""Runs the plays, one after the other, and judges the cases of each."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .case import Case, Level, Play
from .cases import ALL
from .evidence import Evidence, Fails
from .processes import FrontierProcess
from .stage import Hosts, Setting, Stage
from .tap import Tap
from .web import Web

DEFAULT_TIMEOUT_S = 60.0
"""The longest that a play may take."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a case was judged."""

    case: Case
    problem: str = ""
    """The fetcher's fault; empty if the case holds."""

    @property
    def holds(self) -> bool:
        """Whether the fetcher does what is right."""
        return not self.problem


def conforms(results: Sequence[Result]) -> bool:
    """Whether all required cases hold."""
    return all(result.holds for result in results if result.case.level is Level.REQUIRED)


def run(
    command: Sequence[str],
    *,
    cases: Sequence[Case] = ALL,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    tell: Callable[[str], None] = lambda line: None,
    keep: Path | None = None,
) -> list[Result]:
    """Runs a fetcher's command in all plays that these cases need; a result for each case, in their order.

    `keep` is a directory for the logs of the fetcher and of the frontier. Raises CannotStart if the command
    cannot be run, and KitFailed if the kit itself cannot.
    """
    results: dict[str, Result] = {}
    with _setting(command, timeout_s, keep) as setting:
        for play in dict.fromkeys(case.play for case in cases):
            of_play = [case for case in cases if case.play is play]
            tell(f"{play.name} ({len(of_play)} {'case' if len(of_play) == 1 else 'cases'})")
            for result in _perform(setting, play, of_play):
                results[result.case.name] = result
    return [results[case.name] for case in cases]


def _perform(setting: Setting, play: Play, cases: Sequence[Case]) -> Iterator[Result]:
    hosts = [Hosts(play.name, play.hosts, all_are_seeds=True)]
    hosts += [Hosts(case.name, case.hosts, case.settings) for case in cases]
    with Stage(setting, play.name, play.spec, hosts) as stage:
        try:
            play.direct(stage)
        except Fails as problem:
            stage.trouble = str(problem)
        for case in cases:
            yield judge(case, stage.evidence(case.name if case.hosts else play.name))


def judge(case: Case, seen: Evidence) -> Result:
    """Judges one case."""
    try:
        if not seen.leases:
            raise Fails(seen.trouble or "The fetcher did not ask Next for leases, or got none.")
        case.judge(seen)
    except Fails as problem:
        return Result(case, str(problem))
    return Result(case)


@contextmanager
def _setting(command: Sequence[str], timeout_s: float, keep: Path | None) -> Iterator[Setting]:
    with tempfile.TemporaryDirectory(prefix="toehold-conformance-") as scratch, Web() as web:
        logs = Path(scratch, "logs") if keep is None else keep
        logs.mkdir(parents=True, exist_ok=True)
        frontier, tap = FrontierProcess(Path(scratch, "data"), logs / "frontier.log"), Tap()
        try:
            frontier.start()
            tap.open(frontier.address)
            yield Setting(command, Path(scratch), logs, frontier, tap, web, timeout_s)
        finally:
            tap.end()
            frontier.kill()
