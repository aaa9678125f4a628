"""Converts moments and durations between protobuf's messages and milliseconds."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

LAST_MOMENT_MS = 253_402_300_799_999  # the end of the year 9999, the last moment of a Timestamp


def timestamp(moment_ms: int) -> Timestamp | None:
    """A moment, or None for 0."""
    if not moment_ms:
        return None
    message = Timestamp()
    message.FromMilliseconds(moment_ms)
    return message


def duration(length_ms: int) -> Duration:
    message = Duration()
    message.FromMilliseconds(length_ms)
    return message


def milliseconds(message: Duration) -> int:
    """A duration. Accepts any field values."""
    return message.seconds * 1000 + message.nanos // 1_000_000


def moment_ms(message: Timestamp) -> int:
    """A moment. Accepts any field values."""
    return message.seconds * 1000 + message.nanos // 1_000_000


def due_ms(message: Timestamp) -> int:
    """A requested moment, within 1 (0 means none) and the last moment of a Timestamp."""
    return min(max(moment_ms(message), 1), LAST_MOMENT_MS)
