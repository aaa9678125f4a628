"""The names that settings have in a spec file, also within comments, which have those of the contract."""

import json
import re

from frontier_server.core.spec.table import OneOf, rows_of
from tools.setting_texts.client import key_of
from tools.setting_texts.contract import Contract, field_name


class Names:
    """The names of settings in comments, turned into those that a spec file has."""

    def __init__(self, contract: Contract) -> None:
        self._paths: dict[tuple[str, str], str] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._choices: set[tuple[str, str]] = set()
        for part in contract.parts():
            for row in rows_of(part.kind):
                if isinstance(row.bound, OneOf):
                    self._choices |= {(part.message, choice) for choice in row.bound.choices}
                at = (part.message, field_name(row))
                self._keys[at] = key_of(row)
                self._paths.setdefault(at, f"{part.path}.{key_of(row)}".lstrip("."))

    def replaced(self, text: str, message: str) -> str:
        """A comment of a message, with the keys of a spec file in backticks."""

        def path(found: re.Match[str]) -> str:
            known = self._paths.get((found["message"], found["field"]))
            return f"`{known}`" if known else found[0]

        def key(found: re.Match[str]) -> str:
            name = found[1]
            return f"`{self._keys.get((message, name)) or self._keys.get(('CrawlSpec', name)) or name}`"

        text = re.sub(r"`(?P<field>\w+)` of (?P<message>\w+Spec)\b", path, text)
        text = re.sub(r"\b(?P<message>\w+Spec)\.(?P<field>\w+)\b", path, text)
        return re.sub(r"`(\w+)`", key, text)

    def in_toml(self, text: str, message: str) -> str:
        """The same without backticks, as TOML has it: keys bare, values quoted."""
        keys = {*self._keys.values(), *self._paths.values()}
        keys -= {choice for of, choice in self._choices if of == message}

        def word(found: re.Match[str]) -> str:
            return found[1] if found[1] in keys else json.dumps(found[1])

        return re.sub(r"`([^`]*)`", word, self.replaced(" ".join(text.split()), message))
