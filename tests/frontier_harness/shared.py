"""One server for the tests that need nothing but a server, and that must leave it serving."""

from pathlib import Path

import grpc

from toehold.frontier.v1 import admin_pb2

from .calls import TIMEOUT_S
from .process import ServerProcess


class SharedServer:
    """A server process; a new one when a test has brought it down."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._generation = 0
        self._start()

    def _start(self) -> None:
        self._generation += 1
        self._judged = 0  # how much of what it had to say
        self.running = ServerProcess(self._folder / f"data{self._generation}").__enter__()

    def close(self) -> None:
        """Let it go."""
        self.running.__exit__(None, None, None)

    def check(self) -> None:
        """Fail, and start anew, unless it serves and nothing has gone wrong within it."""
        try:
            self.running.stubs.admin.GetFrontier(admin_pb2.GetFrontierRequest(), timeout=TIMEOUT_S)
            told = self.running.errors.read_text()[self._judged :]
            self._judged += len(told)
            assert "Traceback" not in told and '"level": "error"' not in told, told
        except (grpc.RpcError, AssertionError):
            self.close()
            self._start()
            raise
