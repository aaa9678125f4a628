"""Target: a parser of foreign text, as it is fuzzed: what is given to it, and what it may say."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeAlias

Said: TypeAlias = Hashable
"""What a parser made of an input, in short: an input with a new one is worth keeping."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parser.

    `run` gives it an input, and raises what the parser must not: any exception but `refusals`, which are
    those that it documents; or an AssertionError, where the answer breaks a promise. `seeds` are honest
    inputs; `words` mean something to the parser. `sources` are parts of the paths of files whose lines count
    as reached. `most_bytes` is the longest input that it is given in earnest.
    """

    name: str
    run: Callable[[bytes], Said]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    refusals: tuple[type[Exception], ...] = ()
    sources: tuple[str, ...] = ("/frontier_server/", "/crawler_node/", "/toehold_client/")
    most_bytes: int = 512 * 1024

    def said(self, data: bytes) -> Said:
        """What the parser says of an input. Raises what it must not raise."""
        try:
            return self.run(data)
        except self.refusals as refusal:
            return type(refusal).__name__


def text_of(data: bytes) -> str:
    """An input as text: bytes that are not UTF-8 become lone surrogates, as in Python's own texts."""
    return data.decode("utf-8", "surrogateescape")


def encodable(data: bytes) -> str:
    """An input as text that can be written in UTF-8, as what comes over gRPC always can."""
    return data.decode("utf-8", "replace")
