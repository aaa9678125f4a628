"""A member of a frontier of several shards, the front or a shard, as its supervisor sees it: a process."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

from toehold_base.process.environment import for_child
from toehold_base.process.parent import BEAT_S

SERVING = "toehold-frontier serving on "
CONSOLE = "toehold console serving on "
REACHED = "toehold-frontier reached at "
"""What a process of a cluster says before it serves: two ports, and the epoch of its log."""
REQUESTS = "toehold-frontier requests "
"""Such a process says now and then how many requests to the bucket it has made since it began."""
READY, ALIVE = "READY=1", "WATCHDOG=1"  # as sd_notify(3) has them


class Member:
    """A process that can be started, told to end, and started again. It tells by lines on its standard output
    that it serves, and that it is alive, and its console tells where it is."""

    def __init__(
        self,
        name: str,
        command: Callable[[], Sequence[str]],
        beat_s: float,
        heard: Callable[["Member"], None],
        pass_on: Callable[[str], None],
    ) -> None:
        """`command` makes the command line. The process says each `beat_s` that it is alive. `heard` is
        called with each sign of life, `pass_on` with the lines of the console beside it."""
        self.name = name
        self.is_serving = False
        self.has_served = False
        """Whether the process that runs, or the last one, has served."""
        self.address = ""
        """Where it serves, or served last."""
        self._command = command
        self._beat_s = beat_s
        self._heard = heard
        self._pass_on = pass_on
        self.heard_reached: Callable[[Member, str], None] = _untold
        """Gets where other machines reach the process, if they do."""
        self.requests = 0
        """To the bucket of its log, since the process began, as it said last."""
        self._is_ending = False
        self._process: asyncio.subprocess.Process | None = None

    async def live(self) -> int:
        """Start the process, and wait until it has ended. Its exit code, or the negative number of the signal
        that killed it. Raises OSError if it cannot be started."""
        self.has_served, self.requests = False, 0
        output, its_output = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(),
                env=for_child(os.environ) | {BEAT_S: str(self._beat_s)},
                stdin=asyncio.subprocess.PIPE,  # its end tells that this process has ended, in whatever way
                stdout=its_output,
                start_new_session=True,  # Ctrl-C is for this process alone
            )
        except BaseException:
            os.close(output)
            raise
        finally:
            os.close(its_output)
        lines = _Lines(output, self._take)
        if self._is_ending:  # it was told while the process was being made
            self.send(signal.SIGTERM)
        try:
            return await self._process.wait()
        finally:
            self.is_serving = False
            lines.close()
            self._process = None

    def end(self) -> None:
        """Tell the process to end in order."""
        self._is_ending = True
        self.send(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it runs."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def orphan(self) -> None:
        """Tell the process that its supervisor's parent is gone. It then ends by itself."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(b"\n")

    def _take(self, line: str) -> None:
        if line.startswith(REACHED):
            self.heard_reached(self, line.removeprefix(REACHED))
        elif line.startswith(REQUESTS):
            self.requests = int(line.removeprefix(REQUESTS))
        elif line.startswith(SERVING):
            self.address = line.removeprefix(SERVING)
        elif line in (READY, ALIVE):
            self.is_serving = self.has_served = True
            self._heard(self)
        elif line.startswith(CONSOLE):
            self._pass_on(line)


def _untold(member: Member, told: str) -> None:
    return


class _Lines:
    """Reads the lines of a pipe, until `close`: a child of the process may keep the pipe longer."""

    def __init__(self, pipe: int, take: Callable[[str], None]) -> None:
        self._pipe = pipe
        self._take = take
        self._rest = b""
        os.set_blocking(pipe, False)
        asyncio.get_running_loop().add_reader(pipe, self._read)

    def _read(self) -> None:
        try:
            got = os.read(self._pipe, 65536)
        except BlockingIOError:
            return
        if not got:
            asyncio.get_running_loop().remove_reader(self._pipe)
        *lines, self._rest = (self._rest + got).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe)
        os.close(self._pipe)
