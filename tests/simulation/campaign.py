"""Many histories, one seed after the other; a failing one is made smaller, and printed."""

import argparse
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field

from core_doubles.small_shares import small_shares
from simulation.history import History, Statistics
from simulation.plan import Plan, drawn
from simulation.shrink import smaller
from simulation.transcript import transcript


@dataclass
class Failure:
    """What is wrong in a history."""

    plan: Plan
    said: str

    @property
    def seed(self) -> int:
        """The seed that shows it."""
        return self.plan.seed


@dataclass
class Result:
    """What came of many histories."""

    statistics: Statistics = field(default_factory=Statistics)
    histories: int = 0
    failure: Failure | None = None


def fault_of(plan: Plan) -> str:
    """What is wrong in a history, and where; nothing if all is well."""
    return _played(plan)[1]


def _played(plan: Plan) -> tuple[Statistics, str]:
    with small_shares():
        try:
            return History(plan).play(), ""
        except Exception as problem:
            return Statistics(), words_of(problem)


def words_of(problem: Exception) -> str:
    """What is said, with the place; the same for the same mistake."""
    last = traceback.extract_tb(problem.__traceback__)[-1]
    said = str(problem).partition("\n")[0] or last.line or ""
    place = last.filename.rpartition("/")[2].removesuffix(".py")
    return f"{place}.{last.name}: {type(problem).__name__}: {said}"


def play(seeds: Iterable[int]) -> Result:
    """Play histories until one fails."""
    result = Result()
    for seed in seeds:
        plan = drawn(seed)
        statistics, said = _played(plan)
        result.histories += 1
        result.statistics.add(statistics)
        if said:
            result.failure = Failure(plan, said)
            break
    return result


def told(failure: Failure) -> str:
    """A failure for people: the smallest plan that shows it, and what happens in it."""
    plan, said = smaller(failure.plan, failure.said, fault_of)
    with small_shares():
        told_in_full = transcript(plan)
    return "\n".join(
        (
            f"seed {failure.seed}: {failure.said}",
            f"after leaving out what it does without: {said}",
            "",
            told_in_full,
            "",
            f"python -m tests.simulation {failure.seed}",
        )
    )


def main(arguments: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", nargs="?", type=int, help="play this one; print a transcript if it fails")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first of several seeds")
    parser.add_argument("--count", type=int, default=1_000, help="how many seeds")
    parser.add_argument("--print", dest="printed", action="store_true", help="print the transcript anyway")
    parser.add_argument("--brief", action="store_true", help="of a failure, only say what it is")
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.first, chosen.first + chosen.count) if chosen.seed is None else (chosen.seed,)
    begin_s = time.process_time()
    result = play(seeds)
    length_s = time.process_time() - begin_s
    statistics = result.statistics
    print(
        f"{result.histories} histories, {statistics.crawls} crawls, {statistics.operations} operations, "
        f"{statistics.events} events, {statistics.fetches} fetches, {statistics.faults} faults; "
        f"{60 * statistics.crawls / max(length_s, 0.001):.0f} crawls a minute"
    )
    print("checked: " + ", ".join(f"{count} {what}" for what, count in sorted(statistics.checked.items())))
    if result.failure is not None and chosen.brief:
        print(f"seed {result.failure.seed}: {result.failure.said}")
        return 1
    if result.failure is not None:
        print(told(result.failure))
        return 1
    if chosen.printed and chosen.seed is not None:
        with small_shares():
            print(transcript(drawn(chosen.seed)))
    return 0
