"""Patterns in RE2's syntax: the time of a match is proportional to the text, whatever the pattern.

RE2 lacks look-around, back-references and possessive quantifiers; a pattern with one of them
is refused with its place. Syntax: https://github.com/google/re2/wiki/Syntax
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import re2

MAX_PATTERN_CHARACTERS = 4096
MAX_REPLACEMENT_CHARACTERS = 1000
MAX_REPLACED = 100
"""Matches that a rewrite replaces in a text; each may cost as much as the whole text."""
MAX_PATTERN_MEMORY = 256 * 1024
"""Bytes that RE2 may use for a pattern: enough for 4096 characters of plain alternatives,
and small enough for a thousand patterns."""
PATTERNS_AT_ONCE = 32
MAX_MEMORY_AT_ONCE = 2 * 1024 * 1024
"""Bytes for so many patterns in one: with less, RE2 drops its cached states, and is slow."""
MAX_TRIES = 8  # to find the place of a problem

_REFERENCE = re.compile(r"\\(.?)", re.DOTALL)
_GROUPS = frozenset("123456789")


class BadPattern(ValueError):
    """RE2 refuses the pattern; the message says why and where."""


class BadReplacement(ValueError):
    """A rewrite's replacement refers to a missing group."""


class Match(Protocol):
    """A match (the part of re2's untyped class that is used here)."""

    def start(self) -> int:
        """Where it begins."""

    def end(self) -> int:
        """Where it ends."""

    def group(self, number: int, /) -> str | None:
        """The text of a group; None if the group took no part."""


class Pattern(Protocol):
    """A compiled pattern (likewise)."""

    @property
    def groups(self) -> int:
        """How many groups it captures."""

    def fullmatch(self, text: str, /) -> Match | None:
        """Match a whole text."""

    def search(self, text: str, /) -> Match | None:
        """The first match in a text."""

    def finditer(self, text: str, /) -> Iterator[Match]:
        """All matches in a text, from left to right, without overlap."""


def compile_pattern(text: str, captures: bool = False) -> Pattern:
    """Compile a pattern. Raises BadPattern.

    Without `captures` groups capture no text, which makes matching cheap.
    """
    if not text:
        raise BadPattern("it is empty")
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise BadPattern(f"it must have at most {MAX_PATTERN_CHARACTERS} characters, got {len(text)}")
    compiled, problem = _compiled(text, captures)
    if compiled is None:
        raise BadPattern(_explained(text, problem))
    return compiled


def full_match(pattern: Pattern, text: str) -> bool:
    """Whether a pattern matches a whole text."""
    return pattern.fullmatch(text) is not None


class PatternList:
    """Finds the first of many patterns that matches; most texts match none.

    PATTERNS_AT_ONCE are first tried as one, which costs hardly more than one of them.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Raises BadPattern."""
        self._parts: list[tuple[int, Pattern | None, list[Pattern]]] = []
        for start in range(0, len(texts), PATTERNS_AT_ONCE):
            part = texts[start : start + PATTERNS_AT_ONCE]
            self._parts.append((start, _any_of(part), [compile_pattern(text) for text in part]))

    def first(self, text: str) -> int | None:
        """The place in the list of the first pattern that matches a whole text."""
        for start, any_of, patterns in self._parts:
            if any_of is not None and not full_match(any_of, text):
                continue
            for place, pattern in enumerate(patterns, start):
                if full_match(pattern, text):
                    return place
        return None

    def __len__(self) -> int:
        return sum(len(patterns) for _, _, patterns in self._parts)


def compile_rewrite(pattern: str, replacement: str, most: int) -> Callable[[str], str]:
    r"""A function that replaces the matches of a pattern, up to MAX_REPLACED.

    In the replacement `\1` to `\9` are the groups, and `\\` is a backslash. A text that would
    become longer than `most` characters stays as it is. Raises BadPattern or BadReplacement.
    """
    compiled = compile_pattern(pattern, captures=True)
    pieces = _pieces(replacement, compiled.groups)

    def rewritten(text: str) -> str:
        parts: list[str] = []
        length = end = 0
        for match in islice(compiled.finditer(text), MAX_REPLACED):
            parts.append(text[end : match.start()])
            parts += [piece if isinstance(piece, str) else match.group(piece) or "" for piece in pieces]
            length += sum(map(len, parts[-len(pieces) - 1 :]))
            if length > most:
                return text
            end = match.end()
        parts.append(text[end:])
        return "".join(parts) if length + len(parts[-1]) <= most else text

    return rewritten


def compile_rewrites(rewrites: Sequence[tuple[str, str]], most: int) -> Callable[[str], str]:
    """A function that applies rewrites (pattern and replacement), one after the other.

    Most texts match none: PATTERNS_AT_ONCE patterns are first tried as one.
    """
    parts = [
        (_any_of([pattern for pattern, _ in part]), [compile_rewrite(*each, most) for each in part])
        for part in (
            rewrites[start : start + PATTERNS_AT_ONCE] for start in range(0, len(rewrites), PATTERNS_AT_ONCE)
        )
    ]

    def rewritten(text: str) -> str:
        for any_of, part in parts:
            if any_of is None or any_of.search(text) is not None:
                for each in part:
                    text = each(text)
        return text

    return rewritten


def _any_of(texts: Sequence[str]) -> Pattern | None:
    r"""A pattern that matches if one of several does; None if they cannot be combined.

    Then they are too large together, have groups of the same name, or have a quotation
    (`\Q`), which may end outside its pattern.
    """
    if any(r"\Q" in text for text in texts):
        return None
    return _compiled("|".join(f"(?:{text})" for text in texts), memory=MAX_MEMORY_AT_ONCE)[0]


def _compiled(
    text: str, captures: bool = False, memory: int = MAX_PATTERN_MEMORY
) -> tuple[Pattern | None, str]:
    """The compiled pattern, or None and RE2's error."""
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False
    options.never_capture = not captures
    try:
        compiled: Pattern = re2.compile(text, options)
    except UnicodeEncodeError:
        return None, "half a surrogate pair, which is not a character"
    except re2.error as problem:
        said = problem.args[0]
        return None, said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return compiled, ""


def _explained(text: str, problem: str) -> str:
    """RE2's reason with its place: RE2 names the fragment, but not where it stands."""
    reason, _, fragment = problem.partition(": ")
    if reason == "missing )":
        return f"missing ) at the end, after {len(text)} characters"
    unexpected = reason == "unexpected )"
    if unexpected:
        fragment = ")"
    start = text.find(fragment) if fragment else -1
    for _ in range(MAX_TRIES):
        if start < 0:
            break
        # Skip a fragment that is escaped or in a class: RE2 accepts it.
        before = _compiled(text[:start])[1]
        complete = not before or (before.startswith("missing )") and not unexpected)
        if complete or _compiled(text[: start + len(fragment)])[1].startswith(reason):
            return f"{reason} at character {start + 1}: {fragment[:80]}"
        start = text.find(fragment, start + 1)
    return problem[:200]


def _pieces(replacement: str, groups: int) -> list[str | int]:
    """A replacement as texts and numbers of groups."""
    if len(replacement) > MAX_REPLACEMENT_CHARACTERS:
        raise BadReplacement(
            f"it must have at most {MAX_REPLACEMENT_CHARACTERS} characters, got {len(replacement)}"
        )
    pieces: list[str | int] = []
    end = 0
    for reference in _REFERENCE.finditer(replacement):
        pieces.append(replacement[end : reference.start()])
        end = reference.end()
        named = reference[1]
        if named == "\\":
            pieces.append(named)
        elif named not in _GROUPS:
            raise BadReplacement(rf"an escape must be \1 to \9 or \\, got \{named}")
        elif int(named) > groups:
            raise BadReplacement(rf"\{named} is not a group of the pattern, which has {groups}")
        else:
            pieces.append(int(named))
    pieces.append(replacement[end:])
    return pieces
