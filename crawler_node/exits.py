"""How the program `toehold-node` ends."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of a node."""

    DRAINED = 0
    """Everything is reported."""
    UNREPORTED = 1
    """It gave up reporting, or a thread of the node failed."""
    BAD_ARGUMENT = 2
    """An argument makes no sense."""
    SUPERSEDED = 3
    """Another process has taken its name."""
    OUTPUT_UNUSABLE = 4
    """A directory that pages go to cannot be used."""
    WORN_OUT = 5
    """Too many toe threads had to be left behind; everything else is reported."""
