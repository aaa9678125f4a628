"""Writes whatever repeats the table of settings, or checks that it is current.

The table is `core/spec/settings.py` of the server. The meaning of each setting is its comment in crawl.proto.
From both come the last paragraph of those comments (default and range), the keys and the template of the
client's spec file, docs/settings.md, and what the console tells about them. `settings.py --check` only
compares, and exits with 1 where they differ. Fields of the contract that differ from the table are an error
in both cases.
"""

import sys

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


def main() -> None:
    contract = Contract()
    if wrong := list(differences(contract, "CrawlSpec", CrawlSettings)):
        sys.exit("\n".join([*wrong, f"{PROTO.name} and the table of settings differ."]))
    wanted = {
        PROTO: commented(contract),
        CLIENT / "fields.py": client_fields(contract),
        CLIENT / "dicts.py": client_dicts(contract),
        CLIENT / "template.toml": template(contract),
        PAGE: page(contract),
        CONSOLE: console_settings(contract),
    }
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    names = [str(path.relative_to(ROOT)) for path in stale]
    if sys.argv[1:] == ["--check"]:
        if stale:
            sys.exit(f"{', '.join(names)}: not current. Run `make generate` and commit what it writes.")
        return
    for path, name in zip(stale, names, strict=True):
        path.write_text(wanted[path])
        print(f"{name}: written")


if __name__ == "__main__":
    main()
