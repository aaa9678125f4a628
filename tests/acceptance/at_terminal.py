"""What a terminal of 80x24 shows: pictures that were drawn over each other, and lines that stay."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from acceptance.programs import Programs
from acceptance.terminal import Terminal
from frontier_harness.waiting import PATIENCE_S, eventually
from rich.cells import cell_len

COLUMNS, LINES = 80, 24

_NEW_PICTURE = re.compile(r"\x1b\[H|\r(?:\x1b\[2K)?(?:\x1b\[1A\x1b\[2K)+")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@contextmanager
def terminal_of(programs: Programs) -> Iterator[Terminal]:
    """A terminal of 80x24 within the context."""
    with Terminal(programs) as terminal:
        terminal.resize(COLUMNS, LINES)
        yield terminal


def plain(shown: str) -> str:
    """All that was written to a terminal, as lines, without what moves its cursor and paints."""
    return _CONTROL.sub("", _NEW_PICTURE.sub("\n", shown).replace("\r\n", "\n").replace("\r", "\n"))


def squeezed(text: str) -> str:
    """Text on one line, so that a sentence is found however it was wrapped."""
    return " ".join(text.split())


def until_told(shown: Callable[[], str], *sentences: str, within_s: float = PATIENCE_S) -> None:
    """Waits until all these sentences (regular expressions) were told, on one line or several."""
    for sentence in sentences:
        eventually(partial(_is_told, shown, sentence), sentence, within_s)


def _is_told(shown: Callable[[], str], sentence: str) -> bool:
    return re.search(sentence, squeezed(shown())) is not None


def check_fits(shown: str) -> None:
    """Asserts that no line is wider than the terminal, and that no sentence was cut: URLs and keys of queues
    may lose their middle, but nothing ends with an ellipsis, except for the arguments in a usage line.
    """
    for line in plain(shown).splitlines():
        assert cell_len(line) <= COLUMNS, line
        assert not re.search(r"[^A-Z]…$", line.rstrip()), line
