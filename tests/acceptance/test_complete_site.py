"""A crawl of a site that nobody here wrote: the HTML documentation inside an installed package."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import files
from pathlib import Path
from typing import Any

from acceptance.outcomes import all_exchanges, check_failures, closed_files
from acceptance.programs import json_of
from acceptance.walking import walk

PACKAGE, INDEX = "pygame-ce", "pygame/docs/generated/index.html"


def test_each_url_that_the_files_link_to_is_fetched_once_and_stored_as_it_is_and_no_other(
    tmp_path: Path,
) -> None:
    folder = _documentation()
    with _served(folder) as (address, asked):
        start = f"{address}/index.html"
        report = json_of(
            *("crawl", "--dir", str(tmp_path / "crawl"), "--min-delay", "0", "--delay-factor", "0", start)
        )
    expected = walk(folder, start)
    kinds = Counter(file.suffix for file in expected.values() if file is not None)
    assert kinds[".html"] > 50 and kinds[".css"] > 3 and kinds[".js"] > 3  # else there is nothing to miss

    assert asked == Counter([f"{address}/robots.txt", *expected])
    served = {url: file.read_bytes() for url, file in expected.items() if file is not None}
    warcs = tmp_path / "crawl" / "warcs"
    stored = {each.url: each.payload for each in all_exchanges(warcs) if each.status == 200}
    assert stored == served
    assert report["pages"] == len(served)
    assert [failure for file in closed_files(warcs) for failure in check_failures(file)] == []


def _documentation() -> Path:
    """The folder of the package's documentation. The package itself is never imported."""
    found = [file for file in files(PACKAGE) or () if str(file) == INDEX]
    return Path(str(found[0].locate())).parent


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, Counter[str]]]:
    """Where a folder is served, by Python's own server; and the URLs that are asked for."""
    asked: Counter[str] = Counter()

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[f"{address}{self.path}"] += 1
            super().do_GET()

        def list_directory(self, path: Any) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Nothing is told."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield address, asked
        server.shutdown()
