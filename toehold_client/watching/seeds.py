"""How the seeds of a crawl fare: how many were fetched, and which ones have trouble."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from toehold.frontier.v1.admin_pb2 import Seed, SeedResult
from toehold_client.text import count_text

MOST_SEEDS = 1_000
"""How many seeds of a crawl are asked for, the first ones."""

_OTHER_RESULTS = (
    (SeedResult.SEED_RESULT_REDIRECTED, "redirected elsewhere"),
    (SeedResult.SEED_RESULT_ERROR, "answered with an error"),
    (SeedResult.SEED_RESULT_FAILED, "failed"),
    (SeedResult.SEED_RESULT_PENDING, "not fetched yet"),
)
TROUBLES = (SeedResult.SEED_RESULT_REDIRECTED, SeedResult.SEED_RESULT_ERROR, SeedResult.SEED_RESULT_FAILED)
"""The results of seeds that will not be fetched."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """The first seeds of a crawl, at one moment."""

    counts: Mapping[SeedResult.ValueType, int] = field(default_factory=dict)
    troubled: Sequence[Seed] = ()
    """Those that led elsewhere, or were answered with an error, or not at all, also if they will be tried
    again."""

    @classmethod
    def of(cls, seeds: Iterable[Seed]) -> "Seeds":
        """Sorts seeds by their results."""
        known = list(seeds)
        return cls(
            counts=Counter(seed.result for seed in known),
            troubled=[seed for seed in known if seed.result in TROUBLES or seed.tried_in_vain],
        )


def seed_text(seed: Seed) -> str:
    """`docs.example: name not found`. Seeds are https unless they say otherwise."""
    return f"{seed.uri.removeprefix('https://').removesuffix('/')}: {seed.outcome}"


def seeds_text(seeds: Seeds) -> str:
    """`1 of 3 fetched, 1 answered with an error, 1 failed`."""
    return results_text(seeds.counts, f"of {count_text(sum(seeds.counts.values()))} fetched")


def results_text(counts: Mapping[SeedResult.ValueType, int], fetched: str = "fetched") -> str:
    """`1 fetched, 1 answered with an error, 1 failed`. `fetched` may say more about the first number."""
    others = [f"{count_text(counts[each])} {word}" for each, word in _OTHER_RESULTS if counts.get(each)]
    return ", ".join([f"{count_text(counts.get(SeedResult.SEED_RESULT_FETCHED, 0))} {fetched}", *others])
