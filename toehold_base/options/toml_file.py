"""Settings files: text in TOML."""

from pathlib import Path
from typing import Any

import tomli


class FileUnusable(Exception):
    """A settings file cannot be read, or its content is wrong; the message names the file and the fault."""


def read_settings(path: Path) -> dict[str, Any]:
    """The content of a settings file. Raises FileUnusable."""
    try:
        return tomli.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise FileUnusable(f"settings file {path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise FileUnusable(
            f"settings file {path} must be UTF-8 text, but byte {problem.start} is not"
        ) from problem
    except tomli.TOMLDecodeError as problem:
        raise FileUnusable(f"settings file {path} must be TOML: {problem}") from problem
    except (ValueError, RecursionError):  # limits of Python's own
        message = "a number has too many digits, or keys or values are nested too deeply"
        raise FileUnusable(f"settings file {path}: {message}") from None
