"""The environment that a program gives to the programs that it starts."""

from collections.abc import Mapping

_SETTINGS = ("TOEHOLD_FRONTIER_", "TOEHOLD_NODE_")
OF_SERVICE_MANAGER = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


def for_child(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without the options of frontier and node, which the child gets as arguments, and without
    what a service manager tells this process alone."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(_SETTINGS) and name not in OF_SERVICE_MANAGER
    }
