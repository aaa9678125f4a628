"""Fuzzes parsers by hand: `python -m tests.fuzz GROUP… [--seconds S] [--seed N] [--keep]`.

`--seconds` are those of a processor for each group. `--keep` adds what is found to the corpus.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path

from . import corpus
from .campaign import Diary, explore, run
from .groups import GROUPS, TARGETS

_MANY = 10**9


def main() -> int:
    """Fuzz; 1 if anything was found."""
    if sys.argv[1:2] == ["--child"]:
        name, path, seed, count, seconds = sys.argv[2:]
        for finding in explore(TARGETS[name], int(seed), int(count), float(seconds), Diary(Path(path))):
            print(json.dumps({"problem": finding.problem, "input": finding.data.hex()}), flush=True)
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="+", choices=(*GROUPS, *TARGETS), metavar="GROUP", help="or a target")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 40))
    parser.add_argument("--keep", action="store_true")
    asked = parser.parse_args()
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ[corpus.NEW] = folder
        for name in asked.names:
            targets = GROUPS.get(name) or (TARGETS[name],)
            for target in targets:
                _, findings, statistics = run(target, asked.seed, _MANY, asked.seconds / len(targets))
                print(statistics, flush=True)
                for finding in findings:
                    print(f"FOUND with --seed {asked.seed}: {finding}", flush=True)
                found += len(findings)
                if asked.keep:
                    print(f"{target.name}: {corpus.keep(target)} inputs in the corpus", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
