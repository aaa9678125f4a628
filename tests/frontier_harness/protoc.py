"""The protobuf compiler of this machine, or of a Maven build. The one of `.venv` generates only Python."""

import os
import shutil
import subprocess
from pathlib import Path

import grpc_tools
import pytest

PROTOS = Path(__file__).resolve().parents[2] / "protos"
FILES = sorted(path.relative_to(PROTOS).as_posix() for path in PROTOS.rglob("*.proto"))
_OF_MAVEN = Path.home() / ".m2/repository/com/google/protobuf/protoc"
PROTOBUF = Path(grpc_tools.__file__).parent / "_proto"  # protobuf's own .proto files


def generate(*flags: str) -> None:
    """Run protoc on the contract. Skips the test if the machine has none."""
    subprocess.run([_protoc(), f"-I{PROTOS}", f"-I{PROTOBUF}", *flags, *FILES], check=True, timeout=60)


def _protoc() -> Path:
    found = shutil.which("protoc")
    if found:
        return Path(found)
    downloaded = sorted(_OF_MAVEN.glob("*/protoc-*.exe"))
    if not downloaded:
        pytest.skip("protoc is missing")
    copy = PROTOS.parent / "build" / downloaded[-1].name
    if not copy.exists():  # Maven's own cannot be run: they are not executable
        copy.parent.mkdir(exist_ok=True)
        part = copy.with_suffix(f".{os.getpid()}")
        shutil.copyfile(downloaded[-1], part)
        part.chmod(0o755)
        part.replace(copy)
    return copy
