"""The fetchers in examples/, each on one host of the practice web; `make examples` runs them on more."""

from pathlib import Path

import pytest
from example_fetchers.languages import Example, examples
from example_fetchers.runs import alone

HOSTS = ("epsilon",)


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.language)
def test_a_fetcher_in_another_language_fetches_every_page_once_and_ends_without_loss(
    example: Example, tmp_path: Path
) -> None:
    _skip_unless_built(example)
    assert alone(example, tmp_path, HOSTS).complaints == []


def _skip_unless_built(example: Example) -> None:
    # A build may take minutes and needs the network, so tests only use what is there.
    if missing := example.missing_tools:
        pytest.skip(f"{example.language}: this machine has no {', '.join(missing)}")
    if not example.is_built:
        pytest.skip(f"{example.language}: not built from the present source; make examples builds it")
