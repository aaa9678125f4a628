"""The console's texts about each setting: toehold_console/settings.json."""

import json

from tools.setting_texts.client import key_of
from tools.setting_texts.contract import Contract
from tools.setting_texts.names import Names
from tools.setting_texts.page import changes, default_in_page, flat
from tools.setting_texts.words import range_of


def console_settings(contract: Contract) -> str:
    """The settings by their names in a spec file. A list changes as a whole, so its elements are left out."""
    names = Names(contract)
    told: dict[str, dict[str, str]] = {}
    for part in contract.parts():
        if part.listed:
            continue
        for field, row in contract.settings(part.message, part.kind):
            if row.is_part:
                continue
            name = f"{part.path}.{key_of(row)}" if part.path else key_of(row)
            told[name] = {
                "default": ""
                if row.required
                else default_in_page(contract, names, part, field, row).strip("`"),
                "range": names.replaced("; ".join(range_of(contract, field, row)), part.message),
                "changes": changes(contract, part, row, False),
                "meaning": flat(names.replaced(field.comment[0], part.message)) if field.comment else "",
            }
    return json.dumps(told, ensure_ascii=False, indent=1) + "\n"
