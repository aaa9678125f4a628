"""`make crawl` refuses URLs under a misspelt name, since it would crawl the practice web instead."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def make_crawl(*given: str) -> subprocess.CompletedProcess[str]:
    """Only shows what would run."""
    return subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "crawl", *given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["SEED", "seed", "seeds", "URL", "url", "URLS", "urls", "CONTACT"])
def test_a_misspelt_variable_is_refused_with_the_right_one(name: str) -> None:
    done = make_crawl(f"{name}=https://a.example")
    assert done.returncode == 2 and done.stdout == ""
    assert f"make crawl takes no {name} here" in done.stderr and 'make crawl SEEDS="https://…"' in done.stderr


def test_seeds_need_a_contact_and_are_crawled_with_it() -> None:
    assert "SEEDS also needs CONTACT" in make_crawl("SEEDS=https://a.example").stderr
    assert "toehold crawl --contact" in make_crawl("SEEDS=https://a.example", "CONTACT=me@a.example").stdout
