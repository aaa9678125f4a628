"""What a field of a message may hold on the wire, but no honest caller sends."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

ODD_SECONDS = [-(2**62), -(10**15), -(10**12), -1, 10**12, 10**15, 2**62, 2**63 - 1]
_ODD_NUMBERS: dict[int, list[float]] = {
    FieldDescriptor.TYPE_INT32: [-(2**31), -1, 2**31 - 1],
    FieldDescriptor.TYPE_INT64: [-(2**63), -1, 2**63 - 1],
    FieldDescriptor.TYPE_ENUM: [-(2**31), 99, 2**31 - 1],
    FieldDescriptor.TYPE_DOUBLE: [math.nan, math.inf, -math.inf, -1.0, 1e308],
}


def odd_fields(kind: type[Message]) -> Iterator[tuple[str, object]]:
    """Names and values for every number, moment and length of time of a message."""
    for field in kind.DESCRIPTOR.fields:
        for value in _odd_values(field):
            yield field.name, value


def _odd_values(field: Any) -> Sequence[object]:
    for of_time in (Duration, Timestamp):
        if field.message_type is not None and field.message_type.full_name == of_time.DESCRIPTOR.full_name:
            return [*(of_time(seconds=value) for value in ODD_SECONDS), of_time(nanos=-(2**31))]
    return _ODD_NUMBERS.get(field.type, [])
