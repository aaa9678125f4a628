"""Defects put into the server on purpose, one at a time: each is found within a bounded number of histories.

    .venv/bin/python tests/simulation/mutants.py [WORD...]

This is the way of `property.mutations`: a piece of source is replaced in a copy of the server, and histories
are played against that until one fails. WORDs choose defects by the rules that they break.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from property.mutations import ROOT, SURVIVED, Mutation, is_noticed, mutated

SEEDS = 1_000  # within which each defect is found

MUTANTS = (
    Mutation(
        "A host's rest is stored",
        "journey/settlement",
        "host.row.rest_reason = until_ms, reason\n        self._shard.hosts.put(op.tx, host)\n",
        "host.row.rest_reason = until_ms, reason\n",
        ("the rest of", "ms too early", "is not as stored"),
    ),
    Mutation(
        "A lease is stored before Next answers",
        "state/ledger",
        "op.tx.put(Family.LEASES, keys.lease_key(crawl.number, queue.partition, serial), encode(row))",
        "pass",
        ("leases are lost", "lapses after", "as stored: leases"),
    ),
    Mutation(
        "A token is matched by all that it says, not by its number alone",
        "state/leases",
        "return self._by_token.get(token)",
        """said = self.genuine(token)
        return self._leases.get((said.crawl, said.serial)) if said is not None else None""",
        ("a report of a lease that has ended counts",),
    ),
    Mutation(
        "A slice of a job and its cursor are one write",
        "state/job",
        "    op.tx.put(Family.JOBS, keys.serial_key(crawl.number, number), encode(row))\n",
        """    apart = put.__dict__.setdefault("apart", {})
    key, value = keys.serial_key(crawl.number, number), encode(row)
    op.tx.put(Family.JOBS, key, apart.get(key, value) if row.state == "RUNNING" else value)
    apart[key] = value
""",
        ("have not ended", "verification of", "job"),
    ),
    Mutation(
        "The session that has a node's name is stored",
        "state/sessions",
        "        tx.put(Family.CRAWLS, _key(name), encode(self._rows[name]))\n",
        "        pass\n",
        ("the session of", "refused", "as stored: sessions"),
    ),
    Mutation(
        "A queue is in its index with the write that makes it active",
        "state/operation",
        "crawl.queues.active[queue.queue] = queue\n            self.tx.put(Family.INDEX, key, PRESENT)\n",
        "crawl.queues.active[queue.queue] = queue\n",
        ("in []", "have not ended", "active queues", "which is not active"),
    ),
    Mutation(
        "The seen-set has a URI with the write that queues it",
        "journey/admission",
        "            op.tx.put(Family.SEEN, wanted.key, encode(seen))\n",
        "            pass\n",
        ("waits twice", "a URI is lost, or there twice", "discovered URIs"),
    ),
    Mutation(
        "Counters are in the write of what they count",
        "state/operation",
        """            self.tx.put(
                Family.CRAWLS, keys.crawl_key(crawl.number, keys.CrawlRow.COUNTERS), encode(crawl.counters)
            )
""",
        """            apart = _less.__dict__.setdefault("apart", {})
            key, value = keys.crawl_key(crawl.number, keys.CrawlRow.COUNTERS), encode(crawl.counters)
            self.tx.put(Family.CRAWLS, key, apart.get(key, value))
            apart[key] = value
""",
        ("are missing, or new", "as stored", "discovered URIs", "without gap", "second time", "after"),
    ),
    Mutation(
        "Leases do not lapse on a late tick",
        "state/leases",
        "lease.deadline_ms = min(lease.deadline_ms + away_ms, now_ms + self.period_ms, lease.hard_ms)",
        "lease.deadline_ms = min(lease.deadline_ms, lease.hard_ms)",
        ("could have been heard",),
    ),
    Mutation(
        "A disposition is stored with the write that takes the URI out of its queue",
        "state/operation",
        "self.tx.put(Family.OUTCOMES, keys.serial_key(crawl.number, counters.next_outcome), encode(row))",
        "pass",
        ("has no disposition", "outcomes"),
    ),
    Mutation(
        "Overrides are stored",
        "operators/changes",
        "op.tx.put(Family.OVERRIDES, ",
        "(lambda *row: None)(",
        ("overrides of", "as stored: overrides"),
    ),
    Mutation(
        "A free place goes to the first in line",
        "state/line",
        "self._open[awaited.name] = awaited",
        "pass",
        ("have not ended", "nobody was told"),
    ),
    Mutation(
        "A copy of robots.txt that expires counts for the page that it was tried for",
        "robotstxt/authority",
        "if answered and (tried_ms or _lasts(row.answer_ms, now_ms, settings)):",
        "if answered and _lasts(row.answer_ms, now_ms, settings):",
        ("have not ended", "too much happens"),
    ),
    Mutation(
        "Crawls of another product token read a robots.txt for themselves",
        "uri/assign",
        "settings.fetch.product_token.lower())",
        '"toehold")',
        ("before its robots.txt is known", "though robots.txt forbids it"),
    ),
)
"""The parts that a crash can take apart, and what would let a crawl stand still."""


def found(mutant: Mutation, seeds: int = SEEDS) -> tuple[str, int]:
    """What is said of a defect, and within how many histories; `survived` if none of them fails."""
    with tempfile.TemporaryDirectory() as folder:
        mutated(mutant, Path(folder))
        done = subprocess.run(
            (sys.executable, "-m", "simulation", "--count", str(seeds), "--brief"),
            env={**os.environ, "PYTHONPATH": os.pathsep.join((folder, str(ROOT / "tests")))},
            cwd=folder,
            capture_output=True,
            text=True,
        )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    last = done.stdout.strip().splitlines()[-1]
    if not done.returncode:
        return SURVIVED, seeds
    seed, _, said = last.removeprefix("seed ").partition(": ")
    return said, int(seed)


def main(words: list[str]) -> int:
    """Show all defects, or those that some words choose."""
    survivors = 0
    for mutant in MUTANTS:
        if words and not any(word in mutant.rule for word in words):
            continue
        said, histories = found(mutant)
        well = is_noticed(mutant, said)
        survivors += not well
        print(
            f"{'found' if well else 'NOT FOUND'} by seed {histories}: {mutant.rule}\n    {said[:200]}",
            flush=True,
        )
    return survivors


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
