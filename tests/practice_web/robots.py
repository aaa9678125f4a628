"""What every origin's robots.txt says, and a small judge of it (RFC 9309) that shares no code with what is
tested.
"""

import re
from dataclasses import dataclass

from practice_web.reply import Reply, redirect

AGENT = "toehold"
"""The product token by which a robots.txt may address the crawler; `theta` lets in nobody else."""

PATH = "/robots.txt"


@dataclass(frozen=True, slots=True)
class Robots:
    """One origin's robots.txt: the answer, the hops (authored URLs) that lead to it, and the Crawl-delay it
    asks for.
    """

    status: int = 404
    text: str = ""
    hops: tuple[str, ...] = ()
    crawl_delay_s: float = 0.0
    encoding: str | None = None


_NO_MEMBERS = "User-agent: *\nDisallow: /members/\n"

_RULES = """\
# Longest match wins, Allow wins a tie, * stands for anything, $ for the end.
User-agent: *
Disallow: /private/
Allow: /private/open.html
Disallow: /*.cgi$
Disallow: /search?*q=
Allow: /search?*q=allowed
Disallow: /deep/*/secret
Disallow: /exact$
Disallow: /caf%C3%A9/
Sitemap: http://rules.rho.example/sitemap.xml
"""

_HOPS = tuple(f"http://xn--bcher-kva.example/moved-robots/{n}" for n in (1, 2, 3))
_ELSEWHERE = "http://rules.rho.example/shared/robots.txt"

ROBOTS: dict[str, Robots] = {
    "alpha": Robots(404),
    "beta": Robots(200, ""),
    "gamma": Robots(200, "User-agent: *\nDisallow:\n"),
    "delta": Robots(403, "User-agent: *\nDisallow: /\n"),
    "epsilon": Robots(200, _NO_MEMBERS, encoding="gzip"),
    "zeta": Robots(
        200, "\ufeff# BOM, CRLF, odd case\r\n\r\nuser-AGENT : *\r\nDISALLOW:/members/  # not yours\r\n"
    ),
    "eta": Robots(200, _NO_MEMBERS + "# nothing more to say\n" * 28_000),
    "theta": Robots(
        200,
        "User-agent: otherbot\nDisallow: /\n\n"
        "User-agent: thirdbot\nUser-agent: Toehold\nDisallow: /members/\n\n"
        "User-agent: *\nDisallow: /\n",
    ),
    "theta-plain": Robots(404),
    "iota": Robots(200, "User-agent: *\nDisallow: /private/\n"),
    "kappa": Robots(404),
    "lambda": Robots(404),
    "mu": Robots(404),
    "nu": Robots(200, "User-agent: *\nCrawl-delay: 0.5\nDisallow: /private/\n", crawl_delay_s=0.5),
    "xi": Robots(503, "Closed for repairs."),
    "omicron": Robots(200, "User-agent: *\nDisallow: /private/\n", hops=_HOPS),
    "pi": Robots(200, "User-agent: *\nDisallow: /private/\n", hops=(_ELSEWHERE,)),
    "rho": Robots(200, _RULES),
}
"""By the origin's key. `eta`'s is longer than the 500 KiB that a crawler must read."""

HOPS: frozenset[str] = frozenset(hop for entry in ROBOTS.values() for hop in entry.hops)
"""Authored URLs that are asked for only inside the retrieval of a robots.txt."""


def allows(key: str, target: str) -> bool:
    """Whether robots.txt lets the crawler ask the origin of that key for this request target."""
    entry = ROBOTS[key]
    if target == PATH:
        return True
    if entry.status >= 500:
        return False
    if entry.status >= 400:
        return True
    best = (0, True)
    for allow, pattern in _rules(entry.text):
        regex = ".*".join(re.escape(part) for part in pattern.removesuffix("$").split("*"))
        if re.match(regex + ("$" if pattern.endswith("$") else ""), target):
            best = max(best, (len(pattern), allow))
    return best[1]


def reply(key: str, target: str) -> Reply | None:
    """The answer to a path of robots.txt, or of a hop on the way to one; None for every other path."""
    if target == PATH:
        entry = ROBOTS[key]
        return redirect(entry.hops[0]) if entry.hops else _final(entry)
    return _HOP_REPLIES.get((key, target))


def _final(entry: Robots) -> Reply:
    return Reply(entry.status, "text/plain; charset=utf-8", entry.text.encode(), encoding=entry.encoding)


_HOP_REPLIES: dict[tuple[str, str], Reply] = {
    ("omicron", "/moved-robots/1"): redirect(_HOPS[1], 301),
    ("omicron", "/moved-robots/2"): redirect(_HOPS[2], 308),
    ("omicron", "/moved-robots/3"): _final(ROBOTS["omicron"]),
    ("rho", "/shared/robots.txt"): _final(ROBOTS["pi"]),
}


def _rules(text: str) -> list[tuple[bool, str]]:
    """(allow, pattern) of the groups that name our agent, or else of those for everybody."""
    groups: dict[str, list[tuple[bool, str]]] = {}
    agents: list[str] = []
    in_rules = False
    for line in text.removeprefix("\ufeff").splitlines():
        field, _, value = (part.strip() for part in line.partition("#")[0].partition(":"))
        match field.lower():
            case "user-agent":
                agents = [value.lower()] if in_rules else [*agents, value.lower()]
                in_rules = False
                groups.setdefault(value.lower(), [])
            case "allow" | "disallow":
                in_rules = True
                for agent in agents if value else []:
                    groups[agent].append((field.lower() == "allow", value))
    return groups.get(AGENT, groups.get("*", []))
