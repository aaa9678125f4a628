"""Breaks rules of the core on purpose, one at a time, and shows that a test notices, and what it says.

    .venv/bin/python tests/property/mutations.py [WORD...]

Each mutation replaces a piece of source in a copy of the server; the machine of
`test_frontier_machine`, or what is promised in `test_lives`, then runs against that copy until
something fails. WORDs choose mutations by their rules.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
MACHINE, LIVES, PARTS = "test_frontier_machine", "test_lives", "test_parts"
ROOMS = ("coordinator/", "router/")
EXAMPLES, STEPS = 4_000, 60
SURVIVED = "survived"


class Mutation(NamedTuple):
    """A rule, how it is broken, and what must be noticed."""

    rule: str
    module: str  # of the core, or, with its room before it, of coordinator and router
    source: str  # stands there once
    broken: str
    noticed: tuple[str, ...]  # one of these is part of what is said, whichever comes first
    by: str = MACHINE


MUTATIONS = (
    Mutation(
        "Queues rotate when their session's budget is spent (T7)",
        "journey/turn",
        "spent = budget > 0 and row.expenditure - row.session_start > budget",
        "spent = False",
        ("beyond the budget of its session",),
    ),
    Mutation(
        "A queue is retired when its whole budget is spent (T8)",
        "journey/turn",
        "if budget >= 0 and row.expenditure >= budget:",
        "if budget >= 0 and row.expenditure > budget:",
        ("beyond its budget or a quota",),
    ),
    Mutation(
        "A URI that the scope excludes by now ends at its turn (scope.recheck)",
        "operators/changes",
        "if settings.scope != before.scope:",
        "if False:",
        ("out of scope",),
    ),
    Mutation(
        "A failure costs a penalty (S1.13)",
        "journey/conclusion",
        "added(row.expenditure, pending.cost + settings.queues.error_penalty)",
        "added(row.expenditure, pending.cost)",
        ("has spent",),
    ),
    Mutation(
        "The queue of the lowest precedence is activated first (T3, S2.17)",
        "state/crawl",
        "first = min(self.counters.inactive, default=None)",
        "first = max(self.counters.inactive, default=None)",
        ("was activated before", "is ready before"),
    ),
    Mutation(
        "A queue that wakes gives way to those of a lower precedence (T13)",
        "state/operation",
        "if queue.row.count and (queue.row.paused or crawl.lower_waits(queue)):",
        "if queue.row.count and queue.row.paused:",
        ("is ready before",),
    ),
    Mutation(
        "A free place goes to the first in line",
        "state/line",
        "self._open[awaited.name] = awaited",
        "pass",
        ("withheld", "nobody is told that there is something"),
    ),
    Mutation(
        "A host that waits lets the other hosts of its queue pass (D23)",
        "journey/dispatch",
        "if not shared or",
        "if True or",
        ("withheld", "nobody is told that there is something", "rebuilt._queues", "ms too early"),
    ),
    Mutation(
        "Simultaneous requests to a host keep its rest between their starts",
        "journey/grants",
        "if head.settings.politeness.max_parallel > 1:",
        "if False:",
        ("ms too early", "audit.rests"),
    ),
    Mutation(
        "Nothing is leased from a queue at the precedence floor (2.1)",
        "state/operation",
        "queue.row.precedence >= settings.precedence_floor",
        "queue.row.precedence > settings.precedence_floor",
        ("at the floor", "at the precedence floor"),
    ),
    Mutation(
        "URIs of retired queues are not counted as queued (2.1)",
        "state/operation",
        "            counters.queued -= uris\n",
        "",
        ("('status_changed', 'EMPTY', 'RUNNING')", "queued"),
    ),
    Mutation(
        "A queue is in one set only (D11)",
        "state/operation",
        "self.tx.delete(Family.INDEX, keys.member_key(crawl.number, _MEMBERS[state], queue.queue))",
        "pass",
        ("does not belong there", "recount.membership"),
    ),
    Mutation(
        "A URI is moved to the queue that it belongs to now (S3.12, T9)",
        "journey/turn",
        "if turn.site.place.queue == turn.queue.queue else",
        "if True else",
        ("it belongs elsewhere",),
    ),
    Mutation(
        "Equally urgent URIs go first come, first served (2.3)",
        "rows/keys",
        'return level.to_bytes(2, "big") + ordinal',
        'return level.to_bytes(2, "big") + (9_999 - ordinal)',
        ("what waits in",),
    ),
    Mutation(
        "A future URI waits for its time (2.9)",
        "journey/future",
        "if due_ms > op.now_ms or number == PER_CALL:",
        "if number == PER_CALL:",
        ("with 0 URIs", "what waits in", "was leased without waiting"),
    ),
    Mutation(
        "A future URI is stored in the write of its disposition (D17)",
        "journey/conclusion",
        "        future.keep(op, crawl, due_ms, partition, again)\n",
        "",
        ("a future URI is lost",),
    ),
    Mutation(
        "Seeds are announced again past the seen-set (S3.17)",
        "jobs/seeding",
        "leases, anew=True)",
        "leases)",
        ("jobs._check_changes",),
    ),
    Mutation(
        "A group of hosts gets at most its limit of requests at once",
        "state/host",
        "if group.max_parallel and group.host.in_flight >= group.max_parallel:",
        "if group.max_parallel and group.host.in_flight > group.max_parallel:",
        ("requests",),
    ),
    Mutation(
        "A host that two crawls share is one host",
        "state/host",
        "        if crawl.settings.politeness.across_crawls:\n",
        "        if False:\n",
        ("audit.rests", "was forgotten too early"),
    ),
    Mutation(
        "A URI that fails although its host was reached rests alone (S1.18)",
        "rules/disposition",
        "steps_aside=status not in _OF_HOST)",
        "steps_aside=meaning is Meaning.MALFORMED)",
        ("events tell", "statistics of"),
    ),
    Mutation(
        "Three different URIs of a host without an answer let the queue rest",
        "journey/reports",
        "(silent or not decision.steps_aside)",
        "not decision.steps_aside",
        ("rests by itself", "ms too early"),
    ),
    Mutation(
        "An answer ends the silence of a host",
        "rules/politeness",
        '    if status > 0 or status == PROTOCOL_ERROR:\n        return b""\n',
        "",
        ("too long", "rests by itself"),
    ),
    Mutation(
        "Waking a queue has the URIs tried again that rest alone",
        "journey/future",
        "        if uri.attempts and wanted(",
        "        if not uri.attempts and wanted(",
        ("precedence", "what waits in"),
    ),
    Mutation(
        "The target of a redirect goes before links",
        "state/model",
        'if self.path.endswith("R") else self.directive',
        'if self.path.endswith("Z") else self.directive',
        ("what waits in",),
    ),
    Mutation(
        "A rest outlives a restart (D9)",
        "journey/settlement",
        "        self._shard.hosts.put(op.tx, host)\n",
        "",
        ("is not as stored", "was forgotten too early"),
    ),
    Mutation(
        "A slice of a job and its cursor are one write",
        "jobs/steering",
        "    row.cursor = queue_id\n",
        "",
        ("job",),
    ),
    Mutation(
        "Documents never exceed their limit (2.19)",
        "state/crawl",
        "left is not None and self.pages_out >= left",
        "left == 0",
        ("beyond the document limit",),
    ),
    Mutation(
        "An end is never taken back (D3)",
        "machines/lifecycle",
        "    (_S.FINISHED, _I.STOP): _STAY,\n",
        "    (_S.FINISHED, _I.STOP): _STAY,\n    (_S.STOPPING, _I.PAUSE): _PAUSE,\n",
        ("after ExitStatus",),
        LIVES,
    ),
    Mutation(
        "The exit status is that of the first cause of the end (S0.24)",
        "machines/lifecycle",
        "(_S.STOPPING, _I.REACHED_FINISH): Move(_S.FINISHED)",
        "(_S.STOPPING, _I.REACHED_FINISH): Move(_S.FINISHED, _X.FINISHED)",
        ("after ExitStatus",),
        LIVES,
    ),
    Mutation(
        "A pause and an end wait no longer than their bounds",
        "upkeep",
        "if bound is not None and bound[0] <= op.now_ms:",
        "if False:",
        ("has not come",),
        LIVES,
    ),
    Mutation(
        "URIs that are still out fail at the bound of an end; a pause puts them back",
        "journey/reports",
        "ends = spent or why is Lapse.STOP",
        "ends = spent or why is Lapse.PAUSE",
        ("missing", "came from nowhere"),
    ),
    Mutation(
        "A held crawl takes nothing in (S0.32)",
        "opening/registry",
        "        if crawl.held:\n",
        "        if False:\n",
        ("DID NOT RAISE CrawlHeld", "not CrawlHeld"),
    ),
    Mutation(
        "A crawl is held only after its log is written",
        "state/crawl",
        "if self.target is Target.HOLD and (self.receiving or not self.logged):",
        "if self.target is Target.HOLD and self.receiving:",
        ("held",),
    ),
    Mutation(
        "Only one request begins a teardown (S0.30)",
        "state/life",
        "    if row.tearing_down:\n",
        "    if False:\n",
        ("have begun",),
        LIVES,
    ),
    Mutation(
        "A crawl is torn down only after its log is written",
        "state/crawl",
        "return not (self.jobs or self.receiving or self.queues.active) and self.logged",
        "return not (self.jobs or self.receiving or self.queues.active)",
        ("torn down",),
    ),
    Mutation(
        "An operator's pause outlasts the trouble that began it",
        "state/life",
        """    if stays:
        row.trouble = ""
""",
        "",
        ("the crawl's life", "events tell"),
    ),
    Mutation(
        "No lease lapses because the frontier was away",
        "state/leases",
        "lease.deadline_ms = min(lease.deadline_ms + away_ms, now_ms + self.period_ms, lease.hard_ms)",
        "lease.deadline_ms = min(lease.deadline_ms, lease.hard_ms)",
        ("when leases lapse",),
    ),
    Mutation(
        "The session that has a node's name is known after a restart",
        "state/sessions",
        "        tx.put(Family.CRAWLS, _key(name), encode(self._rows[name]))\n",
        "        pass\n",
        ("as stored: sessions", "DID NOT RAISE SessionSuperseded"),
    ),
    Mutation(
        "An operator's request is recorded before the events that follow from it",
        "state/life",
        """        op.acted(crawl, by, action)
    else:
        return
    if stays:
        row.trouble = ""
    apply(op, crawl, given)
""",
        "        apply(op, crawl, given)\n        op.acted(crawl, by, action)\n",
        ("operator_acted",),
    ),
    Mutation(
        "A change of state is in the write of its event",
        "state/life",
        "    op.counters(crawl)\n    op.put_state(crawl)\n\n\ndef request",
        "    op.counters(crawl)\n\n\ndef request",
        ("as stored",),
        LIVES,
    ),
    Mutation(
        "Statistics are complete when a crawl is paused or has finished",
        "state/life",
        "if step.state in (CrawlState.PAUSED, CrawlState.FINISHED):",
        "if step.state is CrawlState.FINISHED:",
        ("statistics", "events tell"),
    ),
    Mutation(
        "A held crawl records nodes that left only after its release",
        "state/attendance",
        "    if crawl.held or not crawl.has_uris:\n",
        "    if not crawl.has_uris:\n",
        ("node_left",),
    ),
    Mutation(
        "The read-ahead part of a queue includes URIs that arrive in it",
        "state/read_ahead",
        "        if not rows or position > rows[-1][0]:\n",
        "        if True:\n",
        ("heads of",),
    ),
    Mutation(
        "The read-ahead part of a queue loses URIs that leave it",
        "state/read_ahead",
        "            del rows[at]\n",
        "            pass\n",
        ("heads of", "was leased without waiting"),
    ),
    Mutation(
        "Statistics of hosts and sources are in the write of what they count",
        "state/operation",
        "            self.tx.put(Family.FETCH_STATISTICS, key, encode(row))\n",
        "            pass\n",
        ("statistics",),
    ),
    Mutation(
        "A part may have its share from the order on, not only from its answer",
        "coordinator/pool",
        "            share.most = max(share.most, share.told)\n",
        "            pass\n",
        ("documents of at most", "toes of"),
        PARTS,
    ),
    Mutation(
        "Nothing is lent while a part's share is not known",
        "coordinator/pool",
        "if len(taken) < len(self.shares):",
        "if False:",
        ("documents of at most", "toes of"),
        PARTS,
    ),
    Mutation(
        "A share that is lowered counts until the part has obeyed",
        "coordinator/pool",
        "taken = [max(share.most, share.told) for",
        "taken = [share.told for",
        ("documents of at most", "toes of"),
        PARTS,
    ),
    Mutation(
        "Links that were parked in a checkpoint are offered in the crawl that is launched from it",
        "jobs/restoring",
        "    state.parked = rows.state.parked\n",
        "",
        ("pages were fetched, not", "was not fetched"),
        PARTS,
    ),
    Mutation(
        "A part that is being filled from a checkpoint, or was, is not filled again",
        "operators/orders",
        "if begun is not None and begun[1].parameters == parameters_of(checkpoint, source):",
        "if False:",
        ("pages were fetched, not", "was not fetched"),
        PARTS,
    ),
    Mutation(
        "A part has a share of the document limit, not all of it",
        "state/crawl",
        "most = self.state_row.documents_lent if self.led else",
        "most =",
        ("documents of at most",),
        PARTS,
    ),
    Mutation(
        "A part has a share of the toes, not all of them",
        "state/crawl",
        "most = self.state_row.toes_lent if self.led else",
        "most =",
        ("toes of",),
        PARTS,
    ),
    Mutation(
        "A crawl is paused when all parts have heard of it",
        "coordinator/whole",
        " and progress.order >= part.steered",
        "",
        ("a part of a paused crawl runs",),
        PARTS,
    ),
    Mutation(
        "A crawl does not end while links of it are parked",
        "coordinator/whole",
        "return sum([after - first for first, after in self.state_row.parked.values()])",
        "return 0",
        ("links are parked", "was not fetched"),
        PARTS,
    ),
    Mutation(
        "A parked link is stored",
        "coordinator/parking",
        "op.tx.put(Family.IMPORTS, key, encode(ImportRow(candidate.record)))",
        "pass",
        ("was not fetched",),
        PARTS,
    ),
    Mutation(
        "What a part has said is not replaced by something older",
        "coordinator/coordinator",
        "progress.moment < its.progress.moment",
        "False",
        ("older news of part",),
        PARTS,
    ),
    Mutation(
        "An order that is late changes nothing",
        "operators/orders",
        "crawl.number == order.number and order.serial <= crawl.state_row.order",
        "False",
        ("a part of a paused crawl runs", "documents of at most", "toes of"),
        PARTS,
    ),
    Mutation(
        "The orders of a coordinator come after those of the one before it",
        "coordinator/whole",
        "max(its.serial, progress.order, term * ORDERS_PER_TERM - 1) + 1",
        "its.serial + 1",
        ("a part of a paused crawl runs", "documents of at most", "has not ended"),
        PARTS,
    ),
    Mutation(
        "A crawl has ended when its parts were at rest at one moment",
        "coordinator/coordinator",
        "first.number == second.number == crawl.number and first.stamp == second.stamp",
        "True",
        ("something left between the rounds", "has something left", "were offered something unseen"),
        PARTS,
    ),
    Mutation(
        "Requests that offer URIs are counted, so that none goes unseen between two rounds",
        "frontier",
        "        crawl.intakes += 1\n",
        "",
        ("were offered something unseen",),
        PARTS,
    ),
    Mutation(
        "A part does not end when it has nothing left",
        "state/life",
        "if leads and state is CrawlState.EMPTY and not left",
        "if state is CrawlState.EMPTY and not left",
        ("has ended by itself", "crawl 'whole' is FINISHED"),
        PARTS,
    ),
    Mutation(
        "Seeds count as announced once, however often their verdicts come",
        "coordinator/coordinator",
        "if row.done == announcement.first:",
        "if True:",
        ("seeds are announced",),
        PARTS,
    ),
    Mutation(
        "The hosts of a named group are in one shard",
        "router/places",
        "self._groups = groups_of(settings)",
        "self._groups: dict[str, str] = {}",
        ("a queue of another shard",),
        PARTS,
    ),
    Mutation(
        "A URI of a crawl with rewrites is placed by what it is rewritten to",
        "router/places",
        "self._by_host = not settings.identity.rewrites",
        "self._by_host = True",
        ("a queue of another shard", "was fetched twice"),
        PARTS,
    ),
)


def core_module(root: Path, mutation: Mutation) -> Path:
    """The file that a mutation is about."""
    server = root / "frontier_server"
    within = server if mutation.module.startswith(ROOMS) else server / "core"
    return within / f"{mutation.module}.py"


def mutated(mutation: Mutation, folder: Path) -> None:
    """A copy of the server in a folder, with one rule broken."""
    shutil.copytree(ROOT / "frontier_server", folder / "frontier_server")
    path = core_module(folder, mutation)
    text = path.read_text()
    if text.count(mutation.source) != 1:
        raise LookupError(
            f"{path.name} has {mutation.source!r} {text.count(mutation.source)} times, not once"
        )
    path.write_text(text.replace(mutation.source, mutation.broken))


def noticed(mutation: Mutation) -> str:
    """What is said of a broken rule, and where; `survived` if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        mutated(mutation, Path(folder))
        path = os.pathsep.join((folder, str(ROOT / "tests")))
        done = subprocess.run(
            (sys.executable, __file__, "--play", mutation.by),
            env={**os.environ, "PYTHONPATH": path},
            cwd=folder,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


def is_noticed(mutation: Mutation, said: str) -> bool:
    """Whether that is said which should be."""
    return any(words in said for words in mutation.noticed)


def play(test: str) -> str:
    """Run a test against the server on the path until something fails; what failed, and where."""
    import traceback
    from importlib.util import module_from_spec, spec_from_file_location

    import pytest
    from hypothesis import HealthCheck, Phase, settings
    from hypothesis.stateful import run_state_machine_as_test

    import frontier_server

    assert ROOT not in Path(frontier_server.__path__[0]).parents, "not the copy"
    spec = spec_from_file_location("played", Path(__file__).parent / f"{test}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        phases=(Phase.generate,),
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        if test == LIVES:
            module.promises(chosen)()
        elif test == PARTS:
            module.histories(range(EXAMPLES))
        else:
            run_state_machine_as_test(module.FrontierMachine, settings=chosen)
    except (Exception, pytest.fail.Exception) as problem:
        last = traceback.extract_tb(problem.__traceback__)[-1]
        said = str(problem).partition("\n")[0] or last.line
        return f"{Path(last.filename).stem}.{last.name}: {said or type(problem).__name__}"
    return SURVIVED


def main(words: list[str]) -> int:
    """Show all mutations, or those that some words choose."""
    chosen = [one for one in MUTATIONS if not words or any(word in one.rule for word in words)]
    survivors = 0
    for mutation in chosen:
        said = noticed(mutation)
        well = is_noticed(mutation, said)
        survivors += not well
        print(f"{'noticed' if well else 'NOT NOTICED'}: {mutation.rule}\n    {said[:200]}", flush=True)
    return survivors


if __name__ == "__main__":
    if sys.argv[1:2] == ["--play"]:
        print(play(sys.argv[2]))
    else:
        sys.exit(main(sys.argv[1:]))
