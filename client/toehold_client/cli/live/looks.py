"""Looks at a crawl, taken one after another in a thread of their own.

The main thread calls no frontier: so it hears of signals at once, whatever a frontier does, and no signal
breaks into a call.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from types import TracebackType
from typing import Self

from toehold_client.controller import CrawlController
from toehold_client.errors import ClientClosed

from .bell import Bell
from .look import Look
from .observer import Observer


class Looks:
    """Looks at a crawl: one every `interval_s`, and one at once when it should be; none after its end. The
    bell rings for each. A look waits until the last one was taken: whoever shows them misses none, and the
    frontier isn't asked for what nobody sees.

    A context; at its end it closes the controller's client, so that nothing is waited for any more.
    """

    def __init__(self, crawl: CrawlController, interval_s: float, bell: Bell) -> None:
        self._crawl = crawl
        self._interval_s = interval_s
        self._bell = bell
        self._news = threading.Event()
        self._taken = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._latest: Look | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="toehold-looks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._taken.set()
        self._news.set()
        self._crawl.frontier.close()
        self._thread.join()

    def take(self) -> Look | None:
        """The latest look, unless it has been taken. Raises what a look ended with: see Observer.look."""
        with self._lock:
            look, self._latest = self._latest, None
            if self._error is not None:
                raise self._error
        if look is not None:
            self._taken.set()
        return look

    def _run(self) -> None:
        observer = Observer(self._crawl, self._news.set)
        due_s = -math.inf
        try:
            while True:
                self._news.clear()  # before the look: what comes meanwhile may not be in it
                self._taken.clear()
                if self._stop.is_set():  # asked after both are cleared: an end sets them
                    return
                now_s = time.monotonic()
                due = now_s >= due_s
                if due:
                    due_s = now_s + self._interval_s
                look = replace(observer.look(), due=due)
                with self._lock:
                    self._latest = look
                self._bell.ring()
                if look.ended:
                    return
                self._taken.wait()
                self._news.wait(max(0.0, due_s - time.monotonic()))
        except ClientClosed:
            return  # nobody looks any more
        except BaseException as error:  # whatever it is, `take` raises it
            with self._lock:
                self._error = error
            self._bell.ring()
        finally:
            observer.close()
