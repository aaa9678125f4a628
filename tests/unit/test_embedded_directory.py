"""Which directories a crawl may use: begun, taken up, refused with the reason, or moved aside."""

import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.crawl_pb2 import CrawlSpec, LimitSpec
from toehold_cli import frontier_file
from toehold_cli.embedded import directory as directory_module
from toehold_cli.embedded.crawl_file import write_json
from toehold_cli.embedded.directory import CrawlDirectory, open_directory
from toehold_cli.embedded.node_plan import NodePlan
from toehold_cli.embedded.plan import Plan
from toehold_cli.exits import BadDirectory, DirectoryRefused, Interrupted
from toehold_client.errors import FrontierUnavailable
from toehold_client.watching.crawl_directory import is_finished
from toehold_client.watching.interruptions import Interruptions

PLAN = Plan("crawl", CrawlSpec(allowed_addresses=["loopback"]), ("http://localhost/",))

Opener = Callable[..., AbstractContextManager[CrawlDirectory]]


@pytest.fixture
def interruptions() -> Iterator[Interruptions]:
    with Interruptions() as counted:
        yield counted


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def opened(interruptions: Interruptions, said: list[str]) -> Opener:
    def open_it(path: Path, plan: Plan = PLAN, fresh: bool = False) -> AbstractContextManager[CrawlDirectory]:
        return open_directory(path, plan, interruptions, fresh=fresh, say=said.append)

    return open_it


def finish(path: Path, exit_status: str = "FINISHED", **more: object) -> None:
    write_json(path / "report.json", {"state": "FINISHED", "exit_status": exit_status, **more})


def with_plan(**changes: Any) -> Plan:
    return replace(PLAN, **changes)


def test_a_directory_that_does_not_exist_is_made_with_its_parents(opened: Opener, tmp_path: Path) -> None:
    with opened(tmp_path / "a" / "b") as directory:
        assert directory.new
        assert directory.warcs.is_dir() and directory.frontier_log.parent.is_dir()
        assert json.loads((directory.path / "crawl.json").read_text())["seeds"] == ["http://localhost/"]


def test_an_empty_directory_is_used(opened: Opener, tmp_path: Path) -> None:
    with opened(tmp_path) as directory:
        assert directory.new


def test_what_a_killed_run_left_before_it_had_begun_is_no_obstacle(opened: Opener, tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    (tmp_path / "crawl.json").rename(tmp_path / "crawl.json.tmp")
    with opened(tmp_path) as directory:
        assert directory.new


def test_the_same_crawl_is_taken_up_again(opened: Opener, tmp_path: Path) -> None:
    with opened(tmp_path) as first:
        write_json(first.report, {"state": "PAUSED"})
    with opened(tmp_path) as again:
        assert not again.new


def test_how_the_node_runs_may_change_from_run_to_run(opened: Opener, tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    node = NodePlan(toes=1, resolve=("a.example:80:127.0.0.1",), processes=2, pages=True, hook="a:b")
    with opened(tmp_path, Plan(PLAN.crawl, PLAN.spec, PLAN.seeds, node)) as again:
        assert not again.new
        assert again.pages.is_dir()


def test_a_crawl_keeps_the_number_of_its_shards(opened: Opener, tmp_path: Path) -> None:
    with opened(tmp_path, with_plan(shards=3)) as directory:
        directory.frontier.mkdir()
        (directory.frontier / "shards.json").write_text('{"shards": 3}')
    for shards in (0, 3):
        with opened(tmp_path, with_plan(shards=shards)):
            pass
    told = re.escape(f"the crawl in {tmp_path} has 3 shards, got --shards 1. Leave --shards out.")
    with pytest.raises(DirectoryRefused, match=told), opened(tmp_path, with_plan(shards=1)):
        pass


def test_a_crawl_without_shards_gets_none_later(opened: Opener, tmp_path: Path) -> None:
    with opened(tmp_path) as directory:
        (directory.frontier / "store").mkdir(parents=True)
    told = re.escape("has 1 shard, got --shards 2")
    with pytest.raises(DirectoryRefused, match=told), opened(tmp_path, with_plan(shards=2)):
        pass


def test_only_what_will_be_written_has_a_place(opened: Opener, tmp_path: Path) -> None:
    plan = Plan(PLAN.crawl, PLAN.spec, PLAN.seeds, NodePlan(warc=False, pages=True))
    with opened(tmp_path, plan) as directory:
        assert directory.pages.is_dir() and directory.logs.is_dir() and not directory.warcs.exists()


def test_a_directory_of_something_else_is_refused_and_left_alone(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    for fresh in (False, True):
        with pytest.raises(BadDirectory, match="is not empty"), opened(tmp_path, fresh=fresh):
            pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_no_directory(opened: Opener, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(BadDirectory, match="is not a directory"), opened(file):
        pass
    with pytest.raises(BadDirectory, match="cannot be used"), opened(file / "below"):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_directory_is_told(opened: Opener, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BadDirectory, match="Permission denied"), opened(tmp_path):
        pass


@pytest.mark.parametrize(
    ("exit_status", "limit", "told"),
    [
        ("FINISHED", None, "has finished: nothing was left to fetch"),
        ("ABORTED", None, "was stopped"),
        (
            "FINISHED_DOCUMENT_LIMIT",
            {"setting": "limits.max_documents", "value": 7},
            "ended at its limit, limits.max_documents = 7\n"
            "To fetch more, run the same command with a higher --max-pages.",
        ),
        (
            "FINISHED_TIME_LIMIT",
            None,
            "ended at its limit, limits.max_elapsed_seconds\n"
            "To fetch more, run the same command with a higher --max-time.",
        ),
        (
            "FINISHED_DATA_LIMIT",
            None,
            "ended at its limit, limits.max_bytes\n"
            "To fetch more, run the same command with a higher limits.max_bytes in --spec FILE.",
        ),
    ],
)
def test_a_crawl_that_has_ended_says_how_and_what_one_can_do(
    opened: Opener, tmp_path: Path, exit_status: str, limit: object, told: str
) -> None:
    with opened(tmp_path):
        pass
    finish(tmp_path, exit_status, limit=limit)
    with pytest.raises(DirectoryRefused) as refusal, opened(tmp_path):
        pass
    assert str(refusal.value) == (
        f"the crawl in {tmp_path} {told}\n"
        "--recrawl fetches its pages again. --fresh moves it aside and starts a new one."
    )


LIMITED = CrawlSpec(allowed_addresses=["loopback"], limits=LimitSpec(max_documents=5))


@pytest.mark.parametrize(
    "plan",
    [
        with_plan(spec=LIMITED),
        with_plan(seeds=(*PLAN.seeds, "http://localhost/b")),
        with_plan(recrawl=True),
    ],
)
def test_a_crawl_goes_on_with_other_settings_or_more_seeds_even_if_it_has_ended(
    opened: Opener, tmp_path: Path, plan: Plan
) -> None:
    with opened(tmp_path):
        pass
    for has_ended in (False, True):
        if has_ended:
            finish(tmp_path)
        with opened(tmp_path, plan) as directory:
            assert directory.asked == PLAN.asked


def test_a_recrawl_that_was_killed_while_it_was_prepared_goes_on(opened: Opener, tmp_path: Path) -> None:
    asked = replace(PLAN.asked, recrawl_before=Timestamp(seconds=1_900_000_000), command="toehold crawl")
    with opened(tmp_path) as directory:
        directory.remember(asked)
    finish(tmp_path)
    with opened(tmp_path) as directory:
        assert directory.asked == asked


def test_the_report_of_a_crawl_that_is_reopened_is_gone_unless_that_fails(
    opened: Opener, tmp_path: Path
) -> None:
    with opened(tmp_path) as directory:
        finish(tmp_path)
        with pytest.raises(KeyError), directory.reopening():
            raise KeyError
        assert is_finished(tmp_path)
        with directory.reopening():
            assert not is_finished(tmp_path)
        assert not directory.report.exists()


def test_a_crawl_of_another_name_is_refused(opened: Opener, tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with pytest.raises(DirectoryRefused, match=r"holds the crawl 'crawl', not 'other'\. .*--fresh"):
        opened(tmp_path, with_plan(crawl="other")).__enter__()


def test_a_crawl_keeps_its_seeds_and_those_that_are_missing_are_listed_up_to_a_number(
    opened: Opener, tmp_path: Path
) -> None:
    seeds = tuple(f"http://localhost/{n:02}" for n in range(30))
    with opened(tmp_path, with_plan(seeds=seeds)):
        pass
    with opened(tmp_path, with_plan(seeds=seeds[::-1])) as again:
        assert not again.new, "their order does not matter"
    with pytest.raises(DirectoryRefused) as refusal, opened(tmp_path, with_plan(seeds=seeds[:1])):
        pass
    told = str(refusal.value)
    assert re.search(r"keeps its seeds, .* also has:\n  http://localhost/01\n", told)
    assert "\n  and 19 more\nGive them too, " in told and "--fresh" in told


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"crawl": "crawl", "spec": {"x": 1}, "seeds": []}'])
def test_a_damaged_record_of_the_crawl_is_told(opened: Opener, tmp_path: Path, damage: str) -> None:
    (tmp_path / "crawl.json").write_text(damage)
    with pytest.raises(DirectoryRefused, match=r"crawl\.json is damaged"), opened(tmp_path):
        pass


def test_fresh_moves_the_old_crawl_aside_again_and_again(
    opened: Opener, tmp_path: Path, said: list[str]
) -> None:
    path = tmp_path / "crawl"
    for number in range(3):
        with opened(path, fresh=True) as directory:
            assert directory.new
            (directory.warcs / f"{number}.warc.gz").touch()
        finish(path)
    assert (tmp_path / "crawl.1" / "warcs" / "0.warc.gz").exists()
    assert (tmp_path / "crawl.2" / "warcs" / "1.warc.gz").exists()
    assert said == [f"Moved the old crawl to {path}.{number}." for number in (1, 2)]


def test_a_directory_in_use_is_refused_even_with_fresh(opened: Opener, tmp_path: Path) -> None:
    with opened(tmp_path / "crawl"):
        for fresh in (False, True):
            with (
                pytest.raises(DirectoryRefused, match="another `toehold crawl` is running"),
                opened(tmp_path / "crawl", fresh=fresh),
            ):
                pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["crawl"]


def test_programs_of_a_killed_run_are_waited_for_but_not_for_ever(
    opened: Opener, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_module, "PATIENCE_S", 0.3)
    with opened(tmp_path) as directory:
        held = os.dup(directory.locks.programs)  # as a program has it
    try:
        with pytest.raises(DirectoryRefused, match="still run"), opened(tmp_path):
            pass
    finally:
        os.close(held)
    assert "Waiting for the programs of an earlier run" in said[0]
    with opened(tmp_path) as again:
        assert not again.new


def test_the_wait_for_programs_can_be_interrupted(
    opened: Opener, tmp_path: Path, interruptions: Interruptions
) -> None:
    with opened(tmp_path) as directory:
        held = os.dup(directory.locks.programs)
    interruptions.interrupt_once()
    with pytest.raises(Interrupted), opened(tmp_path):
        pass
    os.close(held)


def test_a_crawl_that_never_came_to_be_leaves_nothing(opened: Opener, tmp_path: Path) -> None:
    made, empty = tmp_path / "made", tmp_path / "empty"
    empty.mkdir()
    for path in (made, empty):
        with opened(path) as directory:
            (directory.frontier / "store").mkdir(parents=True)
            directory.discard()
    assert not made.exists()
    assert list(empty.iterdir()) == [], "what was there before stays"


def test_with_fresh_it_leaves_the_old_crawl_where_it_was(opened: Opener, tmp_path: Path) -> None:
    path = tmp_path / "crawl"
    with opened(path) as old:
        (old.warcs / "old.warc.gz").touch()
    with opened(path, fresh=True) as directory:
        directory.discard()
    assert (path / "warcs" / "old.warc.gz").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["crawl"]


def test_other_shells_find_the_frontier_while_it_is_announced(opened: Opener, tmp_path: Path) -> None:
    with opened(tmp_path) as directory, socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        directory.announce_frontier(address, os.getpid(), "crawl")
        found = frontier_file.find(tmp_path)
        assert (found.address, found.pid, found.crawl) == (address, os.getpid(), "crawl")
        server.close()
        with pytest.raises(FrontierUnavailable, match="has ended"):
            frontier_file.find(tmp_path)
        directory.withdraw_frontier()
        directory.withdraw_frontier()
    assert not (tmp_path / frontier_file.NAME).exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"state": "PAUSED"}', "\x00"])
def test_only_a_whole_report_of_a_finished_crawl_says_that_it_has(tmp_path: Path, content: str) -> None:
    assert not is_finished(tmp_path)
    (tmp_path / "report.json").write_text(content)
    assert not is_finished(tmp_path)
    finish(tmp_path)
    assert is_finished(tmp_path)
