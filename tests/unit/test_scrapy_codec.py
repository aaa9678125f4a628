"""Requests become annotations, and requests again."""

import enum
import json
import sys
import zlib
from dataclasses import dataclass
from datetime import UTC, date, datetime
from types import ModuleType
from typing import Any

import pytest
import scrapy
from scrapy import FormRequest, Request

from toehold_scrapy.codec import (
    MAX_ANNOTATIONS_BYTES,
    MAX_JSON_BYTES,
    Unreadable,
    Unserialisable,
    decode,
    encode,
)

URL = "http://example.com/page"


class Spider(scrapy.Spider):
    name = "spider"

    def own(self, response: object) -> None:
        """A callback."""

    def failed(self, failure: object) -> None:
        """An errback."""


class Thing(scrapy.Item):
    name = scrapy.Field()


@dataclass
class Other:
    name: str
    parts: list[int]


class Colour(enum.IntEnum):
    RED = 1


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest does not put its modules where imports are found."""
    module = ModuleType(__name__)
    module.__dict__.update(Thing=Thing, Other=Other)
    monkeypatch.setitem(sys.modules, __name__, module)


def again(request: Request, without_meta: tuple[str, ...] = ()) -> Request:
    return decode(encode(request, Spider(), without_meta=without_meta), request.url, Spider())


@pytest.mark.parametrize(
    "value",
    [
        None,
        *(True, 1, -1.5, "text", "\udcff", b"\x00\xff"),
        *([1, [2]], (1, (2,)), {3, 4}, frozenset({5}), {}, {"a": {"b": (1,)}}, {1: 2, (3,): b"4"}),
        *(datetime(2026, 1, 2, 3, tzinfo=UTC), date(2026, 1, 2), {"bytes": "no tag", "dict": [1]}),
        *(Thing(name="a"), Other("b", [1, 2])),
    ],
    ids=str,
)
def test_values_of_meta_and_cb_kwargs_stay_what_they_are(value: Any) -> None:
    found = again(Request(URL, meta={"value": value}, cb_kwargs={"value": value}))
    assert found.meta["value"] == found.cb_kwargs["value"] == value
    assert type(found.meta["value"]) is type(value)


def test_every_field_of_a_request_stays_what_it_is() -> None:
    spider = Spider()
    request = FormRequest(
        URL,
        callback=spider.own,
        errback=spider.failed,
        headers={"X-Own": ["1", "2"]},
        cookies={"c": "1"},
        encoding="latin-1",
        priority=-3,
        dont_filter=True,
        flags=["f"],
    )
    found = decode(encode(request, spider, without_meta=()), URL, spider)
    assert type(found) is FormRequest
    assert found.to_dict(spider=spider) == request.to_dict(spider=spider)


def test_a_plain_request_takes_few_bytes() -> None:
    assert len(encode(Request(URL), Spider(), without_meta=())) < 20


def test_keys_of_meta_can_be_left_out() -> None:
    assert again(Request(URL, meta={"a": 1, "b": 2}), without_meta=("a",)).meta == {"b": 2}


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize(
    ("request_of", "why"),
    [
        (lambda: Request(URL, callback=print), "is not an instance method"),
        (lambda: Request(URL, meta={"a": object()}), "a value of type object cannot be written as JSON"),
        (lambda: Request(URL, meta={"a": Colour.RED}), "cannot be written as JSON"),
        (lambda: Request(URL, meta={"a": _circle()}), "maximum recursion depth"),
        (
            lambda: Request(URL, meta={"a": bytes(range(256)) * 100}),
            "it must have at most 16384 bytes when packed, got ",
        ),
    ],
)
def test_a_request_that_json_cannot_express_is_refused_with_the_reason(request_of: Any, why: str) -> None:
    incompressible = {"a": __import__("random").Random(1).randbytes(2 * MAX_ANNOTATIONS_BYTES)}
    request = request_of() if "bytes" not in why else Request(URL, meta=incompressible)
    with pytest.raises(Unserialisable, match=why):
        encode(request, Spider(), without_meta=())


@pytest.mark.parametrize("annotations", [b"", b"of another client", b"\x00"])
def test_a_lease_without_annotations_of_ours_is_a_plain_request(annotations: bytes) -> None:
    found = decode(annotations, URL, Spider())
    assert found.to_dict() == Request(URL).to_dict()


def _packed(fields: object) -> bytes:
    return b"scrapy1:" + zlib.compress(json.dumps(fields).encode())


@pytest.mark.parametrize(
    "annotations",
    [
        b"scrapy1:garbage",
        b"scrapy1:" + zlib.compress(b"no JSON"),
        b"scrapy1:" + zlib.compress(b" " * (MAX_JSON_BYTES + 1)),
        _packed({"meta": {"bytes": "", "tuple": []}}),
        _packed({"meta": {"unknown": 1}}),
        _packed({"callback": "no_such_method"}),
        _packed({"_class": "os.system"}),
        _packed({"_class": "builtins.dict"}),
        _packed({"_class": "never_imported_module.Request"}),
        _packed({"meta": {"dict": [["a", {"item": ["subprocess.Popen", {"dict": [["args", "true"]]}]}]]}}),
        _packed([1]),
        _packed({"priority": "high"}),
    ],
)
def test_annotations_that_this_spider_cannot_read_are_told(annotations: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(annotations, URL, Spider())
    assert "never_imported_module" not in sys.modules
