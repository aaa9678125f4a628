"""Requests as the annotations of candidates: JSON, compressed.

Never pickle: whoever may offer URIs to the frontier could run code in every crawler. Classes of requests and
items are looked up only in modules that the crawler has already imported.
"""

import base64
import dataclasses
import json
import sys
import zlib
from collections.abc import Collection
from datetime import date, datetime
from enum import Enum
from typing import Any

from scrapy import Item, Request, Spider
from scrapy.utils.request import request_from_dict

MAX_ANNOTATIONS_BYTES = 16_384
"""The contract's limit of a candidate's annotations."""

MAX_JSON_BYTES = 1024 * 1024
"""Most bytes that annotations may unpack to."""

_FORMAT = b"scrapy1:"
_DEFAULTS: dict[str, Any] = {
    "method": "GET",
    "encoding": "utf-8",
    "priority": 0,
    "dont_filter": False,
}


class Unserialisable(Exception):
    """A request cannot become annotations; the message says why."""


class Unreadable(Exception):
    """Annotations are no request of this spider; the message says why."""


def encode(request: Request, spider: Spider, *, without_meta: Collection[str]) -> bytes:
    """The annotations of a request's candidate: everything but its URL, and `meta` without some keys.

    Raises Unserialisable if the request is too large, or holds a value that JSON cannot express.
    """
    try:
        fields = request.to_dict(spider=spider)
        del fields["url"]
        fields["meta"] = {key: value for key, value in fields["meta"].items() if key not in without_meta}
        used = {
            name: _plain(value) for name, value in fields.items() if value and value != _DEFAULTS.get(name)
        }
        packed = _FORMAT + zlib.compress(json.dumps(used, separators=(",", ":")).encode())
    except (ValueError, RecursionError) as error:
        raise Unserialisable(str(error)) from None
    if len(packed) > MAX_ANNOTATIONS_BYTES:
        raise Unserialisable(
            f"it must have at most {MAX_ANNOTATIONS_BYTES} bytes when packed, got {len(packed)}"
        )
    return packed


def decode(annotations: bytes, uri: str, spider: Spider) -> Request:
    """The request of a lease. Without annotations of ours it is a plain one, for the spider's `parse`.

    Raises Unreadable if this spider lacks a callback or a class that the request names.
    """
    if not annotations.startswith(_FORMAT):
        return Request(uri)
    try:
        fields = {name: _value(value) for name, value in json.loads(_unpacked(annotations)).items()}
        if "_class" in fields and not issubclass(_loaded_class(fields["_class"]), Request):
            raise Unreadable(f"{fields['_class']} is not a subclass of Request")
        return request_from_dict({**fields, "url": uri}, spider=spider)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error) as error:
        raise Unreadable(str(error)) from None


def _unpacked(annotations: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(annotations[len(_FORMAT) :], MAX_JSON_BYTES)
    if not unpacking.eof:
        raise Unreadable(f"its annotations are incomplete, or have more than {MAX_JSON_BYTES} bytes")
    return text


def _plain(value: Any) -> Any:
    """A value in JSON. A value of a kind that JSON lacks becomes an object whose only key names the kind."""
    match value:
        case Enum():
            raise ValueError(f"{value!r} cannot be written as JSON")
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case datetime():
            return {"datetime": value.isoformat()}
        case date():
            return {"date": value.isoformat()}
        case Item():
            return {"item": [_path(value), _plain(dict(value))]}
        case dict():
            return {"dict": [[_plain(key), _plain(each)] for key, each in value.items()]}
        case list():
            return [_plain(each) for each in value]
        case tuple() | set() | frozenset() if type(value) in _GROUPS:
            return {type(value).__name__: [_plain(each) for each in value]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        return {"item": [_path(value), _plain(fields)]}
    raise ValueError(f"a value of type {type(value).__name__} cannot be written as JSON")


_GROUPS: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    [(kind, content)] = plain.items()
    match kind:
        case "bytes":
            return base64.b64decode(content)
        case "datetime":
            return datetime.fromisoformat(content)
        case "date":
            return date.fromisoformat(content)
        case "dict":
            return {_value(key): _value(each) for key, each in content}
        case "item":
            return _item(content[0], _value(content[1]))
        case "tuple":
            return tuple(_value(each) for each in content)
        case "set":
            return {_value(each) for each in content}
        case "frozenset":
            return frozenset(_value(each) for each in content)
    raise Unreadable(f"{kind!r} is not a kind of value that is known here")


def _item(path: str, fields: dict[str, Any]) -> Any:
    kind = _loaded_class(path)
    if not (issubclass(kind, Item) or dataclasses.is_dataclass(kind)):
        raise Unreadable(f"{path} is neither an Item nor a dataclass")
    return kind(**fields)


def _path(value: object) -> str:
    kind = type(value)
    path = f"{kind.__module__}.{kind.__qualname__}"
    if _found(path) is not kind:
        raise ValueError(f"{path} is not a class at the top level of a module")
    return path


def _loaded_class(path: str) -> type:
    cls = _found(path)
    if not isinstance(cls, type):
        raise Unreadable(f"this spider has no class {path}")
    return cls


def _found(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(sys.modules.get(module), name, None)
