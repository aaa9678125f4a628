"""Secrets in specs: passwords that only admins may read. Others see HIDDEN instead, and may replace them."""

from collections.abc import Iterator, MutableSequence
from functools import cache
from urllib.parse import urlsplit

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from toehold.frontier.v1.crawl_pb2 import CredentialSpec, FetchSpec

from ..core.errors import InvalidRequest

HIDDEN = "(hidden)"


def hide_secrets(message: Message) -> None:
    """Replace all secrets in a message."""
    for fetch in _fetch_specs(message):
        for credential in fetch.credentials:
            if credential.password:
                credential.password = HIDDEN
        if (parts := _proxy_password(fetch.proxy)) is not None:
            fetch.proxy = parts[0] + HIDDEN + parts[2]


def restore_secrets(message: Message, kept: FetchSpec) -> None:
    """Replace each HIDDEN in a message by the secret that is kept in its place.

    Raises InvalidRequest if there is none.
    """
    for fetch in _fetch_specs(message):
        for place, credential in enumerate(fetch.credentials):
            if credential.password == HIDDEN:
                credential.password = _kept_password(credential, kept.credentials, place)
        parts = _proxy_password(fetch.proxy)
        if parts is not None and parts[1] == HIDDEN:
            known = _proxy_password(kept.proxy)
            if known is None or (known[0], known[2]) != (parts[0], parts[2]):
                raise InvalidRequest(
                    "fetch.proxy must have its password, because the crawl has no such proxy whose password"
                    " could be kept",
                    field="spec.fetch.proxy",
                )
            fetch.proxy = kept.proxy


def _kept_password(asked: CredentialSpec, kept: MutableSequence[CredentialSpec], place: int) -> str:
    for each in kept:
        if (each.surt_prefix, each.user) == (asked.surt_prefix, asked.user):
            return each.password
    raise InvalidRequest(
        f"fetch.credentials[{place}].password must be given, because the crawl has no credential of this"
        " surt_prefix and user whose password could be kept",
        field=f"spec.fetch.credentials[{place}].password",
    )


def _proxy_password(proxy: str) -> tuple[str, str, str] | None:
    """A proxy's address before its password, the password, and the address after it; None without one."""
    try:
        password = urlsplit(proxy).password
    except ValueError:
        return None
    if not password:
        return None
    before, _, after = proxy.rpartition("@")
    start = len(before) - len(password)
    return before[:start], password, f"@{after}"


def _fetch_specs(message: Message) -> Iterator[FetchSpec]:
    """The fetch specs in a message, at any depth."""
    if isinstance(message, FetchSpec):
        yield message
        return
    for field in _ways(message.DESCRIPTOR):
        value = getattr(message, field.name)
        if field.is_repeated:
            for each in value:
                yield from _fetch_specs(each)
        elif message.HasField(field.name):
            yield from _fetch_specs(value)


@cache
def _ways(kind: Descriptor) -> tuple[FieldDescriptor, ...]:
    """The fields of a kind of message that may lead to a fetch spec."""
    return tuple(field for field in kind.fields if field.message_type and _leads(field.message_type))


@cache
def _leads(kind: Descriptor) -> bool:
    if kind is FetchSpec.DESCRIPTOR:
        return True
    return any(_leads(field.message_type) for field in kind.fields if field.message_type)
