"""How results are shown: to people, to programs, and in the manual."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .case import Case, Level
from .cases import GROUPS
from .kit import Result, conforms


def rows(results: Sequence[Result]) -> Iterator[tuple[str, str, str, str]]:
    """A row for each case: its name, its level, whether it holds, and why not."""
    for result in results:
        verdict = "holds" if result.holds else "fails"
        yield result.case.name, result.case.level.value, verdict, reason(result)


def reason(result: Result) -> str:
    """The fetcher's fault, the right way, and the place in the contract; empty if the case holds."""
    if result.holds:
        return ""
    first = " ".join(result.problem.split())
    return f"{first} Right: {result.case.right} ({result.case.contract})"


def summary(results: Sequence[Result]) -> str:
    """One line about all of them."""
    required = [result for result in results if result.case.level is Level.REQUIRED]
    advised = [result for result in results if result.case.level is Level.ADVISED]
    verdict = "The fetcher conforms" if conforms(results) else "The fetcher does not conform"
    counts = ", ".join(
        f"{sum(result.holds for result in some)} of {len(some)} {name}"
        for name, some in (("required", required), ("advised", advised))
        if some
    )
    return f"{verdict}: {counts} cases hold."


def plain(result: Result) -> Mapping[str, Any]:
    """A result for programs."""
    return {**plain_case(result.case), "holds": result.holds, "problem": result.problem}


def plain_case(case: Case) -> Mapping[str, Any]:
    """A case for programs."""
    return {
        "case": case.name,
        "level": case.level.value,
        "play": case.play.name,
        "right": case.right,
        "contract": case.contract,
    }


def markdown_cases() -> str:
    parts = []
    for group in GROUPS:
        body = [(f"`{case.name}`", case.level.value, case.right, case.contract) for case in group]
        parts.append(f"### {group.title}\n\n{_markdown(('case', 'level', 'right', 'contract'), body)}")
    return "\n".join(parts)


def markdown_results(by_fetcher: Mapping[str, Mapping[str, bool]]) -> str:
    """Which cases hold for which fetchers, in Markdown."""
    lines = []
    for group in GROUPS:
        for case in group:
            cells = [_cell(held.get(case.name)) for held in by_fetcher.values()]
            lines.append((f"`{case.name}`", case.level.value, *cells))
    return _markdown(("case", "level", *by_fetcher), lines)


def _cell(holds: bool | None) -> str:
    return "" if holds is None else "holds" if holds else "**fails**"


def _markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [
        f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in row)} |"
        for row in body
    ]
    return "\n".join([*lines, ""])
