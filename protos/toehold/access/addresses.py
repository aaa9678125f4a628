"""Which addresses only this machine can reach."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether a host, a name or an address without brackets, is this machine for sure."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name may lead anywhere
        return False
