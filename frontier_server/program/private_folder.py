"""A folder for sockets that only this user may enter."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

MOST_PATH_BYTES = 100


class PrivateFolder:
    """One in the data directory; or in the folder for temporary files, if the data directory must not change,
    or the path of a socket would be too long for the system."""

    def __init__(self, data: Path, name: str, longest_socket: str, read_only: bool) -> None:
        """Make it. `longest_socket` is the longest name in it. Raises OSError."""
        place = data.absolute() / name
        is_short = len(os.fsencode(place / longest_socket)) <= MOST_PATH_BYTES
        self._made = None if is_short and not read_only else TemporaryDirectory(prefix="toehold-")
        if self._made is None:  # after kill -9 the next frontier takes it again
            place.mkdir(mode=0o700, exist_ok=True)
            place.chmod(0o700)
        self.path = place if self._made is None else Path(self._made.name)

    def clear(self) -> None:
        """Take it away; the one in the data directory only if nothing is left in it."""
        with suppress(OSError):
            if self._made is None:
                self.path.rmdir()
            else:
                self._made.cleanup()
