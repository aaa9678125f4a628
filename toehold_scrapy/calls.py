"""Calls of the frontier that are made again until it answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from toehold_client.errors import (
    ClientClosed,
    DeadlineExceeded,
    FrontierUnavailable,
    RefusedForNow,
    ToeholdError,
)

CALL_TIMEOUT_S = 15.0
"""How long one call may take; a long poll may take as much longer as it asked to wait."""

FIRST_REST_S, LONGEST_REST_S = 0.1, 2.0

logger = logging.getLogger("toehold_scrapy")

_T = TypeVar("_T")


class Abandoned(Exception):
    """This process has given up before the frontier answered."""


class Contact:
    """Whether the frontier answers, as all calls of this process see it. It logs each change once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost = False

    def note(self, error: ToeholdError | None) -> None:
        """Notes the end of a call: an error if there was no answer, or none that counts."""
        with self._lock:
            was_lost, self._lost = self._lost, error is not None
        if error is not None and not was_lost:
            logger.warning("%s; trying until the frontier answers", error)
        elif error is None and was_lost:
            logger.info("The frontier answers again")


def persist(call: Callable[[], _T], contact: Contact, given_up: threading.Event) -> _T:
    """Makes a call until it is answered or refused for good. Raises the refusal, or Abandoned once `given_up`
    is set.
    """
    rest_s = FIRST_REST_S
    while not given_up.is_set():
        try:
            answer = call()
        except ClientClosed:
            break
        except (FrontierUnavailable, DeadlineExceeded, RefusedForNow) as error:
            contact.note(error)
            asked_s = error.retry_after_s if isinstance(error, RefusedForNow) else 0.0
            given_up.wait(max(rest_s, min(asked_s, 60.0)))
            rest_s = min(2 * rest_s, LONGEST_REST_S)
        else:
            contact.note(None)
            return answer
    raise Abandoned
