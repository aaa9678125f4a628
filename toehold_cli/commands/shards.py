"""`toehold shards`: the shards of a frontier's data directory or bucket, while no frontier runs on it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from toehold_cli import output
from toehold_cli.exits import ExitCode
from toehold_client.text import counted

from .options import Listing, json_option

_USAGE, _UNUSABLE = 2, 4  # exit codes of toehold-frontier


@click.group(cls=Listing)
def shards() -> None:
    """Show or double the shards of a frontier, by its directory on this machine or by its bucket.

    `toehold shards` means `toehold shards list`.
    """


@shards.command("list")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="The data directory of a frontier on this machine.",
)
@click.option("--log", metavar="URL", help="The bucket of a frontier on several machines.")
@json_option
def list_shards(data: Path | None, log: str | None, as_json: bool) -> ExitCode:
    """Show the shards of a data directory, or of a bucket.

    For a data directory, it shows the slots of each shard and the size of its store. For a bucket, it shows
    the slots of each shard, the machine that serves it, its last replica and how much a start elsewhere would
    read; then the machines. It looks for two seconds at who is there.
    """
    if (data is None) == (log is None):
        raise click.UsageError("Give either --data DIR or --log URL.")
    code, told = _asked([f"--data={data}" if log is None else f"--log={log}", "--list-shards"])
    for member in map(json.loads, told.splitlines()):
        output.result(member, _line(member) if log is None else _line_of_cluster(member), as_json=as_json)
    return code


@shards.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    required=True,
    help="The data directory of the frontier; with --log, a new directory to work in.",
)
@click.option("--log", metavar="URL", help="The bucket of a frontier on several machines.")
@json_option
def split(data: Path, log: str | None, as_json: bool) -> ExitCode:
    """Double the number of shards of a data directory, or of a bucket.

    Stop the frontier first, with --log all its machines. Its crawls keep all that they have, and go on when
    it starts again. All stores are built anew and compared with the old ones, which stay in DIR or in the
    bucket until you remove them. DIR needs as much room again; with --log, room for all stores twice. If the
    command is interrupted, run it again.
    """
    if log is None and not data.exists():
        raise click.BadParameter(f"Directory '{data}' does not exist.", param_hint="'--data'")
    bucket = [] if log is None else [f"--log={log}"]
    code, told = _asked([f"--data={data}", *bucket, "--split"])
    if code is not ExitCode.DONE or not as_json:
        print(told, end="")
        return code
    code, told = _asked([*(bucket or [f"--data={data}"]), "--list-shards"])
    members = [each for each in map(json.loads, told.splitlines()) if "member" in each]
    where = {"data": str(data)} if log is None else {"log": log}
    output.result(where | {"shards": len(members) - 1}, "", as_json=True)
    return code


def _line(member: dict[str, Any]) -> str:
    size = f"{member['store_bytes'] >> 20} MiB"
    if "first_slot" not in member:
        return f"{member['member']}: lives, seeds and events of crawls; {size}"
    if member["member"] == ".":
        return f"1 shard: the store is undivided; {size}"
    return f"{member['member']}: slots {member['first_slot']} to {member['last_slot']}; {size}"


def _line_of_cluster(told: dict[str, Any]) -> str:
    if "member" not in told:
        members = counted(told["members"], "member")
        requests = f"{told['requests_an_hour']:,} requests an hour".replace(",", " ")
        ahead_s = told["clock_ahead_s"]
        ahead_or_behind = "ahead of" if ahead_s > 0 else "behind"
        clock = f"; its clock is {abs(ahead_s)} s {ahead_or_behind} the bucket's" if ahead_s else ""
        machine = f"machine {told['machine']} at {told['host']}"
        return f"{machine}: {members}, {requests}, version {told['version']}{clock}"
    slots = f"slots {told['first_slot']} to {told['last_slot']}; " if "first_slot" in told else ""
    owner = f"{told['machine']}, epoch {told['epoch']}" if told["machine"] else "no machine serves it"
    replica = "no replica"
    if "replica_bytes" in told:
        age_s = max(round(time.time() - told["replica_time_ms"] / 1000), 0)
        replica = f"replica of {told['replica_bytes'] >> 20} MiB, {age_s} s old"
    tail = f"{told['tail_rows']} rows in {told['tail_records']} records after it"
    return f"{told['member']}: {slots}{owner}; {replica}; {tail}"


def _asked(options: list[str]) -> tuple[ExitCode, str]:
    """Let the frontier's program do it, as the command line does not know its files; and what it prints."""
    command = [sys.executable, "-P", "-m", "frontier_server", *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    code = done.returncode
    if code in (_USAGE, _UNUSABLE):
        return ExitCode.REFUSED, done.stdout
    return ExitCode.DONE if code == 0 else ExitCode.FAILED, done.stdout
