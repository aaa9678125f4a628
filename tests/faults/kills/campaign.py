"""A frontier that is killed again and again under a crowd, and what is left of its data each time."""

import itertools
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from typing import ClassVar

import grpc
from faults.kills.crowd import HEARTBEAT_S, Crowd
from faults.power.judge import Findings, judge
from faults.power.ledger import Ledger, Mark, Notary
from faults.power.program import NONE, PROGRAM
from frontier_harness.calls import Stubs
from frontier_harness.ports import KeptPort
from frontier_harness.process import ServerProcess
from frontier_harness.waiting import PATIENCE_S, eventually

LEASE_S = 6
KILLS_OF_A_LIFE = 25
"""After so many kills another data directory begins: a judge looks at all that is in it."""
RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.use_local_subchannel_pool", 1),
]
LONGEST_START_S = 0.8
LONGEST_CHECKPOINT_S = 0.03
LATEST_S = 0.8
MOST_ANSWERS = 100
CHECKPOINTS_OPENED = 0.2  # of those that were made last
AT_START = "start"


class Marks:
    """What was noted and not judged yet."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []

    def add(self, mark: Mark) -> None:
        """Note it. Used by any threads."""
        self._marks.append(mark)

    def taken(self) -> list[Mark]:
        """All that was noted, in its order."""
        found, self._marks = self._marks, []
        return found


@dataclass(slots=True)
class Tally:
    """What a campaign has found."""

    kills: Counter[str] = field(default_factory=Counter)
    checked: int = 0
    unanswered: int = 0
    found: Findings = field(default_factory=Findings)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {aim}" for aim, count in self.kills.items())
        return (
            f"{self.kills.total()} kills ({kinds}), {self.unanswered} calls without an answer, "
            f"{self.checked} acknowledged items looked for: {len(self.found.all())} findings"
        )


class Life:
    """One data directory, under a crowd, with a frontier that comes and goes."""

    later: ClassVar[tuple[str, ...]] = ("any", "answer", "checkpoint")
    """Moments to aim at, beside its start: any, one right after an answer, a checkpoint."""

    def __init__(self, folder: Path, seed: int, mutant: str = NONE) -> None:
        self._folder = folder
        self._seed = seed
        self._chance = Random(seed)
        self._port = KeptPort()
        self._marks = Marks()
        self._ledger = Ledger()
        self._notary = Notary(self._marks)
        self._mutant = mutant
        self.tally = Tally()
        self._begin()

    def play(self, kills: int) -> Tally:
        """Kill so often, and judge each time; then end in order, and judge again."""
        self._server.until_ready()
        with self._way() as address, grpc.insecure_channel(address, RECONNECT) as channel:
            crowd = Crowd(Stubs(channel), self._notary, f"life{self._seed}")
            with crowd.running():
                aims = [self._chance.choice((*self.later, AT_START)) for _ in range(kills)]
                aims[0] = final = self.later[0]
                for aim, following in itertools.pairwise((*aims, final)):
                    self._cycle(crowd, aim, following)
                    if crowd.problems or self.tally.found.all():
                        break
                else:
                    self._goes_on(crowd)
            self.tally.unanswered = crowd.unanswered
            self.tally.found.violated += crowd.problems
        self._end()
        return self.tally

    def _goes_on(self, crowd: Crowd) -> None:
        self._server.until_ready()
        enough = self._notary.acknowledged + 20
        eventually(
            lambda: crowd.problems or self._notary.acknowledged > enough, "answers after the last start"
        )

    @contextmanager
    def _way(self) -> Iterator[str]:
        """Where everybody finds the frontier."""
        yield self._port.address

    def _environment(self) -> dict[str, str]:
        """What is added to the environment of the frontier."""
        return {}

    def _mend(self) -> None:
        """Whatever else is wrong while the frontier is killed is well again."""

    # Programs.

    def _begin(self) -> None:
        self._server = ServerProcess(
            self._folder / "data",
            *("--lease-seconds", str(LEASE_S), "--heartbeat-seconds", str(HEARTBEAT_S)),
            *("--disk-reserve-mib", "0"),
            listen=self._port.address,
            program=(PROGRAM, self._mutant),
            environment=self._environment(),
        )
        self._server.begin()

    def _end(self) -> None:
        if self.tally.found.all():
            self._server.kill()
            self._server.let_go()
            return
        code, _ = self._server.stop()
        if code:
            self.tally.found.violated.append(f"a frontier that was asked to stop has ended with {code}")
        self._server.let_go()
        self._judge(self._taken())
        if "Traceback" in self._server.errors.read_text():
            self.tally.found.violated.append(f"a traceback is in {self._server.errors}")

    # Kills.

    def _cycle(self, crowd: Crowd, aim: str, following: str) -> None:
        """Kill the frontier, start it again, and judge what the kill has left.

        `following` is the aim of the next kill: one at the start does not wait for the judge.
        """
        if aim != AT_START:
            self._server.until_ready()
            getattr(self, f"_at_{aim}")(crowd)
        self.tally.kills[aim] += 1
        self._server.kill()
        if (code := self._server.child.returncode) != -signal.SIGKILL:
            self.tally.found.violated.append(f"it has ended by itself, with {code}: {self._server.errors}")
        self._server.let_go()
        self._mend()
        self._notary.hold()  # of what was asked nothing is under way any more
        copy = self._taken()
        self._begin()
        self._notary.release()
        if following == AT_START:
            time.sleep(self._chance.uniform(0, LONGEST_START_S))
            self._server.child.send_signal(signal.SIGKILL)
        self._judge(copy)

    def _at_any(self, crowd: Crowd) -> None:
        time.sleep(self._chance.uniform(0, LATEST_S))

    def _at_answer(self, crowd: Crowd) -> None:
        """As soon as an answer has come, and before whoever got it does anything else."""
        left, reached, child = (
            itertools.count(self._chance.randint(1, MOST_ANSWERS), -1),
            Event(),
            self._server.child,
        )

        def count() -> None:
            if next(left) == 0:
                child.send_signal(signal.SIGKILL)
                reached.set()

        self._notary.on_answer = count
        reached.wait(PATIENCE_S)
        self._notary.on_answer = lambda: None

    def _at_checkpoint(self, crowd: Crowd) -> None:
        crowd.start(crowd.checkpoint)
        time.sleep(self._chance.uniform(0, LONGEST_CHECKPOINT_S))

    # Judgements.

    def _taken(self) -> Path:
        """A copy of what there is, with the ledger at the same moment."""
        for mark in self._marks.taken():
            self._ledger.note(mark)
        copy = self._folder / "copy"
        shutil.copytree(self._server.data, copy / "data", copy_function=_linked)
        return copy

    def _judge(self, copy: Path) -> None:
        found = judge(copy / "data", self._ledger, self._chance.random() < CHECKPOINTS_OPENED, LEASE_S)
        self.tally.checked += self._ledger.items
        for name in ("lost", "doubled", "violated"):
            getattr(self.tally.found, name).extend(getattr(found, name))
        shutil.rmtree(copy)


def _linked(source: str, target: str) -> str:
    """RocksDB never changes its tables; all else is copied."""
    if source.endswith(".sst"):
        os.link(source, target)
    else:
        shutil.copyfile(source, target)
    return target
