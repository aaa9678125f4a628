"""A clock in the hands of a test."""


class StillClock:
    """Stands still until a test sets `now_s`."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s
