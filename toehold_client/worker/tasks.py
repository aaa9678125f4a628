"""Calls of a worker's tasks in asyncio, made again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from toehold_client.errors import ToeholdError

from .rests import CallPace


async def keep_calling(act: Callable[[], Awaitable[float]], pace: CallPace) -> NoReturn:
    """Acts until it is cancelled. An act is a call and what follows from its answer, and returns how long to
    rest. Raises SessionSuperseded, and Abandoned if the client is closed."""
    while True:
        try:
            rest_s = await act()
            pace.answered()
        except ToeholdError as error:
            rest_s = pace.rest_s(error)
        await asyncio.sleep(rest_s)
