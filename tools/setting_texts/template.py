"""The template of a spec file: each setting with its comment, its range and its default."""

import json
import re
from typing import Any

from frontier_server.core.spec.settings import MAX_INT32
from frontier_server.core.spec.table import Setting, Within
from tools.setting_texts.client import key_of, toml_value
from tools.setting_texts.contract import Contract, Field, SpecPart
from tools.setting_texts.names import Names
from tools.setting_texts.words import default_of, range_of, sentence, wrapped

BEFORE_CONTACT = """\
# A crawl's spec. Settings that are commented out show their defaults: remove the "# " to change them.

# The crawl's name: 1 to 64 of the characters a-z, 0-9, -, _ and ., beginning with a letter or digit.
name = "my-crawl"
"""
AFTER_CONTACT = """\
# The URLs where the crawl begins. A seed without a scheme gets https://. The hosts of the seeds are in scope.
seeds = []

# The path, relative to this file, of a file with further seeds, one per line. Blank lines and comments,
# which begin with #, don't count.
# seeds_file = ""

# The path, relative to this file, of a file with further SURT prefixes: lines of +PREFIX and -PREFIX (see
# scope.surt_prefixes). Blank lines and comments, which begin with #, don't count.
# surt_prefixes_file = ""
"""
# The values of examples of tables in lists. Other settings of such a table show their defaults.
EXAMPLES: dict[str, dict[str, Any]] = {
    "groups": {"name": "shop", "hosts": ["www.example.com", "images.example.com"]},
    "retry.statuses": {"fetch_status": -4, "max_attempts": 3, "delay_seconds": 60.0, "growth": 2.0},
    "fetch.credentials": {
        "surt_prefix": "https://www.example.com/members/",
        "user": "archive",
        "password": "secret",
    },
    "identity.rewrites": {"pattern": "[?&]utm_[a-z]+=[^&]*", "replacement": ""},
}


def template(contract: Contract) -> str:
    """The spec file that `toehold init` writes."""
    names, shown = Names(contract), set[str]()
    tables = [part for part in contract.parts() if not part.listed]
    sections = []
    for part in tables:
        settings = [pair for pair in contract.settings(part.message, part.kind) if not pair[1].is_part]
        told = [setting_in_toml(contract, names, part, *pair) for pair in settings]
        if not part.path:
            text = "\n\n".join([BEFORE_CONTACT.rstrip(), told[0], AFTER_CONTACT.rstrip(), *told[1:]])
        else:
            repeated = part.message in shown
            comment = names.in_toml(contract.comment_of(part)[0], part.message)
            head = "\n".join([*wrapped(comment, "# "), f"[{part.path}]"])
            if repeated:
                told = ["\n".join(each.splitlines()[-1] for each in told)]
            text = "\n\n".join([head, *told])
        shown.add(part.message)
        sections.append(("\n" if "." not in part.path and part.path else "") + text)
    return "\n\n".join(sections) + "\n"


def setting_in_toml(contract: Contract, names: Names, part: SpecPart, field: Field, row: Setting) -> str:
    """A setting with its comment; commented out unless everybody has to set it."""
    told = [field.comment[0]]
    if row.gives_way is not None:
        told.append(f"Default: {default_of(contract, field, row)}.")
    if row.ms or not (isinstance(row.bound, Within) and row.bound.most >= MAX_INT32):  # which is no bound
        range_ = [text for text in range_of(contract, field, row) if not choices_are_told(text, field)]
        told.append(sentence(range_, row))
    lines = wrapped(names.in_toml(" ".join(filter(None, told)), part.message), "# ")
    if row.element_is_part:
        lines += example(contract, names, f"{part.path}.{field.proto.name}".lstrip("."))
    return "\n".join(
        [*lines, f"# {key_of(row)} = {toml_value(contract, field, row)}".removeprefix(uncommented(row))]
    )


def choices_are_told(text: str, field: Field) -> bool:
    """Whether the comment names all choices already."""
    choices = re.findall(r"`[^`]+`", text) if "one of " in text else []
    return bool(choices) and all(choice in field.comment[0] for choice in choices)


def uncommented(row: Setting) -> str:
    return "# " if row.name == "contact" else ""


def example(contract: Contract, names: Names, path: str) -> list[str]:
    """An element of a list of tables."""
    (part,) = (each for each in contract.parts() if each.path == path)
    values = [
        (f"{key_of(row)} = {example_value(EXAMPLES[path].get(key_of(row)), contract, field, row)}", field)
        for field, row in contract.settings(part.message, part.kind)
    ]
    width = max(len(value) for value, _ in values)
    lines = []
    for value, field in values:
        comment = names.in_toml(field.comment[0], part.message)
        line = f"#   {value:{width}}  # {comment}"
        lines.append(line if len(line) <= 110 else f"#   {value}")
    return ["#", f"#   [[{path}]]", *lines, "#"]


def example_value(value: Any, contract: Contract, field: Field, row: Setting) -> str:
    if value is None:
        return toml_value(contract, field, row)
    return f"'{value}'" if isinstance(value, str) and "[" in value else json.dumps(value)
