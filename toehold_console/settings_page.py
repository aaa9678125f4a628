"""The settings of a crawl for a page: values, defaults and meanings, and who changed what when."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_client.controller import CrawlController
from toehold_client.errors import InvalidArgument
from toehold_client.events import Event
from toehold_client.spec import file as spec_file
from toehold_client.spec.plain import flat
from toehold_client.watching.setting_names import read_settings

from . import shown

MAX_TEXT = 100_000


@cache
def told() -> Mapping[str, Mapping[str, str]]:
    """Default, range, meaning and whether it can change, by the name of the setting."""
    text = (resources.files(__package__) / "settings.json").read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, str]] = json.loads(text)
    return found


def record(crawl: CrawlController, acts: Iterable[Event]) -> dict[str, Any]:
    """All settings of a crawl, and the changes that are known."""
    values = flat(spec_file.plain(crawl.describe().spec))
    defaults = flat(spec_file.plain(CrawlSpec()))
    changes = [shown.event(event) for event in acts if event.operator_acted.action in ("update", "reopen")]
    return {
        "settings": [
            {"name": name, "value": values[name], "is_default": values[name] == defaults[name], **about}
            for name, about in told().items()
            if name in values
        ],
        "changes": changes[::-1],
    }


def change(crawl: CrawlController, name: str, text: str) -> list[dict[str, Any]]:
    """Changes a setting to the value in a text, written as in a spec file; an empty text means its default.
    Returns what has changed. InvalidSpec, InvalidArgument, and the errors of an update."""
    if name not in told():
        raise InvalidArgument(f"{name[:200]!r} is not a setting; docs/settings.md lists all of them")
    if len(text) > MAX_TEXT:
        raise InvalidArgument(f"a value must have at most {MAX_TEXT} characters, got {len(text)}")
    wanted, paths = read_settings([f"{name}={text}"])
    stored = crawl.describe().spec
    changed = spec_file.changes(stored, crawl.frontier.update_crawl(crawl.crawl, wanted, paths).spec)
    return [{"name": each, "was": was, "is": now} for each, was, now in changed]
