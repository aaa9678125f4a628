"""`toehold certs`: certificates for a small installation."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toehold_base.access.callers_file import normal_serial
from toehold_cli import output
from toehold_cli.numbers import Whole

from .callers import callers_option, moment, registry
from .options import Listing, json_option

if TYPE_CHECKING:
    from toehold_cli.access.authority import Authority, Issued

_COLUMNS = ("certificate", "name", "expires", "hosts", "state")
_MAX_DAYS = 3650

_directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    default=Path("certs"),
    show_default=True,
    help="The directory of the authority and its certificates.",
)


@click.group(cls=Listing)
def certs() -> None:
    """Make, list or revoke certificates for frontier, nodes and people.

    `toehold certs` means `toehold certs list`.
    """


@certs.command("create")
@click.argument("name")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A name or address of the server NAME; may be repeated. Without it NAME only calls others.",
)
@click.option(
    "--days",
    type=Whole(min=1, max=_MAX_DAYS),
    metavar="N",
    default=365,
    show_default=True,
    help="Let it expire after N days.",
)
@click.option("--renew", is_flag=True, help="Replace an earlier one, by default for the same hosts.")
@_directory_option
@json_option
def create_cert(
    name: str, hosts: Sequence[str], days: int, renew: bool, directory: Path, as_json: bool
) -> None:
    """Make the certificate NAME.crt and its key NAME.key.

    NAME is the caller's name. The first certificate in DIR also makes an authority, ca.crt and ca.key: give
    ca.crt to everybody, and keep ca.key to yourself. Programs notice a renewed certificate by themselves; the
    former one stays valid until it expires or is revoked.
    """
    issued = _authority(directory).issue(name, hosts, days, renew=renew)
    output.result(
        _record(issued), f"{issued.cert}: issued, expires {moment(issued.expires)}", as_json=as_json
    )


@certs.command("list")
@_directory_option
@callers_option
@json_option
def list_certs(directory: Path, callers_file: Path, as_json: bool) -> None:
    """List the certificates in DIR. Those that the callers file revokes say so."""
    rows = registry(callers_file).callers() if callers_file.exists() else {}
    revoked = {normal_serial(serial) for row in rows.values() for serial in row.revoked_certificates}
    issued = _authority(directory).issued()
    if as_json:
        for each in issued:
            output.record({**_record(each), "state": _state(each, revoked)})
        return
    output.table(
        _COLUMNS,
        (
            (
                str(each.cert),
                each.name,
                moment(each.expires),
                " ".join(each.hosts) or "-",
                _state(each, revoked),
            )
            for each in issued
        ),
    )


@certs.command("revoke")
@click.argument("cert", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@callers_option
@json_option
def revoke_cert(cert: Path, callers_file: Path, as_json: bool) -> None:
    """Refuse the certificate in FILE from now on.

    The servers that use the callers file refuse it within a second. To end all rights of its caller, use
    `toehold callers revoke`.
    """
    from toehold_cli.access.authority import serial_in

    name, serial = serial_in(cert)
    registry(callers_file).revoke_certificate(name, serial)
    output.result(
        {"name": name, "serial": serial, "revoked": True}, f"{cert}: revoked ({name})", as_json=as_json
    )


def _authority(directory: Path) -> "Authority":
    from toehold_cli.access.authority import Authority  # the other commands need no cryptography

    return Authority(directory)


def _state(issued: "Issued", revoked: set[str]) -> str:
    if issued.serial in revoked:
        return "revoked"
    return "expired" if issued.is_expired else "valid"


def _record(issued: "Issued") -> dict[str, object]:
    return {
        "name": issued.name,
        "serial": issued.serial,
        "hosts": list(issued.hosts),
        "expires": moment(issued.expires),
        "cert": str(issued.cert),
    }
