"""The channels of a client whose credentials change: calls end on the channel that they began on."""

import weakref
from typing import Any, Generic, TypeVar

import grpc
from grpc import aio

from .contract import Stubs, stubs_of

C = TypeVar("C", grpc.Channel, aio.Channel)


class UsedChannel(Generic[C]):
    """A channel, its services, and the calls on it."""

    def __init__(self, channel: C) -> None:
        self.channel: C = channel
        self.stubs: Stubs = stubs_of(channel)
        self._call_count = 0
        self._streams: weakref.WeakSet[Any] = weakref.WeakSet()

    def begin(self) -> None:
        self._call_count += 1

    def end(self) -> None:
        self._call_count -= 1

    def keep(self, stream: Any) -> None:
        """Counts a stream as long as it is open, and somebody has it."""
        self._streams.add(stream)

    @property
    def is_idle(self) -> bool:
        """Whether no call is open."""
        return not self._call_count and all(stream.done() for stream in list(self._streams))


class Channels(Generic[C]):
    """The present channel, and former ones that still have calls."""

    def __init__(self, channel: C) -> None:
        self.present: UsedChannel[C] = UsedChannel(channel)
        """Where new calls begin."""
        self._former: list[UsedChannel[C]] = []

    def renew(self, channel: C) -> None:
        """New calls use this channel."""
        self._former.append(self.present)
        self.present = UsedChannel(channel)

    def idle(self) -> list[C]:
        """The channels that nobody needs any more, to be closed."""
        found = [used for used in self._former if used.is_idle]
        if found:
            self._former = [used for used in self._former if used not in found]
        return [used.channel for used in found]

    def all(self) -> list[C]:
        found = [used.channel for used in self._former]
        found.append(self.present.channel)
        return found
