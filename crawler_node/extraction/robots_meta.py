"""A page's rules for robots: `<meta name="robots">` and the X-Robots-Tag header.

Only `nofollow` and `none` matter here. If several rules are for us, the strictest one holds.
"""

from collections.abc import Iterable

_MAX_CHARS = 4096
_FORBID = frozenset({"nofollow", "none"})
_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


def meta_forbids(name: str, content: str, product_token: str) -> bool:
    """Whether a `<meta>` for all robots or for us forbids following the page's links."""
    return _is_us(name, product_token) and any(rule in _FORBID for rule in _rules(content))


def header_forbids(values: Iterable[str], product_token: str) -> bool:
    """Whether X-Robots-Tag headers forbid it. In `agent: rule, rule` rules are for the agent before them."""
    for value in values:
        agent = "robots"
        for rule in _rules(value):
            name, colon, rest = rule.partition(":")
            if colon and name.strip() not in _WITH_VALUE:
                agent, rule = name, rest.strip()
            if rule in _FORBID and _is_us(agent, product_token):
                return True
    return False


def _is_us(agent: str, product_token: str) -> bool:
    return agent.strip().lower() in ("robots", "*", product_token.lower())


def _rules(text: str) -> list[str]:
    return [rule.strip() for rule in text[:_MAX_CHARS].lower().split(",")]
