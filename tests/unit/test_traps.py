"""Paths that no author wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_server.core.uri import traps
from frontier_server.core.uri.traps import LONGEST_SEQUENCE, path_repeats, too_many_segments


@pytest.mark.parametrize(
    ("path", "most", "repeats"),
    [
        ("/a/a/a/boo.html", 2, True),
        ("/a/a/boo.html", 2, False),
        ("/a/a/a", 2, False),
        ("/a/a/a/", 2, True),
        ("/x/a/a/a", 2, False),
        ("/a/b/a/b/a/b/page", 2, True),
        ("/a/b/a/b/a/page", 2, False),
        ("/x/a/b/c/a/b/c/a/b/c/y", 2, True),
        ("/a/x/a/x/b/x/a/x/", 2, False),
        ("/aa/a/a/b/", 2, False),
        ("/a/a/b", 1, True),
        ("/a/a", 1, False),
        ("/a/a/a/a/a/a/", 0, False),
        ("////x", 2, True),
        ("/", 2, False),
        ("", 2, False),
    ],
)
def test_a_sequence_of_segments_that_stands_too_often_in_a_row_is_a_trap(
    path: str, most: int, repeats: bool
) -> None:
    """Heritrix's PathologicalPathDecideRule: more than 2 by default."""
    assert path_repeats(path, most) is repeats


@given(st.lists(st.sampled_from("ab"), max_size=14), st.integers(1, 4))
def test_repetitions_are_found_as_by_trying_each(segments: list[str], most: int) -> None:
    size = len(segments)
    expected = any(
        segments[start : start + length] * (most + 1) == segments[start : start + length * (most + 1)]
        for length in range(1, size + 1)
        for start in range(size - length * (most + 1) + 1)
    )
    assert path_repeats("".join(f"/{segment}" for segment in segments) + "/", most) is expected


def test_a_sequence_may_be_so_long_and_no_longer() -> None:
    for length, repeats in ((LONGEST_SEQUENCE, True), (LONGEST_SEQUENCE + 1, False)):
        sequence = "".join(f"{number}/" for number in range(length))
        assert path_repeats(f"/{sequence * 3}", 2) is repeats


def thue_morse(size: int) -> str:
    """A path of `a` and `b` in which nothing stands three times in a row, though all repeats."""
    return "".join(f"/{'ab'[number.bit_count() % 2]}" for number in range(size)) + "/"


def test_the_work_grows_with_the_path_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile path of 8 KiB, in which each segment has been there before."""
    compared = 0

    def counting(one: str, other: str) -> bool:
        nonlocal compared
        compared += 1
        return one == other

    monkeypatch.setattr(traps, "eq", counting)
    path = thue_morse(4_096)
    assert len(path) > 8_000 and not path_repeats(path, 2)
    assert 4_096 < compared <= LONGEST_SEQUENCE * 4_096
    compared = 0
    assert not path_repeats("".join(f"/{number}" for number in range(1_500)), 2)
    assert not path_repeats("/a/b/c/d/e/f/g.html", 2)
    assert compared == 0  # where no segment is there three times, there is nothing to compare


@pytest.mark.parametrize(
    ("path", "most", "too_many"),
    [
        ("/" + "a/" * 19, 20, False),
        ("/" + "a/" * 20, 20, True),
        ("/a/b", 1, True),
        ("/a", 1, False),
        ("/" * 8_000, 0, False),
    ],
)
def test_a_path_has_so_many_segments_at_most(path: str, most: int, too_many: bool) -> None:
    """Heritrix's TooManyPathSegmentsDecideRule: slashes are counted, 20 by default."""
    assert too_many_segments(path, most) is too_many
