"""Memory that a node has freed is the system's again, whatever it has read before."""

import subprocess
import sys

import pytest

CHURN = """
from crawler_node.memory import give_back_large_blocks

def resident_mb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1000 for line in status if line.startswith("VmRSS"))

give_back_large_blocks()
large = bytearray(8_000_000)
del large  # left alone, malloc learns by this that such blocks come and go
before = resident_mb()
blocks, kept = [], []
for _ in range(64):
    blocks.append(bytearray(b"x") * 1_000_000)
    kept.append(bytearray(1000))  # between two blocks, and not freed
grown = resident_mb() - before
blocks.clear()
print(grown, resident_mb() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_large_blocks_go_back_to_the_system_when_they_are_freed() -> None:
    done = subprocess.run([sys.executable, "-c", CHURN], capture_output=True, text=True, check=True)
    grown_mb, left_mb = map(float, done.stdout.split())
    assert grown_mb > 50
    assert left_mb < 5
