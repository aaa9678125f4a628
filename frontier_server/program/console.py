"""The console beside the frontier: a process of its own, which reaches the frontier by a socket in a folder
that only this user may enter. It is a client like any other: its users bring their tokens.
"""

import asyncio
import os
import sys
from contextlib import suppress

import structlog

from toehold_base.process.environment import for_child

from ..config import Config
from .private_folder import PrivateFolder

FOLDER, SOCKET_NAME = "console", "frontier"
SESSION_KEY = "console.key"
RESTART_S = 5.0
END_S = 5.0

_log = structlog.get_logger()


class Console:
    """Keeps the process alive."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._folder = PrivateFolder(config.data, FOLDER, SOCKET_NAME, config.read_only)
        self.socket = f"unix:{self._folder.path / SOCKET_NAME}"
        """Where the frontier is to listen for it."""

    async def run(self) -> None:
        """Start the process, and start it again whenever it has ended."""
        try:
            while True:
                code = await self._once()
                _log.error("console_ended", exit_code=code, restart_s=RESTART_S)
                await asyncio.sleep(RESTART_S)
        finally:
            self.clear()

    def clear(self) -> None:
        """Take away the folder."""
        self._folder.clear()

    async def _once(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command(),
            env=_environment(),
            stdin=asyncio.subprocess.PIPE,  # its end tells that this process has ended, in whatever way
            start_new_session=True,
        )
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                await _ended(process)

    def _command(self) -> list[str]:
        config = self._config
        command = [sys.executable, "-P", "-m", "toehold_cli", "--config", os.devnull]
        command += ["console", "--until-stdin-ends"]
        command += ["--frontier", self.socket, "--listen", str(config.console)]
        command += ["--data", str(config.whole_data)]
        command += ["--log-format", config.log_format, "--log-level", config.log_level]
        if not config.read_only:
            command += ["--session-key", str(config.data / SESSION_KEY)]
        if config.console_encrypts:
            command += ["--https-cert", str(config.tls_cert), "--https-key", str(config.tls_key)]
        for name in config.console_hosts:
            command += ["--host-name", name]
        if config.console is not None and not config.console.is_loopback and not config.console_encrypts:
            command.append("--insecure")
        return command


def _environment() -> dict[str, str]:
    """That of this process without settings: they are for commands that reach frontiers elsewhere."""
    return {name: value for name, value in for_child(os.environ).items() if not name.startswith("TOEHOLD_")}


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End a process, by force if it takes long."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
