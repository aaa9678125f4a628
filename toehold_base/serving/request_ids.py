"""Request ids: a name for a call, which the logs of its caller and of its server share.

A caller sends it as metadata, the same one when it repeats a call. The server logs it with each line about
the call, and puts it into errors (google.rpc.RequestInfo).
"""

import re
import secrets
from collections.abc import Iterable

REQUEST_ID_KEY = "toehold-request-id"

_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")


def new_request_id() -> str:
    """An id that no other call has."""
    return secrets.token_hex(8)


def is_request_id(text: object) -> bool:
    """Whether this is one: 1 to 64 letters, digits and `. _ : -`."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def given_request_id(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The id in a call's metadata, or a new one if there is none that is valid."""
    for key, value in metadata or ():
        if key == REQUEST_ID_KEY and is_request_id(value):
            return str(value)
    return new_request_id()
