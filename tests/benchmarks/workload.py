"""URIs as a large crawl finds them: short runs on one host, and hosts by a Zipf law.

Number, host and text of a URI follow from its place alone, so that any part can be made again.
"""

import random
from collections.abc import Sequence

from benchmarks.load import Link, host_names

RUN = 5  # URIs, on two hosts: two of one and three of another
_SHUFFLING = 2_654_435_761  # a prime: takes the hosts' numbers in an order without neighbours


class Workload:
    """So many hosts, each of which has a URI among the first ones."""

    def __init__(self, queues: int) -> None:
        self.hosts: Sequence[str] = host_names(queues)

    def part(self, first: int, count: int) -> list[Link]:
        """So many URIs from a place on; both multiples of `RUN`. 60 to 100 bytes each."""
        found: list[Link] = []
        for run in range(first // RUN, (first + count) // RUN):
            chance = random.Random(run)
            for number in range(RUN):
                if number in (0, 2):
                    host = self._host(2 * run + bool(number), chance)
                    via = f"https://{host}/{chance.getrandbits(24):06x}/"
                found.append(Link(self._text(host, run * RUN + number, chance), via))
        return found

    def _host(self, turn: int, chance: random.Random) -> str:
        """All hosts take a turn at first; from then on each comes as often as its rank has it."""
        size = len(self.hosts)
        if turn < size:
            return self.hosts[turn * _SHUFFLING % size]
        return self.hosts[int(size ** chance.random()) - 1]

    @staticmethod
    def _text(host: str, number: int, chance: random.Random) -> str:
        bits = f"{chance.getrandbits(96):024x}"
        return f"https://{host}/{bits[:12]}/{bits[12 : 14 + number % 10]}-{number:08d}.html"
