"""`toehold tokens`: secrets by which callers show who they are."""

from datetime import UTC, datetime
from pathlib import Path

import click

from toehold_base.access.callers_file import TokenRow
from toehold_cli import output
from toehold_cli.access.files import SECRET, replace_file
from toehold_cli.numbers import Whole
from toehold_client.errors import InvalidArgument

from .callers import callers_option, moment, registry
from .options import Listing, json_option

_COLUMNS = ("token", "caller", "made", "expires", "state")
_MAX_DAYS = 36_500


@click.group(cls=Listing)
def tokens() -> None:
    """Make, list or revoke tokens of callers.

    `toehold tokens` means `toehold tokens list`.
    """


@tokens.command("create")
@click.argument("caller")
@click.option(
    "--days",
    type=Whole(min=1, max=_MAX_DAYS),
    metavar="N",
    help="Let it expire after N days.  [default: never]",
)
@click.option(
    "--output",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write it to FILE, which only you can read, in place of standard output.",
)
@callers_option
@json_option
def create_token(caller: str, days: int | None, path: Path | None, callers_file: Path, as_json: bool) -> None:
    """Make a token for CALLER.

    It is shown this once; the callers file keeps a digest. Give it to programs as a file: with --token-file,
    or the variable TOEHOLD_TOKEN_FILE.
    """
    made = registry(callers_file).create_token(caller, days)
    result: dict[str, object] = {"caller": caller, "id": made.id}
    if path is None:
        output.result({**result, "token": made.text}, made.text, as_json=as_json)
        return
    try:
        replace_file(path, f"{made.text}\n".encode(), SECRET)
    except InvalidArgument:  # nobody has it then
        registry(callers_file).revoke_token(made.id)
        raise
    output.result({**result, "file": str(path)}, f"{path}: token {made.id} of {caller}", as_json=as_json)


@tokens.command("list")
@callers_option
@json_option
def list_tokens(callers_file: Path, as_json: bool) -> None:
    """List the tokens of all callers: never the secrets themselves, which nobody keeps."""
    now = datetime.now(UTC)
    rows = [
        (name, token, "revoked" if row.revoked is not None else _state(token, now))
        for name, row in registry(callers_file).callers().items()
        for token in row.tokens
    ]
    if as_json:
        for name, token, state in rows:
            output.record(
                {
                    "id": token.id,
                    "caller": name,
                    "made": moment(token.made),
                    "expires": None if token.expires is None else moment(token.expires),
                    "state": state,
                }
            )
        return
    output.table(
        _COLUMNS,
        (
            (
                token.id,
                name,
                moment(token.made),
                "never" if token.expires is None else moment(token.expires),
                state,
            )
            for name, token, state in rows
        ),
    )


@tokens.command("revoke")
@click.argument("token_id", metavar="ID")
@callers_option
@json_option
def revoke_token(token_id: str, callers_file: Path, as_json: bool) -> None:
    """Refuse the token ID from now on.

    The servers that use the callers file refuse it within a second, and end the streams and long polls that
    were opened with it.
    """
    caller = registry(callers_file).revoke_token(token_id)
    output.result(
        {"id": token_id, "caller": caller, "revoked": True},
        f"{token_id}: revoked ({caller})",
        as_json=as_json,
    )


def _state(token: TokenRow, now: datetime) -> str:
    if token.revoked is not None:
        return "revoked"
    return "expired" if token.expires is not None and token.expires <= now else "valid"
