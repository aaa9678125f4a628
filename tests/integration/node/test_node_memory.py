"""A node's memory: large blocks are the system's again when they are freed, those of pages are used again."""

import subprocess
import sys

import pytest

CHURN = """
from crawler_node.memory import suit_pages

def resident_mb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1000 for line in status if line.startswith("VmRSS"))

suit_pages()
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

PAGES = """
import resource
from concurrent.futures import ThreadPoolExecutor
from crawler_node.memory import suit_pages

PAGES, THREADS = 200, 8

def page(number):
    compressor = bytearray(b"x") * 300_000
    text = bytearray(b"x") * 80_000

suit_pages()
with ThreadPoolExecutor(THREADS) as toes:
    list(toes.map(page, range(PAGES)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    list(toes.map(page, range(PAGES)))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / PAGES)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_large_blocks_go_back_to_the_system_when_they_are_freed() -> None:
    done = subprocess.run([sys.executable, "-c", CHURN], capture_output=True, text=True, check=True)
    grown_mb, left_mb = map(float, done.stdout.split())
    assert grown_mb > 50
    assert left_mb < 5


@pytest.mark.skipif(sys.platform != "linux", reason="malloc is not glibc's")
def test_blocks_of_the_size_of_pages_are_used_again_by_all_threads() -> None:
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 5, "faults of the processor for a page"
