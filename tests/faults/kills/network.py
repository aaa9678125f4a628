"""A frontier behind a bad network, that is killed now and then while the network is bad."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from faults.kills.campaign import RECONNECT, Life
from faults.proxy import Network, Proxy
from faults.relay import Relay
from frontier_harness.every_rpc import RPCS

REPEATABLE = ("Schedule", "Next", "Finished", "Heartbeat")
"""Calls that may be repeated at any time, in any order, without harm."""
SAID_AGAIN = 40
LONGEST_S = 0.6


class BadNetwork(Life):
    """Everybody reaches the frontier by a relay of calls, and that by a relay of bytes."""

    later: ClassVar[tuple[str, ...]] = (
        *("lost", "doubled", "said_again"),  # of calls
        *("slow", "late", "silent", "cut", "half_closed"),  # of bytes
    )

    @contextmanager
    def _way(self) -> Iterator[str]:
        with Proxy(self._port.address) as self._proxy, Relay(self._proxy.address, options=RECONNECT) as relay:
            self._relay = relay
            relay.remember = REPEATABLE
            yield relay.address

    def _mend(self) -> None:
        self._relay.lose, self._relay.double = {}, ()
        self._proxy.delay_s = 0.0
        self._proxy.become(Network.WELL)

    def _for_a_while(self) -> None:
        """The network is bad, and then perhaps good again before the frontier is killed."""
        time.sleep(self._chance.uniform(0, LONGEST_S))
        if self._chance.random() < 0.5:
            self._mend()
            time.sleep(self._chance.uniform(0, LONGEST_S))

    def _at_lost(self, _: object) -> None:
        self._relay.lose = dict.fromkeys(RPCS, self._chance.randint(1, 4))
        self._for_a_while()

    def _at_doubled(self, _: object) -> None:
        self._relay.double = REPEATABLE
        self._for_a_while()

    def _at_said_again(self, _: object) -> None:
        time.sleep(self._chance.uniform(0, LONGEST_S))
        self._relay.say_again(SAID_AGAIN, self._chance)

    def _at_slow(self, _: object) -> None:
        self._proxy.delay_s = self._chance.uniform(0.005, 0.1)
        self._for_a_while()

    def _at_late(self, _: object) -> None:
        self._proxy.become(Network.LATE)
        self._for_a_while()

    def _at_silent(self, _: object) -> None:
        self._proxy.become(Network.SILENT)
        self._for_a_while()

    def _at_cut(self, _: object) -> None:
        self._proxy.become(Network.CUT)
        self._for_a_while()

    def _at_half_closed(self, _: object) -> None:
        self._proxy.half_close()
        self._for_a_while()
