"""What is generated: known to be stale when it is, and made of the table of settings and of the commands."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any

import pytest

from frontier_server.core.spec import table
from frontier_server.core.spec.settings import CrawlSettings, ScopeSettings
from frontier_server.core.spec.table import Setting, Within, rows_of
from tools import generate
from tools.parts import commands, conformance, pages, settings
from tools.setting_texts import client, contract, names, words

MARKED = "Before.\n<!-- generated: part -->\n{}\n<!-- /generated -->\nAfter.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a part has a page of its own, a new file, and one that is left over."""
    page = tmp_path / "page.md"
    page.write_text(MARKED.format("old"))
    (tmp_path / "left.py").write_text("left = 1\n")

    def files() -> generate.Files:
        made = pages.page(page, {"part": lambda: "new\n"})
        return {**made, tmp_path / "new.py": "new = 1\n", tmp_path / "left.py": None}

    monkeypatch.setitem(sys.modules, "tools.parts.example", SimpleNamespace(files=files))
    monkeypatch.setattr(generate, "PARTS", ("example",))
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    return tmp_path


def test_check_names_every_file_that_is_not_current_and_writes_none(folder: Path) -> None:
    with pytest.raises(SystemExit, match=r"page\.md, new\.py, left\.py: not current\. Run `make generate`"):
        generate.main(["--check"])
    assert (folder / "page.md").read_text() == MARKED.format("old")
    assert (folder / "left.py").exists() and not (folder / "new.py").exists()


def test_generate_writes_what_is_not_current_and_leaves_the_rest_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate.main(["example"])
    assert (folder / "page.md").read_text() == MARKED.format("new")
    assert (folder / "new.py").read_text() == "new = 1\n" and not (folder / "left.py").exists()
    assert capsys.readouterr().out == "page.md: written\nnew.py: written\nleft.py: removed\n"
    generate.main(["--check"])
    generate.main([])
    assert capsys.readouterr().out == ""


def test_generate_refuses_a_part_that_it_does_not_have() -> None:
    with pytest.raises(SystemExit, match=r"pictures: not a part\. The parts are settings, "):
        generate.main(["pictures"])


# The table of settings.


def set_everywhere(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Let a name mean something else in every module that imports it."""
    modules: tuple[ModuleType, ...] = (settings, client, contract, names, words)
    for module in modules:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, value)


def with_rows(monkeypatch: pytest.MonkeyPatch, part: type, *others: Setting) -> None:
    """Let a part of the table have other rows in place of those of the same names, or more of them."""

    def changed(asked: type) -> tuple[Setting, ...]:
        if asked is not part:
            return rows_of(asked)
        mine = {row.name: row for row in (*rows_of(part), *others)}
        return tuple(mine.values())

    set_everywhere(monkeypatch, "rows_of", changed)


def row(part: type, name: str) -> Setting:
    (found,) = (row for row in rows_of(part) if row.name == name)
    return found


def test_a_change_of_the_table_reaches_every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = replace(row(ScopeSettings, "max_link_hops"), default=7, bound=Within(1, 9))
    with_rows(monkeypatch, ScopeSettings, changed)
    made = {path.name: text for path, text in settings.files().items()}
    assert "// Default: 7. Range: 1 to 9." in made["crawl.proto"]
    assert "max_link_hops: _Count = 7\n" in made["fields.py"]
    assert "Range: 1 to 9.\n# max_link_hops = 7\n" in made["template.toml"]
    assert "| `max_link_hops` | `7` | 1 to 9 | live |" in made["settings.md"]
    told = json.loads(made["settings.json"])["scope.max_link_hops"]
    assert (told["default"], told["range"]) == ("7", "1 to 9")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "max_hops", "contract_name": "max_hops"}, "max_hops: only the table has it"),
        ({"kind": str, "bound": None}, "max_link_hops: they have other types"),
        ({"kind": tuple, "element": int}, "max_link_hops: one is a list"),
        ({"ms": True}, "max_link_hops: one is a length of time"),
        ({"bound": None}, "max_link_hops: a number needs a bound"),
        ({"bound": Within(0, 1 << 31)}, "max_link_hops: the bound is larger than the type"),
    ],
)
def test_a_row_that_is_not_the_contract_s_field_is_refused(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], told: str
) -> None:
    with_rows(monkeypatch, ScopeSettings, replace(row(ScopeSettings, "max_link_hops"), **change))
    with pytest.raises(SystemExit, match=rf"ScopeSpec\.{told}"):
        settings.files()


def test_a_field_of_the_contract_without_a_row_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = "  repeated string schemes = 8;"
    text = contract.PROTO.read_text().replace(before, f"{before}\n  // More.\n  int32 more = 99;")
    proto = tmp_path / contract.PROTO.relative_to(contract.ROOT)
    proto.parent.mkdir(parents=True)
    proto.write_text(text)
    set_everywhere(monkeypatch, "PROTO", proto)
    set_everywhere(monkeypatch, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"ScopeSpec\.more: only the contract has it"):
        settings.files()


def test_lengths_and_sizes_are_told_in_their_units() -> None:
    @dataclass
    class Part:
        bytes_: int
        time_ms: Annotated[int, Within(0, 1)]
        count: int

    size, time, count = table.rows_of(Part)
    assert [words.amount(ms, time) for ms in (0, 1, 1_500, 14_400_000)] == [
        "0 s",
        "1 ms",
        "1.5 s",
        "14 400 s",
    ]
    assert [words.amount(days * 86_400_000, time) for days in (1, 7, 365, 3_650)] == [
        "1 day",
        "7 days",
        "1 year",
        "10 years",
    ]
    assert [words.amount(number, count) for number in (1000, 10_000, 1 << 62, (1 << 31) - 1)] == [
        "1000",
        "10 000",
        "2^62",
        "2^31 - 1",
    ]
    assert words.amount(100 << 20, replace(size, name="max_bytes")) == "100 MiB"
    assert words.amount(1 << 40, replace(size, name="max_bytes")) == "1 TiB"


def test_every_setting_is_in_the_reference() -> None:
    page = settings.PAGE.read_text()
    for part in contract.Contract().parts():
        for found in rows_of(part.kind):
            assert found.is_part or f"| `{client.key_of(found)}` |" in page, (part.path, found.name)
    assert len(rows_of(CrawlSettings)) > 20


# The tables of commands.


def test_the_manual_has_every_command_and_every_option() -> None:
    page = commands.PAGE.read_text()
    for context in commands.contexts():
        assert f"| `{commands.usage(context)}`".replace("|", "\\|")[1:] in page
        for option, _ in commands.options_of(context):
            assert option.replace("|", "\\|") in page, context.command_path


# The table of fetchers.


def test_the_table_of_fetchers_keeps_earlier_results() -> None:
    first, second, *_ = conformance.NAMES
    shown = {"go": {first: True, second: False}, "rust": dict.fromkeys(conformance.NAMES, True), "java": {}}
    rows = [conformance.row(name, held) for name, held in shown.items()]
    page = f"<!-- generated: fetchers -->\n{pages.table(conformance.HEAD, rows)}<!-- /generated -->\n"
    assert {name: held for name, held in conformance.columns_of(page).items() if name in shown} == shown
