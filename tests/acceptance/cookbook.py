"""The cookbook as a program reads it: its tasks, their commands, and what it says that one sees."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook.md"

_TASK = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^# (\S+)\n")
_NUMBER = re.compile(r"\d+(?:\\ \d{3})*")
_LONG_GAP = re.compile(r"(?:\\ ){2,}|-{3,}|─{3,}")


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the cookbook, and the lines below it."""

    command: str
    shown: tuple[str, ...]
    interrupted: bool
    """Whether the first of those lines is Ctrl-C."""

    def unseen(self, said: str) -> list[str]:
        """The lines that it shows and that are not among those that the command said.

        Any number stands for any other, any wide gap for any other, and `…` for any text.
        """
        lines = said.splitlines()
        return [line for line in self.shown if not any(map(_pattern(line).fullmatch, lines))]


@dataclass(frozen=True, slots=True)
class Task:
    """A section of the cookbook."""

    title: str
    steps: tuple[Step, ...]
    files: dict[str, str]
    """Files that it asks the reader to write: each a block that begins with the file's name in a comment."""


def tasks() -> dict[str, Task]:
    """The cookbook's tasks, in its order, by their titles."""
    parts = _TASK.split(COOKBOOK.read_text())[1:]
    return {title: _task(title, text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


def _task(title: str, text: str) -> Task:
    steps: list[Step] = []
    files = {}
    for language, content in _BLOCK.findall(text):
        if language == "console":
            steps += _steps(content)
        else:
            name = _FILE.match(content)
            assert name, f"{title}: the first line of a block of {language} is a comment with its file's name"
            files[name[1]] = content
    return Task(title, tuple(steps), files)


def _steps(content: str) -> Iterator[Step]:
    for text in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
        command, _, rest = text.replace("\\\n", "").partition("\n")
        shown = rest.splitlines()
        interrupted = shown[:1] == ["^C"]
        yield Step(command, tuple(shown[interrupted:]), interrupted)


def _pattern(line: str) -> re.Pattern[str]:
    text = _NUMBER.sub(r"\\d+(?: \\d{3})*", re.escape(line.rstrip()))
    return re.compile(_LONG_GAP.sub(r"\\s+", text).replace("…", ".*") + r"\s*")
