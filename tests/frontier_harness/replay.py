"""pywb, which replays WARC files as an archive's users would see them."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple, Self

import pytest
from frontier_harness.ports import KeptPort
from frontier_harness.waiting import PATIENCE_S, eventually

INSTALLED = Path(__file__).resolve().parents[2] / "build" / "pywb" / "bin"
CODINGS = "gzip, deflate, br, zstd"
"""A client must take them, or pywb undoes them."""
ABSENT = "{} is neither on PATH nor in build/: run `make pywb` where a package index can be reached"


class Replayed(NamedTuple):
    """What pywb serves for a URL at a time."""

    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes
    """As the server sent it, with its Content-Encoding."""


class Pywb:
    """A pywb within a `with` block, whose collection in `folder` has these WARC files. Skips the test if
    there is no pywb.
    """

    def __init__(self, folder: Path, files: Iterable[Path]) -> None:
        self._folder = folder
        self._files = [str(file.resolve()) for file in files]

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        for command in (("init", "crawl"), ("add", "crawl", *self._files)):
            done = subprocess.run(
                [_program("wb-manager"), *command],
                cwd=self._folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        self._port = KeptPort()
        with (self._folder / "pywb.log").open("wb") as log:
            self._child = subprocess.Popen(
                [_program("wayback"), "--bind", "127.0.0.1", "--port", str(self._port.port)],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        # No client of more comfort, as those refuse odd headers, which an archive has to replay.
        self._http = HTTPConnection("127.0.0.1", self._port.port, timeout=PATIENCE_S)
        try:
            eventually(self._serves, "pywb")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._child.terminate()
        self._child.wait(PATIENCE_S)
        self._port.close()

    def page(self, url: str, date: str) -> Replayed:
        """What the archive has of a URL, nearest to a date of 14 digits: without rewritten links."""
        self._http.request("GET", f"/crawl/{date}id_/{url}", headers={"Accept-Encoding": CODINGS})
        answer = self._http.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Replayed(answer.status, headers, answer.read())

    def _serves(self) -> bool:
        assert self._child.poll() is None, (self._folder / "pywb.log").read_text()
        try:
            self._http.request("GET", "/")
            answer = self._http.getresponse()
        except (OSError, HTTPException):
            self._http.close()
            return False
        answer.read()
        return answer.status == 200


def _program(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join((str(INSTALLED), os.environ.get("PATH", ""))))
    if found is None:
        pytest.skip(ABSENT.format(name))
    return found
