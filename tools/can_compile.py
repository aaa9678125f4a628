"""Tells whether the Python that runs this can compile the core: prints what it lacks, and exits with 1."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def lacks() -> str:
    """What is missing, in a sentence; empty if nothing is."""
    try:
        import ensurepip  # noqa: F401  # Debian's python3 has venv without it
        import venv  # noqa: F401  # it is imported to see that it is there
    except ImportError:
        return "its venv module is missing or incomplete (on Debian and Ubuntu: apt install python3-venv)"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python.h is missing (on Debian and Ubuntu: apt install python3-dev)"
    return ""


if __name__ == "__main__":
    sys.exit(lacks() or 0)
