"""Generates the contract's Python beside the .proto files, or checks that what stands there is exactly that.

`protos.py` writes. `protos.py --check` only compares, names and bytes, and exits with 1 where they differ.
"""

import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

PROTOS = Path(__file__).resolve().parent.parent / "protos"
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        wanted = generated_in(Path(scratch))
    present = generated_in(PROTOS)
    changed = [name for name in sorted(wanted | present) if wanted.get(name) != present.get(name)]
    if sys.argv[1:] == ["--check"]:
        for name in changed:
            fault = "left over" if name not in wanted else "missing" if name not in present else "stale"
            print(f"protos/{name}: {fault}", file=sys.stderr)
        if changed:
            sys.exit("Generated code is not current: run `make generate` and commit what it writes.")
        return
    for name in changed:
        if name in wanted:
            (PROTOS / name).write_bytes(wanted[name])
        else:
            (PROTOS / name).unlink()
        print(f"protos/{name}: {'written' if name in wanted else 'removed'}")


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


def generated_in(root: Path) -> dict[str, bytes]:
    """Every generated file under `root`, by its path from there."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for pattern in GENERATED
        for path in root.rglob(pattern)
    }


if __name__ == "__main__":
    main()
