"""Calls of a worker's threads, made again and again."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from toehold_client.errors import ToeholdError
from toehold_client.rpc.request_ids import request_id

from .contact import ContactLog
from .rests import Abandoned, CallPace, Tries

_T = TypeVar("_T")


def persist(call: Callable[[], _T], log: ContactLog, given_up: threading.Event) -> _T:
    """Makes a call until it is answered or refused for good, always with the same request id. Raises the
    refusal, or Abandoned once `given_up` is set or the client is closed."""
    tries = Tries(log)
    with request_id():
        while not given_up.is_set():
            try:
                return call()
            except ToeholdError as error:
                rest_s = tries.rest_s(error)
            given_up.wait(rest_s)
    raise Abandoned


def keep_calling(act: Callable[[], float], pace: CallPace, stop: threading.Event) -> None:
    """Acts until `stop` is set or the client is closed. An act is a call and what follows from its answer; it
    returns how long to rest. Raises SessionSuperseded."""
    with suppress(Abandoned):
        while not stop.is_set():
            try:
                rest_s = act()
                pace.answered()
            except ToeholdError as error:
                rest_s = pace.rest_s(error)
            stop.wait(rest_s)
