"""The line by which a node says that it works, and where it can be asked: for people and its supervisor."""

_SERVICE = ", service at "


def ready_line(name: str, frontier: str, toes: int, processes: int | None, service_address: str) -> str:
    """What a node says on its standard output once it works."""
    among = f" in {processes} processes" if processes is not None else ""
    return f"toehold-node {name} fetching for {frontier} with {toes} toes{among}{_SERVICE}{service_address}"


def service_of(line: str) -> str:
    """The address that such a line names; empty for any other text."""
    return line.strip().rpartition(_SERVICE)[2] if _SERVICE in line else ""
