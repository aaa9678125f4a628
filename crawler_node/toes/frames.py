"""Where in the program threads are."""

import gc
import sys
import threading
from types import FrameType

_LOOKING = threading.Lock()


def thread_frames() -> dict[int, FrameType]:
    """The present frame of each thread, by its identifier.

    The garbage collector rests meanwhile. Python 3.11 locks its list of threads for that, and makes objects:
    if the collector then ran a finalizer, other threads would go on, and one that begins or ends would wait
    for the list while it holds the interpreter's lock, for ever (CPython issue 106883).
    """
    with _LOOKING:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()
