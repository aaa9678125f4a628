"""Changes of a crawl's settings, and how people read them."""

import json
from typing import Any

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_client.spec.file import changes
from toehold_client.watching.setting_names import PATHS


def changed_paths(old: CrawlSpec, new: CrawlSpec) -> list[str]:
    """The contract's paths of the settings that differ."""
    return [PATHS[name] for name, _, _ in changes(old, new)]


def change_text(name: str, was: Any, now: Any) -> str:
    """A changed setting for people: `limits.max_documents was 0, is 1000`."""
    return f"{name} was {json.dumps(was)}, is {json.dumps(now)}"
