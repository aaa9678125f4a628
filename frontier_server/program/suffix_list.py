"""The list of public suffixes that comes with the installed `publicsuffixlist`, for new stores."""

from pathlib import Path

from publicsuffixlist import PSLFILE

from ..core.uri.suffixes import packed


def installed() -> bytes:
    """The list, packed."""
    return packed(Path(PSLFILE).read_text(encoding="utf-8"))
