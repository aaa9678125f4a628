"""`toehold checkpoints`: copies of all crawls of a frontier."""

import click

from toehold.frontier.v1.admin_pb2 import Checkpoint
from toehold_cli import output
from toehold_client.client import FrontierClient
from toehold_client.spec.plain import to_plain

from .options import Listing, json_option, limit_option, tell, with_frontier
from .suggestions import checkpoint_names

_COLUMNS = ("checkpoint", "made", "directory on the frontier's machine")


@click.group(cls=Listing)
def checkpoints() -> None:
    """List, create or delete copies of all crawls.

    `toehold launch --checkpoint NAME` continues a crawl from a checkpoint.

    `toehold checkpoints` means `toehold checkpoints list`.
    """


@checkpoints.command("list")
@limit_option
@json_option
@with_frontier
def list_checkpoints(client: FrontierClient, limit: int | None, as_json: bool) -> None:
    """List the checkpoints, the oldest first."""
    tell(client.list_checkpoints(), _COLUMNS, _row, limit=limit, as_json=as_json)


@checkpoints.command("create")
@json_option
@with_frontier
def create_checkpoint(client: FrontierClient, as_json: bool) -> None:
    """Save the present state of all crawls.

    Crawls go on meanwhile. A new checkpoint needs little disk space, because it shares files with the
    frontier.
    """
    made = client.create_checkpoint()
    output.result(to_plain(made), f"{made.checkpoint}: {made.path}", as_json=as_json)


@checkpoints.command("delete")
@click.argument("checkpoint", metavar="NAME", shell_complete=checkpoint_names)
@json_option
@with_frontier
def delete_checkpoint(client: FrontierClient, checkpoint: str, as_json: bool) -> None:
    """Delete the checkpoint NAME."""
    client.delete_checkpoint(checkpoint)
    output.result({"checkpoint": checkpoint, "deleted": True}, f"{checkpoint}: deleted", as_json=as_json)


def _row(checkpoint: Checkpoint) -> tuple[str, ...]:
    return checkpoint.checkpoint, output.moment(checkpoint.create_time), checkpoint.path
