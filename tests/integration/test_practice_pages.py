"""The practice web's pages: pydoc's, rendered the same each time, in child processes that may fail."""

from pathlib import Path

import pytest

from practice_web import render
from practice_web.web import LIBRARY, Origin

SOME = [
    *("base64", "bisect", "colorsys", "html", "html.entities", "html.parser", "json"),
    *("json.decoder", "string"),
]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("render") / "pages"
    assert render.render(out, SOME, fewest=len(SOME)) == len(SOME)
    return out


def test_rendering_is_the_same_each_time_and_replaces_what_was_there(rendered: Path, tmp_path: Path) -> None:
    out = tmp_path / "pages"
    render.render(out, [*SOME, "this.is.no.module"], fewest=1)
    (out / "alpha" / "old.html").write_text("of an earlier run")
    render.render(out, SOME, fewest=1)
    assert tree(out) == tree(rendered)
    assert list(tmp_path.iterdir()) == [out]


def test_modules_of_a_child_that_fails_are_tried_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "CHUNK_LIMIT_S", 0.0)
    render.document(["bisect", "colorsys", "this.is.no.module"], tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bisect.html", "colorsys.html"]


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(ValueError, match="was not rendered by this program"):
        render.render(tmp_path, SOME, fewest=1)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_too_few_pages_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rendered 1 of 1 modules; at least 2"):
        render.render(tmp_path / "pages", ["bisect"], fewest=2)
    assert list(tmp_path.iterdir()) == []


def test_no_link_names_a_file_or_a_real_host(rendered: Path) -> None:
    for name, content in tree(rendered).items():
        for start in content.split(b'href="')[1:]:
            href = start.partition(b'"')[0]
            assert not href.startswith(b"file:"), name
            if href.startswith(b"http"):
                assert href.split(b"/")[2].endswith(b".example"), name


def test_modules_that_act_when_imported_are_left_out() -> None:
    names = render.modules()
    assert len(names) > render.FEWEST_PAGES
    roots = {name.partition(".")[0] for name in names}
    assert not roots & {
        "antigravity",
        "this",
        "idlelib",
        "turtledemo",
        "turtle",
        "tkinter",
        "test",
        "__main__",
    }
    assert not [name for name in names if "test" in name.split(".") or name.endswith("__main__")]
    assert {"os", "sys", "json.decoder", "asyncio.events"} <= set(names)


def test_modules_are_spread_evenly_and_packages_stay_together() -> None:
    names = (
        [f"m{n}" for n in range(100)] + [f"big.m{n}" for n in range(100)] + [f"small.m{n}" for n in range(9)]
    )
    homes = render.spread(names)
    load: dict[Origin, int] = dict.fromkeys(LIBRARY, 0)
    for home in homes.values():
        load[home] += 1
    assert max(load.values()) - min(load.values()) <= render.MOST_TOGETHER
    assert len({homes[f"small.m{n}"] for n in range(9)}) == 1
    assert len({homes[f"big.m{n}"] for n in range(100)}) == 3
