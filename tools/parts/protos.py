"""The contract's Python, beside the .proto files."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

PROTOS = Path(__file__).resolve().parents[2] / "protos"
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def files() -> dict[Path, str | None]:
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        texts = {path.relative_to(scratch): path.read_text() for path in generated_in(Path(scratch))}
    return {**dict.fromkeys(generated_in(PROTOS)), **{PROTOS / path: text for path, text in texts.items()}}


def generate(out: Path) -> None:
    """Runs the compiler and the plug-ins of this virtual environment over every .proto."""
    tools = Path(sys.executable).parent
    failed = protoc.main(
        [
            "protoc",
            f"-I{PROTOS}",
            f"-I{Path(grpc_tools.__file__).parent / '_proto'}",  # google.protobuf's own
            f"--plugin=protoc-gen-mypy={tools / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={tools / 'protoc-gen-mypy_grpc'}",
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_out=quiet:{out}",
            f"--mypy_grpc_out=quiet:{out}",
            *map(str, sorted(PROTOS.rglob("*.proto"))),
        ]
    )
    if failed:
        sys.exit("The .proto files do not compile.")


def generated_in(root: Path) -> Iterator[Path]:
    """Every generated file in a folder."""
    for pattern in GENERATED:
        yield from root.rglob(pattern)
