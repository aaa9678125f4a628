"""Which lines a call reaches, in which order: an input that goes a new way is worth keeping.

Python's own tracing, so that it works on every version and machine. What libraries in C do is not seen;
what a parser says of an input stands for it (`target.Said`).
"""

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeAlias

Way: TypeAlias = tuple[str, str, int, int]
"""A step from a line to another: file, function, and both lines."""


class Reached:
    """Watches calls, and gathers their ways."""

    def __init__(self, sources: tuple[str, ...]) -> None:
        self._sources = sources
        self._watched: dict[CodeType, bool] = {}
        self.ways: set[Way] = set()

    def watch(self, call: Callable[[], Any]) -> Any:
        """What a call answers; its ways are those of `ways` that were not there before."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return call()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        watched = self._watched.get(code)
        if watched is None:
            watched = any(part in code.co_filename for part in self._sources)
            self._watched[code] = watched
        if not watched:
            return None
        last = 0
        ways = self.ways

        def step(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            if event == "line":
                line = frame.f_lineno
                ways.add((code.co_filename, code.co_qualname, last, line))
                last = line
            return step

        return step
