"""A shell that plays each operation on both builds of the core, and compares their answers and changes."""

from collections.abc import Callable
from typing import Any, cast

from core_doubles.memory_store import MemoryStore
from core_doubles.other_build import OtherBuild
from core_doubles.shell import VERSION, CheckedShell
from core_doubles.told import difference, told

from frontier_server.core.core import Core
from frontier_server.core.rows.store import Changes

DOORS = ("frontier", "control", "administration", "views", "history", "nodes", "measures", "upkeep")


class BothStores(MemoryStore):
    """A store here, whose changes the other process writes, too."""

    def __init__(self, other: OtherBuild) -> None:
        super().__init__()
        self._other = other

    def write(self, changes: Changes) -> None:
        """Apply a change list in both."""
        super().write(changes)
        self._other.write(changes)


class Noted:
    """A function that a caller hands in. It notes its results, and in the other process repeats them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Callable[..., Any] | None = function
        self.results: list[tuple[str, Any]] = []

    def __call__(self, *arguments: Any) -> Any:
        if self.function is None:
            asked, result = self.results.pop(0)
            assert asked == told(arguments), "the other build hands in something else"
        else:
            try:
                result = self.function(*arguments)
            except Exception as problem:
                result = problem
            self.results.append((told(arguments), result))
        if isinstance(result, Exception):
            raise result
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {"function": None, "results": self.results}


class BothDoors:
    """One door of the core. Its methods are called in both processes."""

    def __init__(self, name: str, door: Any, other: OtherBuild) -> None:
        self._name, self._door, self._other = name, door, other

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._door, name)
        if not callable(method):
            return method

        def call(*arguments: Any, **named: Any) -> Any:
            sent = tuple(Noted(each) if callable(each) else each for each in arguments)
            try:
                answer = method(*sent, **named)
            except Exception as problem:
                self._compare(name, problem, sent, named)
                raise
            self._compare(name, answer, sent, named)
            return answer

        return call

    def _compare(self, name: str, ours: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        here, there = told(ours), self._other.call(self._name, name, arguments, named)
        assert here == there, f"the builds differ in {self._name}.{name}, {difference(here, there)}"


class BothCores:
    """The core here, behind doors to both."""

    def __init__(self, core: Core, other: OtherBuild) -> None:
        self.shard = core.shard
        for name in DOORS:
            setattr(self, name, BothDoors(name, getattr(core, name), other))


class BothShells(CheckedShell):
    """A shell whose operations are played on both builds."""

    def __init__(self, other: OtherBuild) -> None:
        self._other = other
        other.begin()
        super().__init__(BothStores(other))
        self._build_there()

    def restart(self) -> None:
        """Build memory anew from the stores."""
        super().restart()
        self._build_there()

    def _build_there(self) -> None:
        start = self.period_ms, self.now_ms, self.incarnation
        self._other.build(VERSION, *start, self.heartbeat_ms, self.read_only, self.check_dearly)
        self.core = cast("Core", BothCores(self.core, self._other))
