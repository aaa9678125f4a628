"""Pages of documentation that others have written or rendered, with the URIs that they would have."""

from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[2]
PRACTICE = ROOT / "build" / "practice_pages"
PACKAGES = ROOT / "build" / "doc_pages"
"""Documentation of Debian's packages, which `make doc-pages` unpacks."""
SOME = 8
"""Of this many practice pages, one is in `few`: they are all alike."""

Page = tuple[str, bytes]


def few() -> Iterator[Page]:
    """Pages that every set-up has: some of the practice web, and the documentation inside a package."""
    yield from list(_below(PRACTICE))[::SOME]
    index = next(file for file in files("pygame-ce") or () if file.match("docs/generated/index.html"))
    yield from _below(Path(str(index.locate())).parent)


def many() -> Iterator[Page]:
    """All pages of the documentation of Debian's packages."""
    yield from _below(PACKAGES)


def _below(folder: Path) -> Iterator[Page]:
    for path in sorted(folder.rglob("*.htm*")):  # also page.html.de, as Apache names translations
        if path.is_file() and path.suffix not in (".gz", ".map"):
            yield f"http://docs.example/{quote(str(path.relative_to(folder)))}", path.read_bytes()
