"""A look at where all threads are does not stop the program."""

import subprocess
import sys

from frontier_harness.waiting import PATIENCE_S

LOOKS = """
import gc, threading, time
from crawler_node.toes.frames import thread_frames

class Cycle:
    def __init__(self):
        self.me = self

    def __del__(self):
        time.sleep(0)  # others may go on

def come_and_go():
    while not over.is_set():
        threading.Thread(target=lambda: None).start()

def leave_litter():
    while not over.is_set():
        Cycle()
        time.sleep(0)

over = threading.Event()
for work in (come_and_go, come_and_go, leave_litter, *[over.wait] * 50):
    threading.Thread(target=work, daemon=True).start()
gc.set_threshold(1)
for _ in range(20):
    Cycle()
    frames = thread_frames()
over.set()
print(len(frames), gc.isenabled())
"""


def test_all_threads_are_looked_at_while_others_come_and_go_and_garbage_is_collected() -> None:
    """Python 3.11 stops for ever when its collector runs a finalizer during a plain look."""
    done = subprocess.run(
        [sys.executable, "-c", LOOKS], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    count, collects = done.stdout.split()
    assert int(count) > 50 and collects == "True"
