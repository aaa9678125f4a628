"""Recognises crawler traps by the paths of their URIs.

Traps come from relative links on a page that answers for every path below it (`/a/a/a/a/…`),
and from generators that go ever deeper. The time of both rules is proportional to the path.
"""

from operator import eq

LONGEST_SEQUENCE = 32
"""Most segments of a sequence whose repetition is noticed; this bounds the work. A limit on segments of up
to `LONGEST_SEQUENCE * (most + 1)` excludes longer sequences."""


def path_repeats(path: str, most: int) -> bool:
    """Whether a sequence of whole segments stands more than `most` times in a row; never, if `most` is 0.

    `/a/b/a/b/a/b/page` repeats `a/b/` three times. The last segment counts if a slash
    follows it. (Heritrix's PathologicalPathDecideRule, 2 by default, also looks at the
    host and the query.)
    """
    if most <= 0 or path.count("/") < most + 2:
        return False
    segments = path.split("/")[1:-1]
    if len(set(segments)) > len(segments) - most:
        return False  # too few are alike
    for length in range(1, min(LONGEST_SEQUENCE, len(segments) // (most + 1)) + 1):
        # 1 if a segment equals the one a sequence later: `most` sequences of 1s are most + 1 equal sequences.
        alike = bytes(map(eq, segments, segments[length:]))
        if b"\x01" * (length * most) in alike:
            return True
    return False


def too_many_segments(path: str, most: int) -> bool:
    """Whether a path has more than `most` segments; never, if `most` is 0.

    Counts slashes, as Heritrix's TooManyPathSegmentsDecideRule does (20 by default).
    """
    return most > 0 and path.count("/") > most
