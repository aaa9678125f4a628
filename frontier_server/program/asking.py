"""What a machine asks of the bucket, in a thread that nobody has to wait for: a bucket may be silent."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

from ..replicated.buckets import BucketFailed, requests_made

TELL_S = 5.5
"""When the bucket has not answered for so long, a machine that ends tells the others nothing more: they find
out by themselves. By then its members know that the bucket is away, and end soon."""
POLL_S = 0.1

V = TypeVar("V")


def clock_s() -> float:
    """A clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Asking:
    """Asks the bucket, one question after the other."""

    def __init__(self, is_ending: Callable[[], bool]) -> None:
        """`is_ending` tells whether the machine ends, and waits for no answer any more."""
        self.has_given_up = False
        """Whether the machine has ended without the answer of the bucket, which was silent."""
        self._is_ending = is_ending
        self._answered_s = clock_s()
        self._made_before = 0
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        # A daemon: Python waits at its end for those of `asyncio.to_thread`, and a request may take long.
        self._thread = threading.Thread(target=self._run, name="requests", daemon=True)

    async def ask(self, question: Callable[[], V]) -> V:
        """The answer to a question, which may be several requests. Raises BucketFailed; once the machine
        ends, also if the bucket has not answered for long."""
        if self.has_given_up:
            raise BucketFailed("the bucket is silent")
        answer, answered = self._begun(question), 0
        try:
            while not answer.done():
                now_s = clock_s()
                if answered < self._answered:
                    answered, self._answered_s = self._answered, now_s
                elif self._is_ending() and now_s - self._answered_s >= TELL_S:
                    self.has_given_up = True
                    raise BucketFailed("the bucket is silent")
                await asyncio.wait((answer,), timeout=POLL_S)
            found = answer.result()
            self._answered_s = clock_s()
            return found
        finally:
            answer.cancel()

    def _begun(self, question: Callable[[], V]) -> asyncio.Future[V]:
        self._made_before = requests_made.total()
        if not self._thread.is_alive():
            self._thread.start()
        answer: Future[V] = Future()
        self._waiting.put((answer, question))
        return asyncio.wrap_future(answer)

    @property
    def _answered(self) -> int:
        """How many requests of a question have been answered: those that are followed by another one."""
        return requests_made.total() - self._made_before - 1

    def _run(self) -> NoReturn:
        while True:
            answer, question = self._waiting.get()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(question())
            except BaseException as problem:
                answer.set_exception(problem)
