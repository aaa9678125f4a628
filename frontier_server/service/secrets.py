"""Secrets in specs: passwords that only admins may read. Others see HIDDEN instead, and may replace them.

Many sites and proxies take a token as the user name, so a name without a password is a secret, too. In the
URL of a proxy, name and password are hidden together: some proxies take the token as the name, and parameters
as the password.
"""

from collections.abc import Iterator, MutableSequence
from functools import cache
from urllib.parse import unquote

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from toehold.frontier.v1.crawl_pb2 import CredentialSpec, FetchSpec

from ..core.rows.errors import InvalidRequest

HIDDEN = "(hidden)"


def hide_secrets(message: Message) -> None:
    """Replace all secrets in a message."""
    for fetch in _fetch_specs(message):
        for credential in fetch.credentials:
            if credential.password:
                credential.password = HIDDEN
            else:
                credential.user = HIDDEN
        before, secret, after = _proxy_parts(fetch.proxy)
        if secret:
            fetch.proxy = f"{before}{HIDDEN}{after}"


def restore_secrets(message: Message, kept: FetchSpec) -> None:
    """Replace each HIDDEN in a message by the secret that is kept in its place.

    Raises InvalidRequest if there is none.
    """
    for fetch in _fetch_specs(message):
        for place, credential in enumerate(fetch.credentials):
            if HIDDEN in (credential.user, credential.password):
                credential.CopyFrom(_kept_credential(credential, kept.credentials, place))
        if HIDDEN in unquote(_proxy_parts(fetch.proxy)[1]):
            if fetch.proxy not in _hidden_forms(kept.proxy):
                raise InvalidRequest(
                    "fetch.proxy must have its name and password, because the crawl keeps none of a proxy at"
                    " this address",
                    field="spec.fetch.proxy",
                )
            fetch.proxy = kept.proxy


def _kept_credential(
    asked: CredentialSpec, kept: MutableSequence[CredentialSpec], place: int
) -> CredentialSpec:
    for each in kept:
        shown = (HIDDEN, "") if not each.password else (each.user, HIDDEN)
        if (asked.surt_prefix, asked.user, asked.password) == (each.surt_prefix, *shown):
            return each
    if asked.user == HIDDEN:
        name, same = "user", "surt_prefix, without a password"
    else:
        name, same = "password", "surt_prefix and user"
    raise InvalidRequest(
        f"fetch.credentials[{place}].{name} must be given, because the crawl keeps none of this {same}",
        field=f"spec.fetch.credentials[{place}].{name}",
    )


def _hidden_forms(proxy: str) -> tuple[str, ...]:
    """How a proxy with a secret may be sent back: all of it hidden, or its password alone."""
    before, secret, after = _proxy_parts(proxy)
    if not secret:
        return ()
    name = secret.partition(":")[0]
    return f"{before}{HIDDEN}{after}", f"{before}{name}:{HIDDEN}{after}"


def _proxy_parts(proxy: str) -> tuple[str, str, str]:
    """A proxy's text before its name and password, these, and the text after them."""
    scheme, slashes, rest = proxy.partition("://")
    end = min((rest.index(mark) for mark in "/?#" if mark in rest), default=len(rest))
    secret, at, host = rest[:end].rpartition("@")
    return scheme + slashes, secret, at + host + rest[end:]


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
