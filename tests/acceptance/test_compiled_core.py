"""The tests of the core, on the compiled one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from core_doubles.other_build import ROOT, environment, lacking
from frontier_harness import soaking
from frontier_harness.soaking import Soak


@pytest.mark.soak("compiled")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("folder", ["unit", "property", "scenarios"])
def test_tests_of_the_core_pass_on_the_compiled_one(folder: str, soak: Soak) -> None:
    if reason := lacking():
        pytest.skip(reason)
    asked = (soaking.PART, soaking.CYCLES, soaking.SEED)
    clean = {
        name: text
        for name, text in environment("compiled").items()
        if name not in asked and not name.startswith("PYTEST_")
    }
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{folder}"),
        cwd=ROOT,
        env=clean | {"HYPOTHESIS_PROFILE": "ci"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    soak.count(checked=int(passed[1]))
