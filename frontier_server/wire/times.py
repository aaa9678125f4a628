"""Moments and lengths of time: protobuf's messages ↔ milliseconds."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

LAST_MOMENT_MS = 253_402_300_799_999  # of the year 9999, the last one that a Timestamp can name


def timestamp(moment_ms: int) -> Timestamp | None:
    """A moment, or None for 0."""
    if not moment_ms:
        return None
    message = Timestamp()
    message.FromMilliseconds(moment_ms)
    return message


def duration(length_ms: int) -> Duration:
    """A length of time."""
    message = Duration()
    message.FromMilliseconds(length_ms)
    return message


def milliseconds(message: Duration) -> int:
    """A length of time; whatever its fields hold, a number comes out."""
    return message.seconds * 1000 + message.nanos // 1_000_000


def moment_ms(message: Timestamp) -> int:
    """A moment; whatever its fields hold, a number comes out."""
    return message.seconds * 1000 + message.nanos // 1_000_000


def due_ms(message: Timestamp) -> int:
    """A moment that somebody asks for: never 0, which means none, nor beyond what can be told of."""
    return min(max(moment_ms(message), 1), LAST_MOMENT_MS)
