"""The blocking client, from the one for asyncio: the modules of `toehold_client` that MADE names."""

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parents[2] / "toehold_client"
MADE = {  # from which module in aio/
    "client.py": "client.py",
    "controller.py": "controller.py",
    "node_client.py": "node_client.py",
    "operators.py": "operators.py",
    "rpc/calls.py": "calls.py",
}
HEADER = "# Made from aio/{source} by `make generate`: edit that one.\n"

TEXT = {
    "from .calls import": "from toehold_client.rpc.calls import",
    "from .driver import": "from toehold_client.rpc.driver import",
    "from .streams import": "from toehold_client.rpc.streams import",
    "Awaitable[_R]": "_R",
    "for asyncio programs": "for blocking programs",
    "Belongs to the event loop that it is made in.": "May be used by many threads at once.",
    "in a task of its own": "in a thread of its own",
    "async ": "",
    "await ": "",
}
NAMES = {
    "AsyncCalls": "Calls",
    "AsyncCrawlController": "CrawlController",
    "AsyncDriver": "Driver",
    "AsyncEventStream": "EventStream",
    "AsyncExitStack": "ExitStack",
    "AsyncExportStream": "ExportStream",
    "AsyncFrontierClient": "FrontierClient",
    "AsyncIterator": "Iterator",
    "AsyncListener": "Listener",
    "AsyncNodeClient": "NodeClient",
    "AsyncOperators": "Operators",
    "AsyncOutcomeStream": "OutcomeStream",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "anext": "next",
    "asyncio": "time",  # for its sleep
    "push_async_callback": "callback",
}


def files() -> dict[Path, str]:
    return {CLIENT / path: blocking(path, source) for path, source in MADE.items()}


def blocking(path: str, source: str) -> str:
    """A module of the blocking client."""
    text = (CLIENT / "aio" / source).read_text()
    for asynchronous, other in TEXT.items():
        text = text.replace(asynchronous, other)
    text = re.sub(r"\w+", lambda found: NAMES.get(found[0], found[0]), text)
    # Orders the imports, and makes `yield from` of loops; then come the line breaks.
    text = ruff(HEADER.format(source=source) + text, path, "check", "--exit-zero", "--fix", "--unsafe-fixes")
    return ruff(text, path, "format")


def ruff(text: str, path: str, *command: str) -> str:
    """The text of a module as ruff writes it."""
    arguments = [*command, "--silent", "--stdin-filename", str(CLIENT / path), "-"]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments], input=text, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout
