"""The packages that only an extra installs: `pip install "toehold-crawler[node]"`.

`pip install toehold-crawler` alone brings what the client needs. A program that lacks the rest says so in a
sentence.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

PROJECT = "toehold-crawler"
_OWN = {
    "crawler_node",
    "frontier_server",
    "toehold",
    "toehold_base",
    "toehold_cli",
    "toehold_client",
    "toehold_conformance",
    "toehold_console",
    "urlfrontier",
    "urlfrontier_gateway",
}
# rocksdict<0.4,>=0.3.29; extra == "frontier"
_REQUIREMENT = re.compile(r"""(?P<name>[\w.-]+)[^;]*;.*\bextra == ['"](?P<extra>[\w-]+)['"]""")


@contextmanager
def packages_of(extra: str, program: str) -> Iterator[None]:
    """A context for a program's imports. If a package is missing, it ends the program with a sentence."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in _OWN:
            raise
        sys.exit(advice(extra, program))


def advice(extra: str, program: str) -> str:
    """How to install what a program lacks."""
    return f'{program} needs further packages; in a checkout of its source: pip install ".[{extra}]"'


def lacking(*extras: str) -> list[str]:
    """The packages of these extras that are not installed."""
    try:
        stated = metadata.requires(PROJECT) or []
    except metadata.PackageNotFoundError:  # a copy of the source, whose user takes care of it
        return []
    found = map(_REQUIREMENT.match, stated)
    names = {each["name"] for each in found if each is not None and each["extra"] in extras}
    return sorted(name for name in names if not _is_installed(name))


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
