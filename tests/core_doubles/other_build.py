"""The core of the other build, in a process of its own: the compiled one beside the interpreted one, or
the other way round.

As a program it is that process. Requests come as pickles on standard input, and answers leave as pickles on
standard output.
"""

import dataclasses
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from core_doubles.codec import PlainCodec, settings_of
from core_doubles.memory_store import MemoryStore
from core_doubles.small_shares import small_shares
from core_doubles.told import told

from frontier_server.core.core import Core
from frontier_server.core.opening.shard import Shard
from frontier_server.core.rows.store import Changes
from frontier_server.service import core_kind
from tools.can_compile import lacks

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "build" / "native"
CORE = Path("frontier_server", "core")


def lacking() -> str:
    """Why there is no compiled core of these sources; empty if there is one."""
    if not any(NATIVE.glob("*.so")):
        return lacks() or "there is no compiled core in build/native: `make native` builds it"
    for file in (ROOT / CORE).rglob("*.py"):
        built = NATIVE / file.relative_to(ROOT)
        if not built.exists() or built.read_bytes() != file.read_bytes():
            return "the compiled core in build/native is of other sources: `make native` builds it anew"
    return ""


def environment(kind: str) -> dict[str, str]:
    """The environment of a Python that runs one build of the core, whatever this one runs."""
    ours = ("PYTHONPATH", "PYTHONSAFEPATH", "TOEHOLD_CORE")
    others = {name: text for name, text in os.environ.items() if name not in ours}
    if kind == "interpreted":
        return others
    path = os.pathsep.join(map(str, (NATIVE, ROOT / "tests")))
    return {**others, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", "TOEHOLD_CORE": kind}


class Sender(pickle.Pickler):
    """Sends dataclasses by their fields: a compiled one is not laid out as its interpreted twin."""

    def reducer_override(self, value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return type(value), tuple(getattr(value, field.name) for field in dataclasses.fields(value))
        return NotImplemented


class OtherBuild:
    """The process, seen from outside. Each request returns what `told` makes of the answer there."""

    def __init__(self, kind: str = "interpreted" if core_kind() == "compiled" else "compiled") -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-m", "core_doubles.other_build"),
            cwd=ROOT,
            env=environment(kind),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.kind = self._answer()
        assert self.kind == kind, f"asked for the {kind} core, got the {self.kind} one"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def begin(self) -> None:
        """Begin with an empty store."""
        self._ask("begin")

    def write(self, changes: Changes) -> None:
        """Write changes to the store."""
        self._ask("write", changes)

    def build(self, *shard: Any) -> None:
        """Build a core from the store. Takes what `Player.build` takes."""
        self._ask("build", *shard)

    def call(self, door: str, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
        """Call a method of the core; what it returned or raised."""
        return self._ask("call", door, method, arguments, named)

    def _ask(self, *request: Any) -> str:
        assert self._process.stdin is not None
        Sender(self._process.stdin).dump(request)
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        text: str = pickle.load(self._process.stdout)
        return text


class Player:
    """The process, seen from inside."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.store = MemoryStore()
        self.core: Core | None = None

    def write(self, changes: Changes) -> None:
        self.store.write(changes)

    def build(
        self,
        version: str,
        period_ms: int,
        now_ms: int,
        incarnation: int,
        heartbeat_ms: int,
        read_only: bool,
        check_dearly: bool,
    ) -> None:
        self.core = Core(
            Shard(
                self.store,
                PlainCodec(),
                settings_of,
                version,
                period_ms,
                now_ms,
                incarnation,
                heartbeat_ms=heartbeat_ms,
                read_only=read_only,
                check_dearly=check_dearly,
            )
        )

    def call(self, door: str, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        try:
            return getattr(getattr(self.core, door), method)(*arguments, **named)
        except Exception as problem:
            return problem


def main() -> None:
    answers = sys.stdout.buffer
    player = Player()
    pickle.dump(core_kind(), answers)
    answers.flush()
    with small_shares(), suppress(EOFError):
        while True:
            request, *arguments = pickle.load(sys.stdin.buffer)
            pickle.dump(told(getattr(player, request)(*arguments)), answers)
            answers.flush()


if __name__ == "__main__":
    main()
