"""Judges our own node, and each example that is built, by the conformance kit.

Writes their columns of the table in docs/fetchers.md; columns of examples that are not built stay. Exits
with 1 if one of these fetchers does not conform.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from toehold_conformance import kit, table
from tools.generate import out_of_date, write
from tools.parts.conformance import LANGUAGES, NODE, Columns, files

EXAMPLES = Path(__file__).resolve().parent.parent / "build" / "examples"
FLAGS = ("--frontier", "{frontier}", "--crawl", "{crawl}", "--name", "{name}", "--toes", "10")


def main() -> None:
    columns: Columns = {}
    conforming = True
    for name, command in fetchers():
        results = kit.run(command)
        print(f"{name}: {table.summary(results)}")
        for result in results:
            if not result.holds:
                print(f"  {result.case.name}: {table.reason(result)}")
        columns[name] = {result.case.name: result.holds for result in results}
        conforming = conforming and kit.conforms(results)
    for path, text in out_of_date(files(columns)):
        write(path, text)
    if not conforming:
        sys.exit(1)


def fetchers() -> Iterator[tuple[str, list[str]]]:
    """Our own node and the examples that are built, and how to run them."""
    node = str(Path(sys.executable).with_name(NODE))
    yield NODE, [node, *FLAGS, "--warc", "{dir}"]
    for language in LANGUAGES:
        program = EXAMPLES / language / "fetcher"
        if program.exists():
            yield language, [str(program), *FLAGS]
        else:
            print(f"{language}: not built (make examples), so its column stays as it is")


if __name__ == "__main__":
    main()
