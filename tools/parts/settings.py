"""Whatever repeats the table of settings.

The table is `core/spec/settings.py` of the server. The meaning of each setting is its comment in crawl.proto.
From both come the last paragraph of those comments (default and range), the keys and the template of the
client's spec file, docs/settings.md, and what the console tells about them. Fields of the contract that are
unlike the table are an error.
"""

import sys
from pathlib import Path

from frontier_server.core.spec.settings import CrawlSettings
from tools.setting_texts.client import client_dicts, client_fields
from tools.setting_texts.console import console_settings
from tools.setting_texts.contract import PROTO, ROOT, Contract, differences
from tools.setting_texts.page import page
from tools.setting_texts.template import template
from tools.setting_texts.words import commented

CLIENT = ROOT / "toehold_client/spec"
PAGE = ROOT / "docs/settings.md"
CONSOLE = ROOT / "toehold_console/settings.json"


def files() -> dict[Path, str]:
    contract = Contract()
    if wrong := list(differences(contract, "CrawlSpec", CrawlSettings)):
        sys.exit("\n".join([*wrong, f"{PROTO.name} and the table of settings differ."]))
    return {
        PROTO: commented(contract),
        CLIENT / "fields.py": client_fields(contract),
        CLIENT / "dicts.py": client_dicts(contract),
        CLIENT / "template.toml": template(contract),
        PAGE: page(contract),
        CONSOLE: console_settings(contract),
    }
