"""All that the hostile web has, in one table: the server, the tests and docs/reliability.md read it."""

from practice_web.hostile.bodies import BODIES
from practice_web.hostile.charsets import CHARSETS
from practice_web.hostile.connections import CONNECTIONS
from practice_web.hostile.documents import DOCUMENTS
from practice_web.hostile.endless import ENDLESS
from practice_web.hostile.heads import HEADS
from practice_web.hostile.nastiness import Nastiness
from practice_web.hostile.pages import PAGES
from practice_web.hostile.redirects import REDIRECTS
from practice_web.hostile.robots_files import ROBOTS
from practice_web.hostile.statuses import STATUSES

THEMES: dict[str, tuple[Nastiness, ...]] = {
    "Connections": CONNECTIONS,
    "Heads": HEADS,
    "Bodies": BODIES,
    "Statuses": STATUSES,
    "Redirects": REDIRECTS,
    "Pages": PAGES,
    "Charsets": CHARSETS,
    "Sites without end": ENDLESS,
    "robots.txt": ROBOTS,
    "Documents": DOCUMENTS,
}

NASTINESSES = tuple(row for rows in THEMES.values() for row in rows)
