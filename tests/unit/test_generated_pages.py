"""What is written from the table of settings and from the commands: known to be stale when it is."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest

from frontier_server.core.spec import table
from frontier_server.core.spec.settings import CrawlSettings, ScopeSettings
from frontier_server.core.spec.table import Setting, Within, rows_of
from tools.setting_texts import client, contract, names, words

ROOT = Path(__file__).parents[2]


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A command of tools/."""
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module


def run(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [f"{module.__name__}.py", *arguments])
    main: Callable[[], None] = module.main
    main()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The command, and files of its own."""
    module = tool("settings", monkeypatch)
    for name in ("protos/toehold/frontier/v1", "toehold_client/spec", "docs", "toehold_console"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("PROTO", "PAGE", "CONSOLE"):
        file: Path = getattr(module, name)
        shutil.copy(file, tmp_path / file.relative_to(ROOT))
        set_everywhere(monkeypatch, module, name, tmp_path / file.relative_to(ROOT))
    for part in ("dicts.py", "fields.py", "template.toml"):
        shutil.copy(module.CLIENT / part, tmp_path / "toehold_client/spec" / part)
    monkeypatch.setattr(module, "CLIENT", tmp_path / "toehold_client/spec")
    set_everywhere(monkeypatch, module, "ROOT", tmp_path)
    return module


def set_everywhere(monkeypatch: pytest.MonkeyPatch, settings: ModuleType, name: str, value: object) -> None:
    """Let a name mean something else in the command, and in all of its modules that import it."""
    for module in (settings, client, contract, names, words):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, value)


def with_rows(settings: ModuleType, monkeypatch: pytest.MonkeyPatch, part: type, *others: Setting) -> None:
    """Let a part of the table have other rows in place of those of the same names, or more of them."""

    def changed(asked: type) -> tuple[Setting, ...]:
        if asked is not part:
            return rows_of(asked)
        mine = {row.name: row for row in (*rows_of(part), *others)}
        return tuple(mine.values())

    set_everywhere(monkeypatch, settings, "rows_of", changed)


def row(part: type, name: str) -> Setting:
    (found,) = (row for row in rows_of(part) if row.name == name)
    return found


def test_files_that_are_current_are_left_alone(settings: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings.PROTO.stat().st_mtime_ns
    run(settings, monkeypatch, "--check")
    run(settings, monkeypatch)
    assert settings.PROTO.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("PROTO", "// Default: 20. Range: 0 to 10 000.", "// Default: 21. Range: 0 to 10 000."),
        ("PROTO", "// Default: 20. Range: 0 to 10 000.", "// Default: 20. Range: 0 to 20 000."),
        ("PAGE", "| `20` | 0 to 10 000 |", "| `20` | 0 to 1000 |"),
        ("fields.py", "max_link_hops: _Count = 20", "max_link_hops: _Count = 21"),
        ("template.toml", "# max_link_hops = 20", "# max_link_hops = 21"),
    ],
)
def test_a_default_or_a_bound_that_is_not_the_table_s_is_refused_and_written_anew(
    settings: ModuleType, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str
) -> None:
    path: Path = getattr(settings, file, settings.CLIENT / file)
    current = path.read_text()
    stale = current.replace(old, new, 1)
    assert stale != current
    path.write_text(stale)
    with pytest.raises(SystemExit, match=rf"{path.name}: not current\. Run `make generate`"):
        run(settings, monkeypatch, "--check")
    assert path.read_text() == stale, "the check writes nothing"
    run(settings, monkeypatch)
    assert path.read_text() == current


def test_a_change_of_the_table_reaches_every_file(
    settings: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = replace(row(ScopeSettings, "max_link_hops"), default=7, bound=Within(1, 9))
    with_rows(settings, monkeypatch, ScopeSettings, changed)
    run(settings, monkeypatch)
    assert "// Default: 7. Range: 1 to 9." in settings.PROTO.read_text()
    assert "max_link_hops: _Count = 7\n" in (settings.CLIENT / "fields.py").read_text()
    assert "Range: 1 to 9.\n# max_link_hops = 7\n" in (settings.CLIENT / "template.toml").read_text()
    assert "| `max_link_hops` | `7` | 1 to 9 | live |" in settings.PAGE.read_text()
    told = json.loads(settings.CONSOLE.read_text())["scope.max_link_hops"]
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
    settings: ModuleType, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], told: str
) -> None:
    with_rows(settings, monkeypatch, ScopeSettings, replace(row(ScopeSettings, "max_link_hops"), **change))
    with pytest.raises(SystemExit, match=rf"ScopeSpec\.{told}"):
        run(settings, monkeypatch, "--check")


def test_a_field_of_the_contract_without_a_row_is_refused(
    settings: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = settings.PROTO.read_text()
    settings.PROTO.write_text(
        text.replace(
            "  repeated string schemes = 8;", "  repeated string schemes = 8;\n  // More.\n  int32 more = 99;"
        )
    )
    with pytest.raises(SystemExit, match=r"ScopeSpec\.more: only the contract has it"):
        run(settings, monkeypatch, "--check")


def test_lengths_and_sizes_are_told_in_their_units(settings: ModuleType) -> None:
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


def test_every_setting_is_in_the_reference(settings: ModuleType) -> None:
    page = settings.PAGE.read_text()
    for part in contract.Contract().parts():
        for found in rows_of(part.kind):
            assert found.is_part or f"| `{client.key_of(found)}` |" in page, (part.path, found.name)
    assert len(rows_of(CrawlSettings)) > 20


# The tables of commands.


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The command, and a page of its own."""
    module = tool("commands", monkeypatch)
    shutil.copy(module.PAGE, tmp_path / "cli.md")
    monkeypatch.setattr(module, "PAGE", tmp_path / "cli.md")
    return module


@pytest.mark.parametrize("name", ["commands", "options", "exit codes"])
def test_a_page_of_commands_that_is_stale_is_refused_and_written_anew(
    commands: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    current = commands.PAGE.read_text()
    run(commands, monkeypatch, "--check")
    marker = f"<!-- generated: {name} -->\n"
    stale = current.replace(marker, f"{marker}| other |\n")
    assert stale != current
    commands.PAGE.write_text(stale)
    with pytest.raises(SystemExit, match="make generate"):
        run(commands, monkeypatch, "--check")
    assert commands.PAGE.read_text() == stale, "the check writes nothing"
    run(commands, monkeypatch)
    assert commands.PAGE.read_text() == current


def test_the_manual_has_every_command_and_every_option(commands: ModuleType) -> None:
    page = commands.PAGE.read_text()
    for context in commands.contexts():
        assert f"| `{commands.usage(context)}`".replace("|", "\\|")[1:] in page
        for option, _ in commands.options_of(context):
            assert option.replace("|", "\\|") in page, context.command_path


# The tables of metrics.


def test_a_page_of_metrics_that_is_stale_is_refused_and_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tool("metrics", monkeypatch)
    current = module.PAGE.read_text()
    page = tmp_path / "metrics.md"
    monkeypatch.setattr(module, "PAGE", page)
    page.write_text(current)
    run(module, monkeypatch, "--check")
    page.write_text(
        current.replace("| `toehold_node_toes_wanted` | gauge |", "| `toehold_node_toes_wanted` | counter |")
    )
    with pytest.raises(SystemExit, match="make generate"):
        run(module, monkeypatch, "--check")
    run(module, monkeypatch)
    assert page.read_text() == current
