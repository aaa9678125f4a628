"""Which files of a directory the console offers as those of a crawl."""

from pathlib import Path

import pytest

from toehold_base.serving.addresses import Address
from toehold_console.crawl_files import CrawlFiles
from toehold_console.settings import Settings

OLD = "toehold-20231114221320123-00000-n~7.warc.gz"
"""As nodes named their files when all crawls shared them."""


@pytest.mark.parametrize(
    ("name", "crawls"),
    [
        ("toehold-docs-20231114221320123-00000-n~7.warc.gz", {"docs"}),
        ("LIB-1-docs-20231114221320123-00000-n~7.jsonl", {"docs"}),
        ("toehold-docs-20231114221320123-00000-n~7.warc.gz.open", {"docs"}),
        ("toehold-docs.2-20231114221320123-00000-n~7.warc.gz.torn", {"docs.2"}),
        ("toehold-other-20231114221320123-00000-docs~7.warc.gz", set()),
        (OLD, {"docs", "docs.2", "docs-2"}),
        (".n~7.warc.gz.lock", set()),
    ],
)
def test_a_crawl_has_the_files_that_name_it(tmp_path: Path, name: str, crawls: set[str]) -> None:
    for folder in ("warcs", "pages"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    files = CrawlFiles(Settings("127.0.0.1:1", Address("127.0.0.1", 1), directory=tmp_path))
    for crawl in ("docs", "docs.2", "docs-2"):
        found = [(file.folder, file.name) for file in files.of(crawl)]
        assert found == ([("warcs", name), ("pages", name)] if crawl in crawls else [])
        assert (files.named(crawl, "warcs", name) is not None) == (crawl in crawls)


def test_a_crawl_in_several_shards_has_a_log_in_each_and_one_of_its_events(tmp_path: Path) -> None:
    data = tmp_path / "frontier"
    for part, name in (("shard-0000", "crawl.log"), ("shard-0001", "crawl.log"), ("coordinator", "job.log")):
        log = data / part / "crawls" / "docs" / name
        log.parent.mkdir(parents=True)
        log.touch()
    files = CrawlFiles(Settings("127.0.0.1:1", Address("127.0.0.1", 1), directory=tmp_path))
    assert [(file.folder, file.name) for file in files.of("docs")] == [
        ("shard-0000", "crawl.log"),
        ("shard-0001", "crawl.log"),
        ("logs", "job.log"),
    ]
    found = files.named("docs", "shard-0001", "crawl.log")
    assert found is not None and found.path == data / "shard-0001" / "crawls" / "docs" / "crawl.log"
