"""Makes .venv with the Python that runs this, or says what that Python lacks and how to get it.

It may be run by a Python that is too old for the project, so it uses nothing newer than Python 3.6.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    refuse_unsupported_version()
    try:
        import ensurepip  # noqa: F401  # Debian's python3 has venv without it
        import venv
    except ImportError:
        sys.exit(remedy())
    try:
        venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(str(ROOT / ".venv"))
    except subprocess.CalledProcessError as error:
        sys.exit(f"{(error.output or b'').decode(errors='replace')}\n{remedy()}")


def refuse_unsupported_version() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = re.search(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"$', pyproject, re.MULTILINE)
    if declared is None:
        sys.exit('pyproject.toml: requires-python should read ">=3.A,<3.B"')
    oldest, too_new = int(declared.group(1)), int(declared.group(2))
    major, minor = sys.version_info[:2]
    if not (3, oldest) <= (major, minor) < (3, too_new):
        sys.exit(
            f"Toehold needs Python 3.{oldest} to 3.{too_new - 1}, and {sys.executable} is {major}.{minor}. "
            f"Name another one: make PYTHON=python3.{oldest}"
        )


def remedy() -> str:
    return (
        f"{sys.executable} cannot make a virtual environment: its venv module is missing or incomplete. "
        "On Debian and Ubuntu: apt install python3-venv"
    )


if __name__ == "__main__":
    main()
