"""The verdicts on offered candidates."""

from collections.abc import Iterable

from toehold.frontier.v1.crawl_pb2 import Verdict


class Verdicts(list[Verdict.ValueType]):
    """A verdict for each candidate, in their order.

    `scope_version` and `seen_version` say how long they hold (see ScheduleResponse). One is empty if the
    verdicts have several, or the frontier does not tell it.
    """

    def __init__(
        self,
        verdicts: Iterable[Verdict.ValueType] = (),
        scope_version: bytes = b"",
        seen_version: bytes = b"",
    ) -> None:
        super().__init__(verdicts)
        self.scope_version = scope_version
        self.seen_version = seen_version

    def take(self, verdicts: Iterable[Verdict.ValueType], scope_version: bytes, seen_version: bytes) -> None:
        """Adds those of a further batch."""
        is_first = not self
        self.scope_version = scope_version if is_first or scope_version == self.scope_version else b""
        self.seen_version = seen_version if is_first or seen_version == self.seen_version else b""
        self.extend(verdicts)
