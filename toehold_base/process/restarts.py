"""When a process that has died is started again."""


class Rests:
    """Rests before each new start, which double from `first_s` to `longest_s` as long as no process has lived
    for `good_life_s`."""

    def __init__(self, first_s: float, longest_s: float, good_life_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._good_life_s = good_life_s
        self._next_s = first_s

    def after(self, lived_s: float) -> float:
        """The rest in seconds after a process that lived for so long."""
        rest_s = self._first_s if lived_s >= self._good_life_s else self._next_s
        self._next_s = min(2 * rest_s, self._longest_s)
        return rest_s
