"""robots.txt (RFC 9309): parses a body into rules, and asks the rules about a path.

One linear scan cuts a body to the group for our product token, with a bounded number of
rules; that group is stored. Parsing and matching are linear as well: no file of a host
can hold up the frontier.
"""

import re
from dataclasses import dataclass

MAX_BODY_BYTES = 500 * 1024  # RFC 9309, 2.5
MAX_RULES = 4000
MAX_RULE_CHARACTERS = 2048
MAX_WILDCARDS = 16  # in one rule
# A search for a part may compare each of its characters with each of a target's.
MAX_SOUGHT_CHARACTERS = 6000  # the longest searched part of each rule, all rules together
_LINE = re.compile(r"[ \t]*([A-Za-z-]+)[ \t]*:[ \t]*([^#\r\n]*)")


def group_for(body: bytes, product_token: str) -> str:
    """The rules for a product token, as lines `allow:`, `disallow:` and `crawl-delay:`.

    All groups that name the token are merged; if there is none, those of `*`. A group's
    name matches if its letters are the token's, whatever follows them (`toehold/1.0`).
    Rules beyond MAX_RULES are left out. If a rule is too long or has too many wildcards,
    a disallow is cut, and so forbids more, and an allow is left out.
    """
    text = body[:MAX_BODY_BYTES].decode("utf-8-sig", errors="replace")
    token = product_token.lower()
    own: list[str] = []
    others: list[str] = []
    named_own = False
    applies_own = applies_others = naming = False
    for line in re.split(r"\r\n|\n|\r", text):
        match = _LINE.match(line)
        if match is None:
            continue
        name, value = match[1].lower(), match[2].strip()
        if name in ("user-agent", "useragent"):
            if not naming:
                applies_own = applies_others = False
                naming = True
            agent = re.match(r"[a-z_-]*", value.lower())
            if value.startswith("*"):
                applies_others = True
            elif agent is not None and agent[0] == token:
                applies_own = named_own = True
        elif name in ("allow", "disallow"):
            naming = False
            if value:
                rule = _bounded(value)
                if rule == value or name == "disallow":
                    line = f"{name}:{_escaped(rule)}"
                    _take(line, own if applies_own else None, others if applies_others else None)
        elif name == "crawl-delay" and re.fullmatch(r"\d{1,9}(\.\d{1,9})?|\.\d{1,9}", value):
            # A Crawl-delay between two User-agent lines does not end the list of names.
            _take(f"{name}:{value}", own if applies_own else None, others if applies_others else None)
    return "\n".join(own if named_own else others)


_UNWANTED_END = re.compile(r"(?:\$|[0-9A-Fa-f]?%)*+")  # backwards: an anchor, or half of an escape


def _bounded(pattern: str) -> str:
    """A rule's pattern. If it is too long or has too many wildcards, it is cut to a prefix of its meaning."""
    pieces = pattern.split("*", MAX_WILDCARDS + 1)
    cut = "*".join(pieces[: MAX_WILDCARDS + 1])[:MAX_RULE_CHARACTERS]
    if cut == pattern:
        return pattern
    unwanted = _UNWANTED_END.match(cut[::-1])  # backwards: a forward search takes quadratic time
    return cut[: len(cut) - (unwanted.end() if unwanted is not None else 0)]


def _take(line: str, *groups: list[str] | None) -> None:
    for group in groups:
        if group is not None and len(group) < MAX_RULES:
            group.append(line)


_UNSAFE = re.compile(r"[^\x21-\x7e]")


def _escaped(pattern: str) -> str:
    """A rule with the escapes of a canonical URI's path (RFC 9309, 2.2.2)."""
    return _UNSAFE.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")), pattern
    )


_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")


# Characters that mean the same with and without escape. An escaped `/`, `?`, `#` or `%` means another one.
_SAME_ESCAPED = frozenset("-._~!$&'()*+,:;=@")


def _normal(text: str) -> str:
    """A text with percent escapes decoded if they make no difference, and in upper case if they do."""
    if "%" not in text:
        return text

    def unescape(match: re.Match[str]) -> str:
        character = chr(int(match[1], 16))
        same = character.isascii() and (character.isalnum() or character in _SAME_ESCAPED)
        return character if same else match[0].upper()

    return _PERCENT.sub(unescape, text)


@dataclass(frozen=True, slots=True)
class Rule:
    """One allow or disallow line, its pattern split at the wildcards."""

    allow: bool
    length: int
    parts: tuple[str, ...]
    anchored: bool  # the pattern ended in `$`

    def matches(self, target: str) -> bool:
        """Whether the rule applies to a path and query. Linear: each part is searched once, leftmost."""
        if not target.startswith(self.parts[0]):
            return False
        at = len(self.parts[0])
        if len(self.parts) == 1:
            return not self.anchored or at == len(target)
        middle, last = self.parts[1:-1], self.parts[-1]
        for part in middle:
            found = target.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        if self.anchored:
            return len(target) - len(last) >= at and target.endswith(last)
        return target.find(last, at) >= 0


class Rules:
    """The rules that apply to us at one host."""

    __slots__ = ("_rules", "crawl_delay_ms", "weight")

    def __init__(self, group: str) -> None:
        rules: list[Rule] = []
        sought = 0
        self.crawl_delay_ms = 0
        for line in group.split("\n"):
            name, _, value = line.partition(":")
            if name == "crawl-delay":
                self.crawl_delay_ms = max(self.crawl_delay_ms, int(float(value) * 1000))
            elif value:
                # Split at wildcards first: an escaped `*` or `$` is an ordinary character.
                anchored = value.endswith("$")
                parts = tuple(map(_normal, (value[:-1] if anchored else value).split("*")))
                length = sum(map(len, parts)) + len(parts) - 1 + anchored
                sought += max(map(len, parts[1:]), default=0)
                if sought > MAX_SOUGHT_CHARACTERS and len(parts) > 1:
                    # The search costs too much: leave out an allow, and cut a disallow at its wildcard.
                    if name == "allow":
                        continue
                    parts, anchored = parts[:1], False
                rules.append(Rule(name == "allow", length, parts, anchored))
        # The longest pattern wins, allow before disallow (RFC 9309, 2.2.2): the
        # first one that matches decides.
        self._rules = sorted(rules, key=lambda rule: (-rule.length, not rule.allow))
        # The cost of one question, in tenths of a microsecond or so.
        self.weight = sum(sum(map(len, rule.parts[1:])) + 1 for rule in rules)

    def allows(self, target: str) -> bool:
        """Whether a path and query may be fetched. `/robots.txt` may always be."""
        if not self._rules or target == "/robots.txt":
            return True
        target = _normal(target) or "/"
        for rule in self._rules:
            if rule.matches(target):
                return rule.allow
        return True
