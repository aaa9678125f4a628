"""crawl.json: what the crawl in a directory was asked to be."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.json_format import ParseError as MessageParseError
from google.protobuf.timestamp_pb2 import Timestamp

from toehold.frontier.v1.crawl_pb2 import CrawlSpec
from toehold_base.durable import sync_directory
from toehold_cli.exits import DirectoryRefused
from toehold_client.watching.crawl_directory import crawl_file_of


@dataclass(frozen=True, slots=True)
class CrawlFile:
    """What the frontier was asked for, as far as it has been done."""

    crawl: str
    spec: CrawlSpec
    seeds: tuple[str, ...]
    recrawl_before: Timestamp | None = None
    """Set while a recrawl is being prepared: its URIs are those that were last fetched before this time."""
    command: str = ""
    """The command line of the last run, for people; and where it was typed."""
    folder: str = ""


def load(path: Path) -> CrawlFile:
    """The content of a directory's crawl.json. DirectoryRefused if it is damaged."""
    file = crawl_file_of(path)
    try:
        said = json.loads(file.read_bytes())
        before = None
        if said.get("recrawl_before"):
            before = Timestamp()
            before.FromJsonString(said["recrawl_before"])
        return CrawlFile(
            said["crawl"],
            ParseDict(said["spec"], CrawlSpec()),
            tuple(said["seeds"]),
            before,
            said.get("command", ""),
            said.get("folder", ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MessageParseError) as problem:
        raise DirectoryRefused(
            f"{file} is damaged ({problem}); --fresh moves the crawl aside and starts a new one"
        ) from problem


def store(path: Path, record: CrawlFile) -> None:
    """Replaces a directory's crawl.json."""
    content = {
        "crawl": record.crawl,
        "command": record.command,
        "folder": record.folder,
        "spec": MessageToDict(record.spec),
        "seeds": record.seeds,
    }
    if record.recrawl_before is not None:
        content["recrawl_before"] = record.recrawl_before.ToJsonString()
    write_json(crawl_file_of(path), content, 0o600)  # the spec and the command may have passwords


def write_json(path: Path, content: object, mode: int = 0o666) -> None:
    """Replaces a file durably and at once: a reader sees the old content or the new, even after a crash. The
    umask bounds its mode."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    unfinished = path.with_name(f"{path.name}.tmp")
    unfinished.unlink(missing_ok=True)  # one that a crash has left may have another mode
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_directory(path.parent)
