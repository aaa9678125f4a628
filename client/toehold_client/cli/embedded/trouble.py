"""What can keep an embedded crawl from starting or from going on, with the exit code of each."""

from typing import ClassVar

from toehold_client.cli.exits import ExitCode
from toehold_client.errors import ToeholdError


class Trouble(ToeholdError):
    """The crawl cannot start, or cannot go on; `str()` of it is for people."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED


class BadPlan(Trouble):
    """What was asked for makes no sense."""

    exit_code = ExitCode.BAD_INPUT


class BadDirectory(Trouble):
    """The directory cannot be used for a crawl."""

    exit_code = ExitCode.BAD_INPUT


class DirectoryRefused(Trouble):
    """The directory holds a crawl that this one cannot go on with, or that somebody else is at work on."""

    exit_code = ExitCode.REFUSED


class ChildFailed(Trouble):
    """The frontier server or the crawler node could not be started, or ended before its time."""


class Interrupted(Trouble):
    """A signal came before the crawl was under way."""

    exit_code = ExitCode.INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted before the crawl was under way")
