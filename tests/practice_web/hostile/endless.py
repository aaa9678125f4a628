"""Sites without end: each page leads to further ones that are the same."""

import itertools

from practice_web.hostile.nastiness import Nastiness, Visit, link, page
from practice_web.hostile.pages import QUOTA

MAX_LINK_HOPS = 6
"""As the crawl's spec has it."""

_SESSIONS = itertools.count()


async def _calendar(visit: Visit) -> None:
    month = int(visit.path.rpartition("/")[2] or 0)
    await page(link(f"/month/{month + 1}") + link(f"/month/{month - 1}"))(visit)


async def _sessions(visit: Visit) -> None:
    fresh = (f"/{name};jsessionid={next(_SESSIONS):032X}" for name in ("home", "shop", "cart"))
    await page("".join(map(link, fresh)))(visit)


async def _permutations(visit: Visit) -> None:
    names = visit.path.partition("?")[2].split("&")
    orders = itertools.permutations(names[1:] + names[:1], len(names))
    await page("".join(link("/list?" + "&amp;".join(order)) for order in itertools.islice(orders, 120)))(
        visit
    )


async def _deeper(visit: Visit) -> None:
    await page(link("a/"))(visit)


async def _round(visit: Visit) -> None:
    await page(link("b/c/"))(visit)


async def _fans_out(visit: Visit) -> None:
    await page("".join(link(f"{visit.path}{n}") for n in range(1000)))(visit)


async def _frames(visit: Visit) -> None:
    await page(f'<iframe src="{visit.path}f"></iframe>')(visit)


async def _hosts(visit: Visit) -> None:
    await page("".join(f'<a href="http://h{n}.endless.example/">on</a>' for n in range(1000)))(visit)


ENDLESS = (
    Nastiness(
        "calendar",
        "has a calendar that is endless in both directions",
        {
            "/month/0": 200,
            **{f"/month/{sign}{n}": 200 for n in range(1, MAX_LINK_HOPS + 1) for sign in ("", "-")},
        },
        otherwise=_calendar,
        start="/month/0",
    ),
    Nastiness("session-ids", "gives each page a new session id", {"/": 200}, otherwise=_sessions, more=QUOTA),
    Nastiness(
        "permutations",
        "sorts a list in every order of its five parameters",
        {"/list?a=1&b=2&c=3&d=4&e=5": 200},
        otherwise=_permutations,
        start="/list?a=1&b=2&c=3&d=4&e=5",
        more=QUOTA,
    ),
    Nastiness(
        "path-of-one",
        "repeats a folder of its path forever",
        {"/": 200, "/a/": 200, "/a/a/": 200},
        otherwise=_deeper,
    ),
    Nastiness(
        "path-of-two",
        "repeats two folders of its path forever",
        {"/": 200, "/b/c/": 200, "/b/c/b/c/": 200},
        otherwise=_round,
    ),
    Nastiness("fan-out", "has 1000 new links on every page", {"/": 200}, otherwise=_fans_out, more=QUOTA),
    Nastiness(
        "frames",
        "has a frame in a frame in a frame, without end",
        {"/": 200, **{"/" + "f" * n: 200 for n in range(1, 6)}},
        otherwise=_frames,
    ),
    Nastiness("hosts", "links to a thousand unwanted hosts", {"/": 200}, otherwise=_hosts),
)
