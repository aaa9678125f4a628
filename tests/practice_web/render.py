"""Renders the library documentation of the Python that runs it, by the standard library's pydoc, into a
small web.

    python tests/practice_web/render.py --out build/practice_pages

Done once: a second run finds its own stamp and returns. Pages are spread over the library's hosts, one
folder each; links between hosts are absolute, links within one relative. No link leads off the practice
web's own hosts, except to names that cannot exist. Exit codes: 0 done, 2 wrong usage, 4 pydoc gave too few
pages.
"""

import argparse
import hashlib
import html
import os
import pkgutil
import posixpath
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from practice_web.web import LIBRARY, Origin

WORKERS = 2
CHUNK = 30
"""Modules per child process."""
CHUNK_LIMIT_S = 40.0
"""The time limit of a child; the modules of one that did not make it are tried one by one."""
MODULE_LIMIT_S = 10.0
FEWEST_PAGES = 300
MOST_TOGETHER = 40
"""A package with more modules is spread over several hosts."""

STAMP = ".rendered"

LEFT_OUT = re.compile(
    r"(^|\.)(__main__|tests?|idle_test|_test\w*|test_\w*)(\.|$)"
    r"|^(antigravity|this|idlelib|turtle|turtledemo|tkinter|_tkinter|lib2to3|distutils|ensurepip|site|sitecustomize"
    r"|usercustomize|__hello__|__phello__|_sysconfigdata\w*|xx\w*|_xx\w*|_ctypes_test|pydoc_data|_pyrepl)(\.|$)"
)
"""Modules that act when imported, belong to tests or demos, or need what a machine may not have."""

_CHILD = """
import os, pydoc, sys, warnings
warnings.simplefilter("ignore")
out, *names = sys.argv[1:]
sys.argv = sys.orig_argv = ["pydoc"]
for name in names:
    try:
        thing, resolved = pydoc.resolve(name)
        text = pydoc.html.page(pydoc.describe(thing), pydoc.html.document(thing, resolved))
    except BaseException as error:
        print(name, type(error).__name__, file=sys.stderr)
        continue
    with open(os.path.join(out, name + ".part"), "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    os.rename(file.name, os.path.join(out, name + ".html"))
"""


def modules() -> list[str]:
    """The names of the standard library's modules that are fit to be documented, sorted."""
    paths = sysconfig.get_paths()
    folders = [
        paths["stdlib"],
        sysconfig.get_config_var("DESTSHARED") or str(Path(paths["stdlib"]) / "lib-dynload"),
    ]
    found = {name for name in sys.builtin_module_names if not LEFT_OUT.search(name)}
    found.update(_walk(folders, ""))
    return sorted(found)


def _walk(folders: list[str], prefix: str) -> Iterator[str]:
    for module in pkgutil.iter_modules(folders, prefix):
        if LEFT_OUT.search(module.name) or module.name == "site-packages":
            continue
        yield module.name
        if module.ispkg:
            yield from _walk(
                [str(Path(folder) / module.name.rpartition(".")[2]) for folder in folders], f"{module.name}."
            )


def document(names: Sequence[str], out: Path) -> None:
    """Writes pydoc's page of every module that has one into `out`, as NAME.html."""
    chunks = [names[at : at + CHUNK] for at in range(0, len(names), CHUNK)]
    with ThreadPoolExecutor(WORKERS) as pool:
        done = list(pool.map(lambda chunk: _child(chunk, out, CHUNK_LIMIT_S), chunks))
        alone = [
            name
            for chunk, well in zip(chunks, done, strict=True)
            if not well
            for name in chunk
            if not (out / f"{name}.html").exists()
        ]
        list(pool.map(lambda name: _child([name], out, MODULE_LIMIT_S), alone))


def _child(names: Sequence[str], out: Path, limit_s: float) -> bool:
    """Documents some modules in a child process, where they can do no harm; says whether it came to its
    end.
    """
    environment = {
        "PYTHONHASHSEED": "0",
        "PATH": os.defpath,
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
    }
    command = [sys.executable, "-B", "-P", "-s", "-c", _CHILD, str(out), *names]
    try:
        child = subprocess.run(
            command,
            env=environment,
            cwd=out,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return child.returncode == 0


# --- from modules to hosts and paths ------------------------------------------------------------


def spread(names: Iterable[str]) -> dict[str, Origin]:
    """The host of every module: packages stay together unless they are large, and hosts get equally many."""
    packages: dict[str, list[str]] = {}
    for name in sorted(names):
        packages.setdefault(name.partition(".")[0], []).append(name)
    groups = [
        members[at : at + MOST_TOGETHER]
        for members in packages.values()
        for at in range(0, len(members), MOST_TOGETHER)
    ]
    homes: dict[str, Origin] = {}
    load = dict.fromkeys(LIBRARY, 0)
    for group in sorted(groups, key=lambda group: (-len(group), group[0])):
        home = min(LIBRARY, key=lambda origin: load[origin])
        load[home] += len(group)
        homes.update(dict.fromkeys(group, home))
    return homes


def path_of(name: str, packages: frozenset[str]) -> str:
    """`/json/` of the package json, `/json/decoder.html` of its module."""
    path = "/" + name.replace(".", "/")
    return f"{path}/" if name in packages else f"{path}.html"


def weave(raw: Mapping[str, str], out: Path) -> None:
    """Makes hosts of pydoc's pages (by module name): rewrites their links, and adds first pages and what
    pages embed.
    """
    homes = spread(raw)
    packages = frozenset(name.rpartition(".")[0] for name in raw) & frozenset(raw)
    places = {name: (home, path_of(name, packages)) for name, home in homes.items()}
    for origin in LIBRARY:
        mine = [name for name in sorted(raw) if homes[name] is origin]
        for at, name in enumerate(mine):
            beside = {"prev": mine[at - 1], "next": mine[(at + 1) % len(mine)]}
            _write(out / origin.key, places[name][1], _page(name, raw[name], places, beside))
        _write(
            out / origin.key,
            "/",
            _first_page(origin, [(name, places[name][1]) for name in mine if "." not in name]),
        )
        _write(
            out / origin.key,
            "/members/",
            _small_page("Members", "<p>Some hosts' robots.txt forbid this page."),
        )
        for path, content in _STATIC.items():
            _write(out / origin.key, path, content)


_Places = Mapping[str, tuple[Origin, str]]

_SOURCE = re.compile(r'<a href="file:[^"]*">.*?</a>', re.DOTALL)
_HREF = re.compile(r'<a href="([^"]*)"')
_ADDRESS = re.compile(r"(\bat(?: |&nbsp;)0x|, handle )[0-9a-f]+")
_MODULE_PAGE = re.compile(r"([\w.]+)\.html(#.*)?", re.DOTALL)
_OUTSIDE = re.compile(r"https?://([a-z0-9.-]+)(.*)", re.DOTALL | re.IGNORECASE)


def _page(name: str, raw: str, places: _Places, beside: Mapping[str, str]) -> str:
    """A module's page on its host, with what real pages have: embedded things, a base, a refresh; each page
    other ones.
    """
    home, path = places[name]
    variety = zlib.crc32(name.encode())
    base = {0: "/", 1: f"{home.scheme}://{home.name}/static/"}.get(variety % 12)
    start = path if base is None else "/static/" if base.endswith("/static/") else "/"

    def reach(there: Origin, target: str) -> str:
        if there is not home:
            return f"{there.scheme}://{there.name}{target}"
        if variety % 3 == 0:
            return target
        relative = posixpath.relpath(target, posixpath.dirname(start) or "/")
        return relative + "/" if target.endswith("/") and target != "/" and relative != "." else relative

    def rewrite(found: re.Match[str]) -> str:
        href = html.unescape(found[1])
        if href.startswith("#"):
            return found[0]
        if href == ".":
            return f'<a href="{reach(home, "/")}"'
        module = _MODULE_PAGE.fullmatch(href)
        if module and module[1] in places:
            return f'<a href="{html.escape(reach(*places[module[1]]) + (module[2] or ""))}"'
        outside = _OUTSIDE.fullmatch(href)
        if outside:
            return f'<a href="https://{outside[1].lower()}.outside.example{html.escape(outside[2])}"'
        return "<a"

    head = [
        f'<link rel="stylesheet" href="{reach(home, "/static/style.css")}">',
        f'<link rel="canonical" href="{home.scheme}://{home.name}{path}">',
        f'<script src="{reach(home, "/static/menu.js")}"></script>',
        *(f'<link rel="{rel}" href="{reach(*places[module])}">' for rel, module in beside.items()),
    ]
    if base is not None:
        head.insert(0, f'<base href="{base}">')
    package = name.rpartition(".")[0]
    if variety % 5 == 0 and package in places:
        head.append(f'<meta http-equiv="refresh" content="900; url={reach(*places[package])}">')
    tail = ""
    if variety % 4 == 0:
        image = reach(home, "/static/image.png")
        tail += f'<img src="{image}" srcset="{image} 1x, {reach(home, "/static/image-2x.png")} 2x" alt="">'
    if variety % 7 == 0:
        tail += f'<iframe src="{reach(home, "/static/aside.html")}"></iframe>'
    text = _HREF.sub(rewrite, _ADDRESS.sub(r"\g<1>0", _SOURCE.sub(name, raw)))
    return text.replace("<title>", "\n".join(head) + "\n<title>", 1).replace("</body>", tail + "</body>", 1)


def _first_page(origin: Origin, pages: Sequence[tuple[str, str]]) -> str:
    """Lists the given modules; those inside packages are found only by following links."""
    items = "".join(f'<li><a href="{path}">{name}</a></li>\n' for name, path in pages)
    others = "".join(f'<a href="{other.scheme}://{other.name}/">{other.name}</a>\n' for other in LIBRARY)
    return _small_page(origin.name, f'{others}<a href="/members/">Members</a>\n<ul>{items}</ul>')


def _small_page(title: str, body: str) -> str:
    head = f'<head><meta charset="utf-8"><title>{title}</title></head>'
    return f"<!DOCTYPE html>\n<html>{head}<body>{body}</body></html>"


_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d494844520000000100000001080000000"
    "03a7e9b550000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
)
_STATIC: dict[str, str | bytes] = {
    "/static/": _small_page("Embedded things", "<p>Fragments of pages whose base is this folder lead here."),
    "/static/style.css": "body { font-family: sans-serif }\n",
    "/static/menu.js": "document.title += ' | practice web';\n",
    "/static/aside.html": _small_page("Aside", '<p>Embedded. <a href="../">Home</a>'),
    "/static/image.png": _PIXEL,
    "/static/image-2x.png": _PIXEL,
}


def _write(folder: Path, path: str, content: str | bytes) -> None:
    file = folder / (path.removeprefix("/") + ("index.html" if path.endswith("/") else ""))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))


# --- the program --------------------------------------------------------------------------------


def render(out: Path, names: Sequence[str], *, fewest: int) -> int:
    """Renders the modules into `out` (replacing what an earlier run put there) and returns the number of
    pages.

    Raises ValueError if `out` holds something else, or if fewer than `fewest` pages came about.
    """
    if out.exists() and any(out.iterdir()) and not (out / STAMP).exists():
        raise ValueError(f"{out} is not empty and was not rendered by this program: name another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".rendering-") as scratch:
        raw_folder, woven = Path(scratch) / "raw", Path(scratch) / "woven"
        raw_folder.mkdir()
        document(names, raw_folder)
        raw = {file.stem: file.read_text(encoding="utf-8") for file in raw_folder.glob("*.html")}
        if len(raw) < fewest:
            raise ValueError(
                f"pydoc rendered {len(raw)} of {len(names)} modules; at least {fewest} are needed"
            )
        weave(raw, woven)
        (woven / STAMP).write_text(_stamp())
        if out.exists():
            shutil.rmtree(out)
        woven.rename(out)
    return len(raw)


def _stamp() -> str:
    """What the pages depend on: this Python and the programs that make them."""
    sources = (Path(__file__), Path(__file__).with_name("web.py"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return f"{sys.version}\n{digest}\n"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="render.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the pages go")
    out: Path = parser.parse_args().out.absolute()
    stamp = out / STAMP
    if stamp.exists() and stamp.read_text() == _stamp():
        return
    try:
        count = render(out, modules(), fewest=FEWEST_PAGES)
    except (OSError, ValueError) as error:
        print(f"render.py: {error}", file=sys.stderr)
        sys.exit(4)
    print(f"{count} pages in {out}")


if __name__ == "__main__":
    main()
