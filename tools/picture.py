"""Draws pictures of real runs on the practice web, each as a terminal of 80 columns shows it:

docs/watch.svg   `toehold watch` while a crawl is under way: three nodes fetch, one of them is killed
docs/report.svg  the report at the end of `toehold crawl`
docs/help.svg    `toehold --help`

and the console in a browser, on the same crawl: docs/console.png, docs/console-dark.png and
docs/console-phone.png. Without Chromium (`make chromium`) these stay as they are.
"""

import re
import tempfile
import time
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from acceptance.judging import ONE, crawl_arguments, slow_spec
from acceptance.parts import CRAWL, Parts
from acceptance.programs import Programs, toehold
from acceptance.terminal import Terminal
from frontier_harness.browser import chromium, visit
from frontier_harness.console import ConsoleProcess
from playwright.sync_api import expect
from rich.console import Console
from rich.text import Text

from practice_web.practice import PracticeWeb
from practice_web.web import ORIGINS
from toehold_cli.live.layout import picture
from toehold_client import CrawlController, FrontierClient
from toehold_client.watching.look import Look
from toehold_client.watching.observer import Observer

DOCS = Path(__file__).resolve().parent.parent / "docs"
COLUMNS, LINES = 80, 24
LEASE_S = 6.0
BEFORE_S, MOST_S = 45.0, 90.0
"""How long the nodes fetch before one is killed, so that there is a history; and when it must be missed."""

NOWHERE = "http://nowhere.invalid/"
"""A seed that has no host."""


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with PracticeWeb(folder / "web") as web, Programs(folder) as programs:
            draw("report", "toehold crawl", report(web, programs, folder / "crawl"))
            draw("help", "toehold --help", list(Text(help_text()).split()))
            parts = Parts(web, programs, folder, lease_s=LEASE_S)
            look = look_at(parts)
            draw_console(parts.address, folder)
    draw("watch", "toehold watch", picture(look, COLUMNS, LINES))


def look_at(parts: Parts) -> Look:
    """A crawl that runs, after one of its nodes was killed, and is missed."""
    nodes = {name: parts.node(name, "--toes", "8") for name in ("north", "south", "west")}
    parts.launch((origin.key for origin in ORIGINS), slow_spec())
    toehold("seeds", "add", NOWHERE, "--crawl", CRAWL, "--frontier", parts.address)
    begun_s = time.monotonic()
    with FrontierClient(parts.address) as client:
        observer = Observer(CrawlController(client, CRAWL))
        while time.monotonic() < begun_s + BEFORE_S:
            observer.look()
            time.sleep(1)
        nodes["south"].kill()
        while time.monotonic() < begun_s + MOST_S:
            observer.catch_up()
            look = observer.look()
            if look.ended:
                break
            if "south  lost" in "\n".join(line.plain for line in picture(look, COLUMNS, LINES)):
                return look
            time.sleep(0.5)
    raise SystemExit("The crawl ended before the node was missed; this machine is too busy now.")


def draw_console(frontier: str, folder: Path) -> None:
    """The first page of the crawl in a browser."""
    windows: Sequence[tuple[str, str, int, int]] = (
        ("console", "light", 1280, 1600),
        ("console-dark", "dark", 1280, 900),
        ("console-phone", "light", 390, 844),
    )
    with ConsoleProcess(frontier, folder) as console, chromium(folder) as browser:
        for name, scheme, width, height in windows:
            settings = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
            with visit(browser, console.url, **settings) as visited:
                page = visited.go(f"#/crawls/{CRAWL}")
                expect(page.get_by_text("requested: launch")).to_be_visible()
                expect(page.get_by_role("region", name="Table: Failures by host and reason")).to_be_visible()
                page.screenshot(path=DOCS / f"{name}.png")
        print("docs/console.png, console-dark.png, console-phone.png: drawn")


def report(web: PracticeWeb, programs: Programs, directory: Path) -> list[Text]:
    """What is left on the terminal of a crawl that has ended."""
    with Terminal(programs) as terminal:
        terminal.resize(COLUMNS, LINES)
        arguments = crawl_arguments(web, directory, "--contact", "me@crawler.example", keys=ONE)
        code = terminal.toehold(*arguments, NOWHERE).wait()
        if code:
            raise SystemExit(f"The crawl ended with exit code {code}.")
        shown = terminal.all_shown()
    left = shown.rpartition("\x1b[2K")[2].replace("\r\n", "\n").replace(str(directory.parent), "/home/me")
    return list(Text.from_ansi(left).split())


def help_text() -> str:
    """What the command says of itself."""
    return toehold("--help").stdout


def draw(name: str, title: str, lines: Sequence[Text]) -> None:
    """Writes lines as an SVG file that needs nothing from elsewhere."""
    console = Console(record=True, file=StringIO(), width=COLUMNS, height=LINES, force_terminal=True)
    console.print(Text("\n").join(lines))
    svg = console.export_svg(title=title, unique_id=name)
    # A browser's own monospace font will do.
    without_fonts = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    (DOCS / f"{name}.svg").write_text(re.sub(r"[ \t]+$", "", without_fonts, flags=re.MULTILINE))
    print(f"docs/{name}.svg: written")


if __name__ == "__main__":
    main()
