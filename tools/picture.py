"""Draws docs/watch.svg: what `toehold watch` shows of a crawl of the practice web while it is under way.

Three nodes fetch, and one of them is killed, so that there is a problem to be seen.
"""

from __future__ import annotations

import re
import tempfile
from io import StringIO
from pathlib import Path

from acceptance.parts import CRAWL, Parts
from acceptance.programs import Programs
from frontier_harness.waiting import eventually
from rich.console import Console
from rich.text import Text

from practice_web.practice import PracticeWeb
from practice_web.web import ORIGINS
from toehold_client import CrawlController, FrontierClient
from toehold_client.cli.live.layout import picture
from toehold_client.cli.live.look import Look
from toehold_client.cli.live.observer import Observer

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "watch.svg"
COLUMNS, LINES = 110, 30
LEASE_S = 1.5  # so that a node that is killed is soon missed
FEW_REQUESTS = 60


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with PracticeWeb(folder / "web") as web, Programs(folder) as programs:
            look = look_at(Parts(web, programs, folder, lease_s=LEASE_S))
    PICTURE.write_text(drawn(look))
    print(f"docs/{PICTURE.name}: written")


def look_at(parts: Parts) -> Look:
    """A crawl that runs, after it was told that a node is gone."""
    nodes = {name: parts.node(name, "--toes", "8") for name in ("north", "south", "west")}
    parts.launch(origin.key for origin in ORIGINS)
    parts.until_asked(FEW_REQUESTS)
    nodes["south"].kill()
    with FrontierClient(parts.address) as client:

        def looked() -> Look | None:
            observer = Observer(CrawlController(client, CRAWL))
            observer.catch_up()
            look = observer.look()
            if look.ended:
                raise SystemExit("The crawl ended before the node was missed; this machine is too busy now.")
            return look if look.problems else None

        look = eventually(looked, "a node that is missed")
    assert look is not None
    return look


def drawn(look: Look) -> str:
    """A look as an SVG file that needs nothing from elsewhere."""
    console = Console(record=True, file=StringIO(), width=COLUMNS, height=LINES, force_terminal=True)
    console.print(Text("\n").join(picture(look, COLUMNS, LINES)))
    svg = console.export_svg(title="toehold watch", unique_id="watch")
    # A browser's own monospace font will do.
    without_fonts = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r"[ \t]+$", "", without_fonts, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
