"""Reads a Containerfile strictly: what it does not know is an error, so that a test overlooks nothing."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

KNOWN = {
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "RUN",
    "USER",
    "WORKDIR",
}
"""The instructions that a Containerfile of ours may have."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A COPY: from the context, or from an earlier stage."""

    sources: Sequence[str]
    target: str
    stage: str = ""


@dataclass(slots=True)
class Stage:
    """A stage: its name, its base image, and its instructions with their texts, in order."""

    name: str
    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def texts(self, instruction: str) -> list[str]:
        """The texts of an instruction, in order."""
        return [text for name, text in self.steps if name == instruction]

    @property
    def copies(self) -> list[Copy]:
        """The copies that go into it."""
        return [_copy(text) for text in self.texts("COPY")]

    @property
    def environment(self) -> dict[str, str]:
        """Its ENV."""
        words = [word for text in self.texts("ENV") for word in shlex.split(text)]
        return dict(word.split("=", 1) for word in words)


def read(path: Path) -> list[Stage]:
    """The stages of a Containerfile. ValueError for an instruction that is not KNOWN."""
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for line in _joined(path.read_text()):
        instruction, _, text = line.partition(" ")
        if instruction not in KNOWN:
            raise ValueError(f"an instruction must be one of {', '.join(sorted(KNOWN))}, got {instruction!r}")
        if instruction == "FROM":
            base, _, name = text.partition(" AS ")
            stages.append(Stage(name, re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], base)))
        elif stages:
            stages[-1].steps.append((instruction, text))
        else:
            name, _, value = text.partition("=")
            arguments[name] = value
    return stages


def command(text: str) -> list[str]:
    """The words of a CMD, ENTRYPOINT or HEALTHCHECK, which has the form of a list: no shell reads it."""
    words = json.loads(text[text.index("[") :])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"a command must be a list of words, got {text!r}")
    return words


def _joined(text: str) -> list[str]:
    """The lines, without comments; a line that ends with a backslash goes on."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [line.strip() for line in whole.splitlines() if line.strip()]


def _copy(text: str) -> Copy:
    words = shlex.split(text)
    options = [word for word in words if word.startswith("--")]
    stages = [option.removeprefix("--from=") for option in options if option.startswith("--from=")]
    if len(stages) != len(options):
        raise ValueError(f"COPY must have no option but --from, got {text!r}")
    *sources, target = [word for word in words if not word.startswith("--")]
    return Copy(sources, target, stages[0] if stages else "")
