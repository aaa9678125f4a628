"""How the node of `toehold crawl` is asked to run: its command line, and what makes no sense."""

import os
from collections.abc import Iterable
from pathlib import Path

import click
import pytest
from click.core import ParameterSource

from crawler_node.program import main as node
from toehold_cli.embedded.node_plan import NodePlan, usual_processes
from toehold_cli.exits import BadPlan
from toehold_cli.main import toehold

WARCS, PAGES, MIRROR, LOGS = Path("warcs"), Path("pages"), Path("mirror"), Path("logs")

ALL = NodePlan(
    toes=8,
    processes=2,
    warc_metadata="outlinks",
    gzip_level=9,
    pages=True,
    pages_text="html",
    mirror=True,
    hook="mine:page",
    file_prefix="LIB",
    max_file_mib=3,
    max_file_hours=0.5,
    max_bytes_per_second=1_000,
    resolve=("a.example:80:127.0.0.1", "b.example:80:127.0.0.2"),
    ca_file=Path("ca.pem"),
)

FILES = NodePlan(warc=False, pages=True, file_prefix="x", max_file_mib=1, max_file_hours=1)


def parsed(plan: NodePlan) -> dict[str, object]:
    """The node's options from its command line, without defaults."""
    arguments = list(plan.arguments(WARCS, PAGES, MIRROR, LOGS))
    with node.make_context("toehold-node", arguments) as context:
        source = context.get_parameter_source
        return {
            name: value
            for name, value in context.params.items()
            if source(name) is ParameterSource.COMMANDLINE
        }


def test_by_itself_it_writes_warc_files_and_always_logs() -> None:
    assert parsed(NodePlan()) == {"toes": 16, "warc": WARCS, "logs": LOGS}


def test_the_node_understands_all_that_it_is_told() -> None:
    assert parsed(ALL) == {
        "toes": 8,
        "processes": 2,
        "warc": WARCS,
        "warc_metadata": "outlinks",
        "gzip_level": 9,
        "pages": PAGES,
        "pages_text": "html",
        "mirror": MIRROR,
        "hook": "mine:page",
        "file_prefix": "LIB",
        "max_file_mib": 3,
        "max_file_hours": 0.5,
        "logs": LOGS,
        "max_bytes_per_second": 1_000,
        "resolves": ("a.example:80:127.0.0.1", "b.example:80:127.0.0.2"),
        "ca_file": Path("ca.pem"),
    }


@pytest.mark.parametrize(
    ("processors", "toes", "hook", "bytes_per_second", "processes"),
    [
        (2, 16, None, None, 2),
        (64, 16, None, None, 4),
        (96, 400, None, None, 64),
        (2, 7, None, None, None),
        (1, 16, None, None, None),
        (8, 16, "mine:page", None, None),
        (8, 16, None, 1_000_000, None),
    ],
)
def test_each_processor_has_a_process_unless_it_would_have_hardly_a_toe(
    monkeypatch: pytest.MonkeyPatch,
    processors: int,
    toes: int,
    hook: str | None,
    bytes_per_second: int | None,
    processes: int | None,
) -> None:
    def affinity(pid: int) -> Iterable[int]:
        return set(range(processors))

    monkeypatch.setattr(os, "sched_getaffinity", affinity)
    assert usual_processes(toes, hook, bytes_per_second) == processes


def test_where_processes_are_bound_to_no_processor_all_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert usual_processes(16, None, None) == 3


def test_without_warc_there_is_no_place_for_it() -> None:
    assert parsed(NodePlan(warc=False, hook="a:b")) == {"toes": 16, "hook": "a:b", "logs": LOGS}


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (NodePlan(warc=False), "--no-warc needs --pages, --mirror or --hook"),
        (NodePlan(warc=False, pages=True, warc_metadata="none"), "--warc-metadata"),
        (NodePlan(pages_text="html"), "--pages-text"),
        (NodePlan(warc=False, pages=True, gzip_level=1), "--gzip-level"),
        (NodePlan(warc=False, mirror=True, file_prefix="x"), "--file-prefix"),
        (NodePlan(warc=False, mirror=True, max_file_mib=1), "--max-file-mib"),
        (NodePlan(warc=False, hook="a:b", max_file_hours=1), "--max-file-hours"),
    ],
)
def test_options_that_contradict_each_other_are_told(plan: NodePlan, told: str) -> None:
    with pytest.raises(BadPlan, match=told):
        plan.check()


@pytest.mark.parametrize(
    "plan", [NodePlan(), ALL, NodePlan(warc=False, mirror=True), NodePlan(warc=False, hook="a:b"), FILES]
)
def test_all_others_are_taken(plan: NodePlan) -> None:
    plan.check()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("toes", ["0", "1", "1000", "1001"]),
        ("processes", ["0", "1", "64", "65"]),
        ("warc_metadata", ["none", "visit", "outlinks", "all"]),
        ("pages_text", ["text", "html", "none", "all"]),
        ("gzip_level", ["0", "1", "9", "10"]),
        ("max_file_mib", ["0", "1", "100000"]),
        ("max_file_hours", ["0", "0.1", "1000"]),
    ],
)
def test_toehold_crawl_takes_the_values_that_the_node_takes(name: str, values: list[str]) -> None:
    def taken(command: click.Command) -> list[str]:
        (option,) = [option for option in command.params if option.name == name]
        return [value for value in values if takes(option, value)]

    def takes(option: click.Parameter, value: str) -> bool:
        try:
            option.type.convert(value, None, None)
        except click.BadParameter:
            return False
        return True

    assert taken(toehold.commands["crawl"]) == taken(node)
    assert 0 < len(taken(node)) < len(values)
