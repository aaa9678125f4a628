"""The user's own function: what it is given, and what becomes of its errors."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from node_doubles.leases import lease
from node_doubles.stages import page

from crawler_node.extraction.links import Hop, Outlink
from crawler_node.fetching.outcome import Truncation
from crawler_node.output.hook import Hook, HookPage, load
from crawler_node.output.logs import RUNTIME_ERRORS, NodeLogs
from crawler_node.output.visit import PageVisit


def visit(body: bytes = b"<title>T</title><p>text", status: int = 200, **more: object) -> PageVisit:
    return PageVisit(lease("http://h/"), page("http://h/", status, body, **more))


def test_it_is_given_all_there_is_to_say_of_a_page() -> None:
    found = lease("http://h/", crawl="news", path="L")
    found.via, found.seed = "http://v/", True
    fetch = page("http://h/", 203, b"<title>T</title><p>text", truncation=Truncation.TIME)
    fetch.headers.append((b"X-Odd", b"caf\xe9"))
    links = [Outlink("http://h/1", Hop.LINK, "a/@href")]
    given: list[HookPage] = []
    Hook(lambda page: given.append(page), NodeLogs())(PageVisit(found, fetch, links))
    (one,) = given
    assert (one.url, one.crawl, one.status, one.media_type) == ("http://h/", "news", 203, "text/html")
    assert one.headers == [("Content-Type", "text/html; charset=utf-8"), ("X-Odd", "café")]
    assert (one.via, one.path, one.seed, one.truncated) == ("http://v/", "L", True, "time")
    assert one.links == links
    assert (one.title, one.text) == ("T", "text")
    assert one.body == b"<title>T</title><p>text" and one.read(7) == b"<title>"


def test_of_what_is_no_text_it_has_the_body_alone() -> None:
    given: list[HookPage] = []
    image = visit(b"\x89PNG", headers=[(b"Content-Type", b"image/png")])
    Hook(lambda page: given.append(page), NodeLogs())(image)
    assert (given[0].title, given[0].text, given[0].body) == (None, None, b"\x89PNG")


def raising(error: BaseException) -> Callable[[HookPage], object]:
    def hook(page: HookPage) -> object:
        raise error

    return hook


def looped() -> dict[str, object]:
    loop: dict[str, object] = {}
    loop["loop"] = loop
    return loop


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        (raising(KeyError("missing")), "KeyError: 'missing'"),
        (raising(SystemExit(3)), "SystemExit: 3"),
        (raising(RecursionError("too deep")), "RecursionError: too deep"),
        (lambda page: "text", "TypeError: a hook must return a mapping or None, got a str"),
        (lambda page: {"when": object()}, "TypeError: Object of type object is not JSON serializable"),
        (lambda page: {"rate": float("nan")}, "ValueError: Out of range float values"),
        (
            lambda page: {"long": "x" * 1_000_000},
            "ValueError: a hook's value must have at most 1000000 characters as JSON, got 1000011",
        ),
        (lambda page: looped(), "ValueError: Circular reference"),
        (lambda page: page.nothing, "AttributeError: 'HookPage' object has no attribute 'nothing'"),
    ],
)
def test_what_goes_wrong_in_it_is_logged_and_remarked_on_and_nothing_else_happens(
    tmp_path: Path, hook: Callable[[HookPage], object], told: str
) -> None:
    logs = NodeLogs(tmp_path)
    failed = visit()
    assert Hook(hook, logs)(failed) == ("hookFailed",)
    assert failed.extra == ""
    text = (tmp_path / RUNTIME_ERRORS).read_text()
    assert text.splitlines()[0].endswith(" http://h/") and told in text and "    Traceback " in text


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_is_the_whole_nodes_business_is_not_held_back(error: type[BaseException]) -> None:
    """S4.12, S4.13"""
    with pytest.raises(error):
        Hook(raising(error()), NodeLogs())(visit())


# Where it is found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere"])
    return tmp_path


def test_it_is_found_by_its_import_path_in_the_present_directory(here: Path) -> None:
    (here / "my_hook_a.py").write_text(
        "class Pages:\n    @staticmethod\n    def one(page): return {'a': 1}\n"
    )
    function = load("my_hook_a:Pages.one")
    failed = visit()
    Hook(function, NodeLogs())(failed)
    assert failed.extra == '{"a":1}'


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("my_hook_b", "must have the form 'package.module:function'"),
        (":page", "must have the form"),
        ("my_hook_b:", "must have the form"),
        ("no_such_module_at_all:page", "cannot be imported: ModuleNotFoundError: No module named"),
        ("my_hook_b:pages", "module my_hook_b has no pages"),
        ("my_hook_b:number", "number must be a function, got one of type int"),
        ("my_hook_broken:page", "cannot be imported: ZeroDivisionError: division by zero"),
        ("my_hook_wrong:page", "cannot be imported: AttributeError: module 'sys' has no attribute 'nothing'"),
        ("my_hook_odd:page", "cannot be imported: SyntaxError: "),
        ("my_hook_exit:page", "cannot be imported: SystemExit: 1"),
        ("..my_hook_b:page", "cannot be imported: "),
    ],
)
def test_a_path_that_leads_nowhere_is_refused_in_words(here: Path, path: str, problem: str) -> None:
    (here / "my_hook_b.py").write_text("number = 1\ndef page(page): return None\n")
    (here / "my_hook_broken.py").write_text("1 / 0\n")
    (here / "my_hook_wrong.py").write_text("import sys\nsys.nothing\n")
    (here / "my_hook_odd.py").write_text("def page(:\n")
    (here / "my_hook_exit.py").write_text("raise SystemExit(1)\n")
    with pytest.raises(ValueError, match=r"^hook ") as refused:
        load(path)
    assert problem in str(refused.value) and repr(path) in str(refused.value)


def test_the_function_in_the_manual_does_what_it_says(here: Path) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
    (example,) = re.findall(
        r"^```python\n(from crawler_node\.output\.hook.*?)^```", manual, re.DOTALL | re.MULTILINE
    )
    (here / "my_pages.py").write_text(example)
    assert "--hook my_pages:page" in manual
    hook = Hook(load("my_pages:page"), NodeLogs())
    there, missing = visit(b"<p>three words here"), visit(status=404)
    assert (hook(there), there.extra) == ((), '{"words":3}')
    assert (hook(missing), missing.extra) == ((), "")
