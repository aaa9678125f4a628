"""Compiles the core with mypyc into the wheel that `make wheel-native` builds.

`python tools/native.py --check` tells whether mypyc accepts the core. It needs no C compiler.

A hook of hatchling's; pyproject.toml leaves it off, so that editable installs and the usual wheel stay pure.
The wheel has each module as Python, too: Python takes the compiled one where both are there.
"""

import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from mypyc.build import mypycify
from setuptools import Distribution

CORE = Path("frontier_server/core")
BESIDE = tuple(
    Path("frontier_server/coordinator").joinpath(name)
    for name in ("coordinator.py", "jobs.py", "pool.py", "whole.py")
)
"""What decides outside of the core, whose classes it extends."""

INTERPRETED = {
    "state/order.py",  # msgspec Structs, as in records.py
    "rows/errors.py",  # what is read of exceptions' classes, a compiled class does not have
    "state/model.py",  # msgspec Structs, as in records.py
    "rows/records.py",  # msgspec Structs: compiled they would lose their keywords, and so the format of rows
    "spec/settings.py",  # its annotations are the table; a compiled class has `tuple` alone of them
}


class NativeHook(BuildHookInterface[Any]):
    """Adds the compiled modules, and marks the wheel as one of this Python and this machine."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before a wheel is put together."""
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        self._made = tempfile.TemporaryDirectory()
        with _inside(Path(self.root)):
            for made in compiled(Path(self._made.name)):
                build_data["force_include"][str(made)] = str(made.relative_to(self._made.name))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """After it."""
        self._made.cleanup()


def sources() -> list[str]:
    """The modules that are compiled."""
    core = [
        path
        for path in sorted(CORE.rglob("*.py"))
        if path.name != "__init__.py" and str(path.relative_to(CORE)) not in INTERPRETED
    ]
    return [str(path) for path in (*core, *BESIDE)]


def translated(folder: Path) -> Any:
    """Translate the core into C, in a folder. Returns setuptools' extensions; exits if mypyc refuses it."""
    return mypycify(
        ["--config-file=pyproject.toml", *sources()],
        target_dir=str(folder),
        multi_file=True,
        group_name="toehold_core",
        debug_level="0",
    )


def refusals() -> list[str]:
    """What mypyc says against the core, without its warnings, and what it would compile to something else."""
    if uncached := [path for path in sources() if "cached_property" in Path(path).read_text()]:
        return [
            f"{path}: must not use cached_property; compiled, it is computed each time" for path in uncached
        ]
    said = StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(said):
        try:
            translated(Path(folder))
        except SystemExit:
            return [line for line in said.getvalue().splitlines() if ": warning: " not in line]
    return []


def compiled(folder: Path) -> list[Path]:
    """Compile the core into a folder, as it lies in a wheel; the files. Takes some minutes."""
    # Python's own flags may name a folder of the machine that built it, where libraries would be looked for.
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC")
    os.environ.setdefault("LDSHARED", f"{compiler} -shared")
    extensions = translated(folder / "c")
    command = Distribution({"name": "toehold-core", "ext_modules": extensions}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(folder), str(folder / "o")
    command.ensure_finalized()
    command.run()
    return sorted(folder.rglob("*.so"))


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    if sys.argv[1:] != ["--check"]:
        sys.exit("usage: python tools/native.py --check")
    with _inside(Path(__file__).parents[1]):
        sys.exit("\n".join(refusals()) or 0)
