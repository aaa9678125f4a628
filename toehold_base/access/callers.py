"""The callers of a server: identified by their credentials, and allowed what their roles say.

The table of a file is read anew when the file changes (`reload_if_changed`), so that tokens and callers come
and go while the server runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from threading import Lock

from . import callers_file
from .callers_file import CallerRow, CallersInvalid, TokenRow
from .denials import PermissionDenied, Unauthenticated
from .files import mark_of
from .roles import ROLES, Role, all_of
from .shown import Shown
from .tokens import digest_of, token_in

_SHOWN = 5  # names in a message


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who is known to a server."""

    name: str
    roles: frozenset[Role]
    crawls: frozenset[str] | None = None
    """The crawls that it may act on; None means all."""
    nodes: tuple[str, ...] = ()
    """The nodes that it may speak for. `north` stands for `north/1` too, `north-*` for all that begin so."""
    max_calls: int | None = None
    max_candidates_per_second: int | None = None

    @property
    def sees_secrets(self) -> bool:
        """Whether it may read the passwords in a spec."""
        return Role.ADMIN in self.roles

    def check_role(self, method: str) -> None:
        """Raise PermissionDenied unless it may call an RPC, by its full name."""
        needed = ROLES[method]
        if not needed & self.roles:
            has = ", ".join(sorted(role.value for role in self.roles))
            raise PermissionDenied(
                "ROLE_MISSING",
                f"{method.rpartition('/')[2]} is for callers with the role {all_of(needed)};"
                f" caller {self.name!r} has {has}",
                caller=self.name,
            )

    def check_crawls(self, method: str, crawls: Iterable[str]) -> None:
        """Raise PermissionDenied if it may not act on one of the crawls that a call names, or if it names
        none, as that means all of them."""
        if self.crawls is None:
            return
        named = [crawl for crawl in crawls if crawl]
        wrong = next((crawl for crawl in named if crawl not in self.crawls), None)
        if wrong is None and named:
            return
        its = _some(sorted(self.crawls))
        about = (
            f"not on {wrong!r:.80}"
            if wrong is not None
            else f"and {method.rpartition('/')[2]} is about all crawls"
        )
        raise PermissionDenied(
            "CRAWL_NOT_ALLOWED",
            f"caller {self.name!r} may act on the crawls {its}, {about}",
            caller=self.name,
        )

    def speaks_for(self, node: str) -> bool:
        """Whether it may act in the name of a node."""
        if Role.ADMIN in self.roles and self.crawls is None:  # other nodes have leases of other crawls
            return True
        return any(_is_of(node, pattern) for pattern in self.nodes)

    def check_node(self, node: str) -> None:
        """Raise PermissionDenied unless it may act in the name of a node."""
        if not self.speaks_for(node):
            raise PermissionDenied(
                "NODE_NOT_ALLOWED",
                f"caller {self.name!r} may speak for the nodes {_some(self.nodes)}, not for {node!r:.140}",
                caller=self.name,
            )


class Callers:
    """The callers in a file."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises CallersInvalid."""
        self._path = path
        self._mark = mark_of(path)
        self._table = _Table(_read(path))
        self._reading = Lock()

    def __len__(self) -> int:
        return len(self._table.callers)

    def reload_if_changed(self) -> bool:
        """Read the file again if it has changed; whether it has. Any thread may call it.

        Raises CallersInvalid, once for each change; the callers stay as they were.
        """
        with self._reading:
            return self._reload_if_changed()

    def _reload_if_changed(self) -> bool:
        mark = mark_of(self._path)
        if mark == self._mark:
            return False
        try:
            rows = _read(self._path)
        finally:
            changed = mark_of(self._path) != mark
            if not changed:
                self._mark = mark
        if changed:  # somebody writes it right now
            return False
        self._table = _Table(rows)
        return True

    def identified(self, shown: Shown, now: datetime) -> Caller:
        """The caller of a call. Raises Unauthenticated.

        A token tells more than a certificate, so it decides if there are both. A certificate that is revoked
        or has expired lets nobody in, whatever comes with it.
        """
        if shown.name:
            return self._table.of_name(shown.name, now)
        if shown.authorization:
            if shown.certificate:
                self._table.check_certificate(shown.certificate, now)
            return self._table.of_token(token_in(shown.authorization), now)
        if shown.certificate:
            return self._table.of_certificate(shown.certificate, now)
        raise Unauthenticated(
            "CREDENTIALS_MISSING",
            "the call has no credentials; send a token, or present a client certificate over TLS",
        )


def _read(path: Path) -> Mapping[str, CallerRow]:
    """The callers in a file. Raises CallersInvalid, also if there are none: a file that somebody writes is
    empty for a moment."""
    rows = callers_file.read(path)
    if not rows:
        raise CallersInvalid(
            f"callers file {path} must have a caller, but has none; 'toehold callers set NAME --role ROLE' "
            "adds one"
        )
    return rows


class _Table:
    """The callers as read from the file once."""

    def __init__(self, rows: Mapping[str, CallerRow]) -> None:
        self._rows = rows
        self.callers = {name: _caller(name, row) for name, row in rows.items()}
        self._revoked_serials = {
            name: {callers_file.normal_serial(serial) for serial in row.revoked_certificates}
            for name, row in rows.items()
            if row.revoked_certificates
        }
        self._tokens = {token.sha256: (name, token) for name, row in rows.items() for token in row.tokens}

    def of_token(self, token: str, now: datetime) -> Caller:
        if not token:
            raise Unauthenticated("TOKEN_UNKNOWN", "authorization must be `Bearer TOKEN`, got something else")
        found = self._tokens.get(digest_of(token))
        if found is None:
            raise Unauthenticated(
                "TOKEN_UNKNOWN", "the server does not know the token; ask its admin for one"
            )
        name, row = found
        _check_token(name, row, now)
        return self._present(name, now)

    def of_certificate(self, pem: bytes, now: datetime) -> Caller:
        names = _facts_of(pem)[0]
        if len(names) != 1:
            raise Unauthenticated(
                "CALLER_UNKNOWN",
                f"a client certificate must have one common name, the caller's, but has {_some(names)}",
            )
        (name,) = names
        self.check_certificate(pem, now)
        if name not in self._rows:
            raise Unauthenticated(
                "CALLER_UNKNOWN",
                f"the client certificate is of {name!r:.140}, who is not among the server's callers",
            )
        return self._present(name, now)

    def of_name(self, name: str, now: datetime) -> Caller:
        if name not in self._rows:
            raise Unauthenticated("CALLER_UNKNOWN", f"{name!r:.140} is not among the server's callers")
        return self._present(name, now)

    def check_certificate(self, pem: bytes, now: datetime) -> None:
        """Raise Unauthenticated for a certificate that has expired or is revoked, or whose caller is."""
        names, serial, until = _facts_of(pem)
        for name in names:
            if now >= until:
                raise Unauthenticated(
                    "CERTIFICATE_EXPIRED",
                    f"the client certificate of {name!r} expired at {_shown(until)}; renew it",
                    caller=name,
                )
            if serial in self._revoked_serials.get(name, ()):
                raise Unauthenticated(
                    "CERTIFICATE_REVOKED", f"client certificate {serial} of {name!r} is revoked", caller=name
                )
            if name in self._rows:
                self._present(name, now)

    def _present(self, name: str, now: datetime) -> Caller:
        revoked = self._rows[name].revoked
        if revoked is not None and now >= revoked:
            raise Unauthenticated(
                "CALLER_REVOKED", f"caller {name!r} was revoked at {_shown(revoked)}", caller=name
            )
        return self.callers[name]


def _caller(name: str, row: CallerRow) -> Caller:
    return Caller(
        name,
        callers_file.roles_named(row.roles),
        None if row.crawls is None else frozenset(row.crawls),
        (name,) if row.nodes is None else tuple(row.nodes),
        row.max_calls,
        row.max_candidates_per_second,
    )


def _check_token(name: str, row: TokenRow, now: datetime) -> None:
    if row.revoked is not None and now >= row.revoked:
        raise Unauthenticated(
            "TOKEN_REVOKED",
            f"token {row.id} of caller {name!r} was revoked at {_shown(row.revoked)}",
            caller=name,
        )
    if row.expires is not None and now >= row.expires:
        raise Unauthenticated(
            "TOKEN_EXPIRED",
            f"token {row.id} of caller {name!r} expired at {_shown(row.expires)}; ask the server's admin "
            "for a new one",
            caller=name,
        )


@lru_cache(maxsize=4096)
def _facts_of(pem: bytes) -> tuple[tuple[str, ...], str, datetime]:
    """The common names in a certificate, its serial number, and when it expires.

    gRPC tells a common name, too, but ends it at a zero byte: `admin` for `admin\\0.example`.
    """
    from cryptography import x509  # takes a while, and is needed with client certificates alone
    from cryptography.x509.oid import NameOID

    certificate = x509.load_pem_x509_certificate(pem)
    try:
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:  # a name that breaks the rules of X.509
        names = []
    return (
        tuple(str(name.value) for name in names),
        f"{certificate.serial_number:x}",
        certificate.not_valid_after_utc,
    )


def _is_of(node: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return node.startswith(pattern[:-1])
    return node == pattern or node.startswith(f"{pattern}/")


def _some(names: Iterable[str]) -> str:
    """`a, b and c`, shortened."""
    listed = list(names)
    shown = [repr(name)[:80] for name in listed[:_SHOWN]]
    more = len(listed) - len(shown)
    if more:
        shown.append(f"{more} more")
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else "none"


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
