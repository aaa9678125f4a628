"""robots.txt (RFC 9309): parses a body into rules, and asks the rules about a path.

One linear scan cuts a body to the group for our product token, with a bounded number of
rules; that group is stored as it was written. Parsing and matching are linear as well: no
file of a host can hold up the frontier.
"""

import re
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import NamedTuple

MAX_BODY_BYTES = 500 * 1024  # RFC 9309, 2.5
MAX_RULES = 4000
MAX_RULE_CHARACTERS = 2048
MAX_WILDCARDS = 16  # in one rule
# A search for a part may compare each of its characters with each of a target's.
MAX_SOUGHT_CHARACTERS = 6000  # the longest searched part of each rule, all rules together
# A name, whatever follows it; then a colon, or blanks before the only word. Google's parser takes all these.
_LINE = re.compile(
    r"[ \t\ufeff]*+(?:(?P<agent>user[- ]?agent)|(?P<allow>allow)|(?P<delay>crawl[- ]?delay)"
    r"|(?P<disallow>disallow|dissallow|dissalow|disalow|diasllow|disallaw))"
    r"(?:[^\s:#]*+[ \t]*+:|[^\s:#]*+[ \t]++(?=[^\s#]++[ \t]*+(?:#|\Z))|[^:#]*+:)(?P<value>[^#]*+)",
    re.IGNORECASE,
)


def group_for(body: bytes, product_token: str) -> str:
    """The rules for a product token, as lines `allow:`, `disallow:` and `crawl-delay:`.

    All groups that name the token are merged; if there is none, those of `*`. A group's
    name matches if its letters are the token's, whatever follows them (`toehold/1.0`).
    Misspellings that Google's parser takes count as well: `User agent:`, `Dissalow:`,
    `Disallowed:`, `Disallow /a`. Rules beyond MAX_RULES are left out. If a rule is too long
    or has too many wildcards, a disallow is cut, and so forbids more, and an allow is left out.
    """
    text = body[:MAX_BODY_BYTES].decode(errors="surrogateescape")
    token = product_token.lower()
    own: list[str] = []
    others: list[str] = []
    named_own = False
    applies_own = applies_others = naming = False
    for line in re.split(r"\r\n|\n|\r", text):
        match = _LINE.match(line)
        if match is None:
            continue
        value = match["value"].strip()
        if match["agent"]:
            if not naming:
                applies_own = applies_others = False
                naming = True
            agent = re.match(r"[a-z_-]*", value.lower())
            if value.startswith("*"):
                applies_others = True
            elif agent is not None and agent[0] == token:
                applies_own = named_own = True
        elif match["delay"]:
            # A Crawl-delay between two User-agent lines does not end the list of names.
            if re.fullmatch(r"\d{1,9}(\.\d{1,9})?|\.\d{1,9}", value):
                line = f"crawl-delay:{value}"
                _take(line, own if applies_own else None, others if applies_others else None)
        else:
            naming = False
            if value:
                rule = _bounded(value)
                if rule == value or not match["allow"]:
                    line = f"{'allow' if match['allow'] else 'disallow'}:{_printable(rule)}"
                    _take(line, own if applies_own else None, others if applies_others else None)
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


_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")


def _printable(pattern: str) -> str:
    """A rule whose blanks, control characters and octets beyond ASCII are escaped, valid UTF-8 or not."""
    return _UNPRINTABLE.sub(lambda match: _escaped(match[0]), pattern)


def _escaped(character: str) -> str:
    return "".join(f"%{octet:02X}" for octet in character.encode("utf-8", "surrogateescape"))


# RFC 9309, 2.2.2, compares texts in which each character has one form. Ours escapes all characters but the
# unreserved and reserved ones of RFC 3986. An escaped `/` or `?` of a path is a character of a name, not a
# delimiter, and remains escaped; in a query these two delimit nothing.
_UNESCAPED_IN_QUERIES = frozenset(ascii_letters + digits + "-._~" + "!$&'()*+,;=" + ":@[]" + "/?")
_UNESCAPED_IN_PATHS = _UNESCAPED_IN_QUERIES - frozenset("/?")
_PLAIN = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@\[\]/?-]*+").fullmatch
_ODD = re.compile(r"%([0-9A-Fa-f]{2})|[^A-Za-z0-9._~!$&'()*+,;=:@\[\]/?-]")


def _one_form(text: str, unescaped: frozenset[str]) -> str:
    """A text in which each character has one form: escaped in upper case, unless it is `unescaped`."""

    def form(match: re.Match[str]) -> str:
        if match[1] is None:
            return _escaped(match[0])  # also the `%` of what is no escape
        character = chr(int(match[1], 16))
        return character if character in unescaped else match[0].upper()

    return _ODD.sub(form, text)


def _as_in_path(text: str) -> str:
    """The form of a path and query, or of a rule's part that may begin in a path."""
    if _PLAIN(text):
        return text
    path, mark, query = text.partition("?")
    return _one_form(path, _UNESCAPED_IN_PATHS) + mark + _one_form(query, _UNESCAPED_IN_QUERIES)


class RulePart(NamedTuple):
    """A piece of a rule between wildcards, as it stands in a path and in a query."""

    in_path: str
    in_query: str

    def find(self, target: str, query_at: int, start: int) -> int:
        """Where the part ends in a target, leftmost from `start`; -1 if it is not there."""
        at = target.find(self.in_path, start)
        if at >= 0:
            return at + len(self.in_path)
        if self.in_query != self.in_path:
            at = target.find(self.in_query, max(start, query_at))
        return at + len(self.in_query) if at >= 0 else -1

    def ends(self, target: str, query_at: int, start: int) -> bool:
        """Whether a target ends in the part, and the part begins at `start` or later."""
        if target.endswith(self.in_path) and len(target) - len(self.in_path) >= start:
            return True
        return target.endswith(self.in_query) and len(target) - len(self.in_query) >= max(start, query_at)


_BEGUN_ESCAPE = re.compile(r"%[0-9A-Fa-f]?\Z")
_ONE_DIGIT = re.compile(r"%[0-9A-Fa-f](?:\*|\Z)")


def _parts(pattern: str, anchored: bool, begun: bool) -> tuple[RulePart, ...]:
    """The parts of a pattern. `begun`: a part's `%` or `%4` at its end is the beginning of any such escape.

    They are split first: an escaped `*` or `$` is an ordinary character.
    """
    parts: list[RulePart] = []
    texts = pattern.split("*")
    in_query = False
    for place, text in enumerate(texts, 1):
        last = _BEGUN_ESCAPE.search(text) if begun and not (anchored and place == len(texts)) else None
        end = last[0].upper() if last is not None else ""
        text = text[: len(text) - len(end)]
        as_in_query = _one_form(text, _UNESCAPED_IN_QUERIES) + end
        parts.append(RulePart(as_in_query if in_query else _as_in_path(text) + end, as_in_query))
        in_query = in_query or "?" in text
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Rule:
    """One allow or disallow line, its pattern split at the wildcards."""

    allow: bool
    length: int
    parts: tuple[RulePart, ...]
    anchored: bool  # the pattern ended in `$`

    def matches(self, target: str, query_at: int) -> bool:
        """Whether the rule applies to a path and query. Linear: each part is searched leftmost, once
        in either form."""
        first = self.parts[0].in_path
        if not target.startswith(first):
            return False
        at = len(first)
        if len(self.parts) == 1:
            return not self.anchored or at == len(target)
        for part in self.parts[1:-1]:
            at = part.find(target, query_at, at)
            if at < 0:
                return False
        if self.anchored:
            return self.parts[-1].ends(target, query_at, at)
        return self.parts[-1].find(target, query_at, at) >= 0


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
                anchored = value.endswith("$")
                pattern = value[:-1] if anchored else value
                spellings = [_parts(pattern, anchored, True)]
                if _ONE_DIGIT.search(pattern) is not None:
                    spellings.append(_parts(pattern, anchored, False))
                for parts in spellings:
                    rule = Rule(name == "allow", _length(parts) + anchored, parts, anchored)
                    sought += max(map(_sought, parts[1:]), default=0)
                    if sought > MAX_SOUGHT_CHARACTERS and len(parts) > 1:
                        # The search costs too much: leave out an allow, and cut a disallow at its wildcard.
                        if rule.allow:
                            continue
                        rule = Rule(False, rule.length, parts[:1], False)
                    rules.append(rule)
        # The longest pattern wins, allow before disallow (RFC 9309, 2.2.2): the
        # first one that matches decides.
        self._rules = sorted(rules, key=lambda rule: (-rule.length, not rule.allow))
        # The cost of one question, in tenths of a microsecond or so.
        self.weight = sum(sum(map(_sought, rule.parts[1:])) + 1 for rule in rules)

    def allows(self, target: str) -> bool:
        """Whether a path and query may be fetched. `/robots.txt` may always be."""
        if not self._rules or target == "/robots.txt":
            return True
        target = _as_in_path(target) or "/"
        query_at = target.find("?") + 1 or len(target)
        for rule in self._rules:
            if rule.matches(target, query_at):
                return rule.allow
        return True


def _length(parts: tuple[RulePart, ...]) -> int:
    """The length of a pattern by which rules are ranked."""
    return sum(len(part.in_path) for part in parts) + len(parts) - 1


def _sought(part: RulePart) -> int:
    """How many characters a search for a part compares with each of a target's."""
    return len(part.in_path) + (len(part.in_query) if part.in_query != part.in_path else 0)
