"""The file of a server's callers, as commands change it. The comments that people write into it stay."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from toehold_base.access import callers_file
from toehold_base.access.callers_file import CallerRow, CallersInvalid
from toehold_base.access.tokens import NewToken, new_token
from toehold_client.errors import InvalidArgument

from .files import SECRET, locked, replace_file

_SHOWN = 5  # callers in a message
_HEAD = """\
# The callers of a Toehold frontier or node (docs/network.md). 'toehold callers', 'toehold tokens' and
# 'toehold certs revoke' change this file; you may edit it, too. Its servers notice within a second.
"""


class Registry:
    """A file of callers."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def callers(self) -> Mapping[str, CallerRow]:
        """All callers, by name. InvalidArgument if the file cannot be used."""
        try:
            return callers_file.read(self._path)
        except CallersInvalid as error:
            raise InvalidArgument(str(error)) from None

    def set_caller(self, name: str, settings: Mapping[str, Any]) -> bool:
        """Adds a caller, or changes one; whether it is new. A value of None removes the setting."""
        with self._changed() as callers:
            is_new = name not in callers
            if is_new:
                if not settings.get("roles"):
                    raise InvalidArgument(f"caller {name!r} is new, so it needs at least one --role")
                callers[name] = tomlkit.table()
            for key, value in settings.items():
                if value is None:
                    callers[name].pop(key, None)
                else:
                    callers[name][key] = value
        return is_new

    def revoke_caller(self, name: str) -> None:
        """Takes all rights from a caller, from now on."""
        with self._changed() as callers:
            self._caller(callers, name)["revoked"] = _now()

    def create_token(self, name: str, days: int | None) -> NewToken:
        """Makes a token of a caller; without `days` it never expires."""
        made = new_token()
        with self._changed() as callers:
            row = tomlkit.table()
            row["id"], row["sha256"], row["made"] = made.id, made.digest, _now()
            if days is not None:
                row["expires"] = _now() + timedelta(days=days)
            self._caller(callers, name).setdefault("tokens", tomlkit.aot()).append(row)
        return made

    def revoke_token(self, token_id: str) -> str:
        """Ends a token, from now on; the name of its caller."""
        with self._changed() as callers:
            for name, caller in callers.items():
                for row in caller.get("tokens", ()):
                    if row["id"] == token_id:
                        row["revoked"] = _now()
                        return str(name)
            raise InvalidArgument(f"{self._path} has no token {token_id!r}; 'toehold tokens' lists them")

    def revoke_certificate(self, name: str, serial: str) -> None:
        """Ends a certificate of a caller."""
        with self._changed() as callers:
            caller = self._caller(callers, name)
            serials: list[str] = list(caller.get("revoked_certificates", ()))
            if serial not in serials:
                caller["revoked_certificates"] = [*serials, serial]

    @contextmanager
    def _changed(self) -> Iterator[Any]:
        """The table of the callers, which is checked and written if the context ends well."""
        target = self._path.resolve() if self._path.is_symlink() else self._path
        with locked(target.parent):
            document = self._document()
            callers = document.setdefault("callers", tomlkit.table(is_super_table=True))
            yield callers
            content = tomlkit.dumps(document)
            try:
                callers_file.parsed(content)
            except ValueError as error:
                raise InvalidArgument(str(error)) from None
            replace_file(self._path, content.encode(), SECRET, is_shared=True)

    def _document(self) -> Any:
        try:
            text = callers_file.text_of(self._path) if self._path.exists() else _HEAD
            callers_file.parsed(text)
            return tomlkit.parse(text)
        except CallersInvalid as error:
            raise InvalidArgument(str(error)) from None
        except (ValueError, TOMLKitError) as error:
            raise InvalidArgument(f"callers file {self._path}: {error}") from None

    def _caller(self, callers: Any, name: str) -> Any:
        if name not in callers:
            known = [*list(callers)[:_SHOWN], *(["…"] if len(callers) > _SHOWN else [])]
            raise InvalidArgument(
                f"{self._path} has no caller {name!r}; it has {', '.join(known) or 'none'}. To add it: "
                f"toehold callers set {name} --role ROLE"
            )
        return callers[name]


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
