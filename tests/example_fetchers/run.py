"""`make examples`: builds the fetchers in examples/ and crawls the practice web with them, each alone and all
together while some are killed. Prints a table. Exit codes: 0 all is well, 1 a fault, 2 wrong usage.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from example_fetchers.languages import Example, NotBuilt, examples
from example_fetchers.runs import Verdict, alone, mixed

KILLS = 12


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make examples", description=__doc__)
    parser.add_argument("languages", nargs="*", help="build and run only these")
    parser.add_argument("--kills", type=int, default=KILLS, help=f"in the mixed crawl; default {KILLS}")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="of the kills")
    given = parser.parse_args()
    known = {example.language: example for example in examples()}
    if unknown := set(given.languages) - set(known):
        parser.error(f"the languages are {', '.join(known)}, got {', '.join(sorted(unknown))}")
    wanted = [known[language] for language in given.languages or known]
    built, faults = _build(wanted)
    if built:
        faults += _run(built, given.kills, given.seed)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


def _build(wanted: list[Example]) -> tuple[list[Example], list[str]]:
    built, faults = [], []
    for example in wanted:
        if missing := example.missing_tools:
            print(
                f"{example.language}: skipped, because this machine has no {', '.join(missing)}", flush=True
            )
            continue
        print(f"{example.language}: building", flush=True)
        try:
            example.build()
        except NotBuilt as error:
            faults.append(f"{example.language} was not built:\n{error}")
        else:
            built.append(example)
    return built, faults


def _run(built: list[Example], kills: int, seed: int) -> list[str]:
    folder = Path(tempfile.mkdtemp(prefix="toehold-examples-"))
    crawls: dict[str, Callable[[Path], Verdict]] = {
        **{example.language: partial(alone, example) for example in built},
        "mixed": partial(mixed, built, kills=kills, seed=seed),
    }
    print(f"\n{'crawl':12}{'pages':>8}{'seconds':>9}{'kills':>7}{'faults':>8}", flush=True)
    faults: list[str] = []
    for name, crawl in crawls.items():
        try:
            verdict = crawl(folder / name)
        except AssertionError as error:  # something did not come in time, or a program ended too early
            faults.append(f"{name}: {error}")
            print(f"{name:12} did not come to its end", flush=True)
            continue
        faults += [f"{name}: {complaint}" for complaint in verdict.complaints]
        print(
            f"{name:12}{verdict.pages:8}{verdict.seconds:9.1f}{verdict.kills:7}{len(verdict.complaints):8}",
            flush=True,
        )
    if faults:
        print(f"\nThe mixed crawl had SEED={seed}. Logs are in {folder}.")
    else:
        shutil.rmtree(folder)
    return faults


if __name__ == "__main__":
    main()
