"""The reference of all settings: docs/settings.md."""

import re

from frontier_server.core.spec.settings import CrawlSettings
from frontier_server.core.spec.table import Fixed, Setting
from tools.setting_texts.client import key_of, toml_value
from tools.setting_texts.contract import Contract, Field, SpecPart
from tools.setting_texts.names import Names
from tools.setting_texts.words import default_of, range_of, wrapped

PAGE_HEAD = """\
# Settings of a crawl

`make generate` writes this page from the table of settings and the comments of the contract. The names are
those of a spec file; `toehold init` writes a spec file with all of them. Lengths of time are in seconds,
sizes in bytes.

| changes | |
|---|---|
| live | An update can change it while the crawl lives: `toehold set`, `toehold update`. |
| live, prefix | An override can change it, too, for the URIs under a SURT prefix: `toehold overrides put`. |
| grows | An update can only add to it. |
| fixed | It is fixed when the crawl is created. |
"""


def page(contract: Contract) -> str:
    """docs/settings.md."""
    names = Names(contract)
    overridable = {
        "limits.host_quota" if field.proto.name == "host_quota" else field.proto.name
        for field in contract.fields["OverrideSettings"]
        if field.message
    }
    sections = [PAGE_HEAD]
    for part in contract.parts():
        settings = [pair for pair in contract.settings(part.message, part.kind) if not pair[1].is_part]
        title = "A crawl" if not part.path else f"`[[{part.path}]]`" if part.listed else f"`[{part.path}]`"
        lines = [f"## {title}", ""]
        if part.path:
            lines += [
                "\n".join(wrapped_list(names.replaced(each, part.message))) + "\n"
                for each in contract.comment_of(part)
            ]
        lines += ["| setting | default | range | changes | meaning |", "|---|---|---|---|---|"]
        of_prefix = part.path in overridable or part.path.rpartition(".")[0] in overridable
        for field, row in settings:
            cells = [
                f"`{key_of(row)}`",
                "required" if row.required else default_in_page(contract, names, part, field, row),
                names.replaced("; ".join(range_of(contract, field, row)), part.message),
                changes(contract, part, row, of_prefix),
                "<br>".join(flat(names.replaced(each, part.message)) for each in field.comment),
            ]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        sections.append("\n".join([*lines, ""]))
    return "\n".join(sections)


def default_in_page(contract: Contract, names: Names, part: SpecPart, field: Field, row: Setting) -> str:
    if row.gives_way is None:
        return f"`{toml_value(contract, field, row)}`"
    _, _, way = names.replaced(default_of(contract, field, row), part.message).partition(",")
    return f"`{toml_value(contract, field, row)}`,{way}"


def changes(contract: Contract, part: SpecPart, row: Setting, of_prefix: bool) -> str:
    if row.element_is_part:
        return f"see `[[{part.path}.{key_of(row)}]]`".replace("[[.", "[[")
    above = {pair[0].proto.name: pair[1] for pair in contract.settings("CrawlSpec", CrawlSettings)}
    top = above.get(part.path.partition(".")[0])
    if Fixed.FOR_LIFE in row.fixed or (top is not None and Fixed.FOR_LIFE in top.fixed):
        return "fixed"
    if Fixed.GROWS in row.fixed:
        return "grows"
    return "live, prefix" if of_prefix and Fixed.FOR_ALL_URIS not in row.fixed else "live"


def flat(paragraph: str) -> str:
    """A paragraph as one line of a table; items of a list are lines of their own."""
    items = re.split(r"\n(?=- )", paragraph)
    return "<br>".join(
        " ".join(item.removeprefix("- ").split()) if len(items) > 1 else " ".join(item.split())
        for item in items
    )


def wrapped_list(paragraph: str) -> list[str]:
    """A paragraph, or a list, in lines."""
    items = re.split(r"\n(?=- |\d\. )", paragraph)
    return [line for item in items for line in wrapped(" ".join(item.split()), "")]
