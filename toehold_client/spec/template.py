"""Fills values into a spec file's template, beside the comments of the settings that they replace."""

import json
import re
from collections.abc import Mapping
from typing import Any

from toehold.frontier.v1.crawl_pb2 import CrawlSpec

from .file import template
from .plain import flat, set_to_plain

_TABLE = re.compile(r"\[([a-z_.]+)\]")
_SETTING = re.compile(r"(?:# )?([a-z_]+) = ")


def filled(spec: CrawlSpec, beside: Mapping[str, Any]) -> str:
    """The template with the values that are set in `spec`, and those of keys beside it, such as `seeds`.

    Only for values without tables in lists.
    """
    values = {**flat(set_to_plain(spec)), **beside}
    lines, table, shown = [], "", set[str]()
    for line in template().splitlines():
        header, setting = _TABLE.fullmatch(line), _SETTING.match(line)
        if header is not None:
            table = f"{header[1]}."
        path = f"{table}{setting[1]}" if setting is not None else ""
        if path in values:
            assert setting is not None and path not in shown
            shown.add(path)
            line = f"{setting[1]} = {_toml(values[path])}"
        lines.append(line)
    assert shown == values.keys(), values.keys() - shown
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
