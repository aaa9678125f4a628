"""Seeds that a frontier refused: which, why, and how they were probably meant."""

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from toehold.frontier.v1.admin_pb2 import AddSeedsResponse, RejectedSeed
from toehold.frontier.v1.crawl_pb2 import Verdict

from .errors import InvalidArgument, SeedsRefused
from .spec.listed import likely_url, without_comment

OnRefused: TypeAlias = Literal["raise", "report"]
"""How a method treats refused seeds: it raises SeedsRefused, or only lists them in its answer."""

_MOST_TOLD = 5

_FAULTS: Mapping[Verdict.ValueType, str] = {
    Verdict.VERDICT_MALFORMED: "is not a valid URL",
    Verdict.VERDICT_UNSUPPORTED_SCHEME: "has a scheme other than http and https",
    Verdict.VERDICT_TOO_LONG: "is too long",
}

_HOST = re.compile(r"(?:(?:[\w-]+\.)+[A-Za-z][\w-]+|(?:\d+\.){3}\d+|localhost)(?::\d+)?(?:[/?#].*)?")


def check_on_refused(choice: OnRefused) -> None:
    """Raises InvalidArgument unless it is one of the two."""
    if choice not in ("raise", "report"):
        raise InvalidArgument(f"on_refused must be raise or report, got {choice!r:.80}")


def accepted(answer: AddSeedsResponse, on_refused: OnRefused) -> AddSeedsResponse:
    """The same answer. Raises SeedsRefused if the frontier refused seeds, unless they are only reported."""
    if on_refused == "report" or not answer.rejected_count:
        return answer
    refused, stored = answer.rejected_count, answer.added_count
    reasons = [refusal_text(seed) for seed in answer.rejected[:_MOST_TOLD]]
    if refused > len(reasons):
        reasons.append(f"and {refused - len(reasons)} more")
    were = "1 seed was refused" if refused == 1 else f"{refused} seeds were refused"
    others = "; the other one is stored" if stored == 1 else f"; the other {stored} are stored"
    raise SeedsRefused(f"{were}{others if stored else ''}: {'; '.join(reasons)}", answer=answer)


def refusal_text(seed: RejectedSeed) -> str:
    """`seed 2 (https//docs.example) is not a valid URL; did you mean https://docs.example?`"""
    fault = _FAULTS.get(seed.verdict, "is no seed")
    meant = likely(seed.uri)
    hint = f"; did you mean {meant}?" if meant else ""
    return f"seed {seed.number} ({seed.uri}) {fault}{hint}"


def likely(seed: str) -> str:
    """The URL that was probably meant by a seed with a typo, a comment or no scheme; empty if unclear."""
    text = without_comment(seed)
    if len(text.split()) != 1:
        return ""
    commented = text if text != seed.strip() and "://" in text else ""
    return likely_url(text) or (f"https://{text}" if _HOST.fullmatch(text) else commented)
