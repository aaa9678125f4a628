"""Code that other languages generate from the contract: its places and names, and that it compiles."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from frontier_harness.protoc import PROTOS, generate
from frontier_harness.soaking import Soak
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from toehold.frontier.v1 import admin_pb2, crawl_pb2, frontier_pb2
from toehold.node.v1 import node_pb2

COMPILE_S = 900
PROJECTS = Path(__file__).parent / "languages"


# Places and names.


@pytest.mark.parametrize("module", [crawl_pb2, frontier_pb2, admin_pb2, node_pb2])
def test_every_file_has_the_options_of_its_package(module: object) -> None:
    """Each language spells the package `toehold.x.v1` in its own way."""
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)  # type: ignore[attr-defined]  # of every generated module
    toehold, name, version = file.package.split(".")
    names = [part.capitalize() for part in (toehold, name, version)]
    options = file.options
    assert options.java_package == file.package
    assert options.java_multiple_files
    assert options.java_outer_classname == f"{Path(file.name).stem.capitalize()}Proto"
    assert options.go_package == f"{toehold}/{name}/{version};{name}{version}"
    assert options.csharp_namespace == ".".join(names)
    assert options.php_namespace == "\\".join(names)
    assert options.ruby_package == "::".join(names)
    assert options.objc_class_prefix == f"TH{name[0].upper()}"


@pytest.mark.parametrize(
    ("language", "file", "line"),
    [
        ("cpp", "toehold/frontier/v1/frontier.pb.h", "class Candidate"),
        ("csharp", "Frontier.cs", "namespace Toehold.Frontier.V1 {"),
        ("java", "toehold/frontier/v1/Candidate.java", "package toehold.frontier.v1;"),
        ("kotlin", "toehold/frontier/v1/CandidateKt.kt", "package toehold.frontier.v1;"),
        ("objc", "toehold/frontier/v1/Frontier.pbobjc.h", "@interface THFCandidate :"),
        ("php", "Toehold/Frontier/V1/Candidate.php", "namespace Toehold\\Frontier\\V1;"),
        ("ruby", "toehold/frontier/v1/frontier_pb.rb", "module Toehold\n  module Frontier\n    module V1"),
    ],
)
def test_protoc_generates_each_language_without_further_options(
    tmp_path: Path, language: str, file: str, line: str
) -> None:
    generate(f"--{language}_out={tmp_path}")
    assert line in (tmp_path / file).read_text()


# It compiles. These tests download what they build with.


def run(folder: Path, *command: str, **environment: str) -> None:
    """Run a tool of a language. Skips the test if the machine lacks it."""
    if shutil.which(command[0]) is None and not (folder / command[0]).exists():
        pytest.skip(f"{command[0]} is missing")
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMPILE_S,
    )
    assert done.returncode == 0, done.stdout[-5000:]


def go(folder: Path) -> None:
    """The packages in the code's own module, `toehold`: a path of one's own module needs --go_opt=M, and
    so does URLFrontier's file, which names none."""
    tools = {"GOBIN": str(folder / "bin")}
    run(folder, "go", "install", "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12", **tools)
    run(folder, "go", "install", "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2", **tools)
    plugins = [f"--plugin={folder / 'bin' / name}" for name in ("protoc-gen-go", "protoc-gen-go-grpc")]
    its_own = "Murlfrontier/urlfrontier.proto=toehold/urlfrontier;urlfrontier"
    options = (f"--go_opt={its_own}", f"--go-grpc_opt={its_own}")
    generate(*plugins, f"--go_out={folder}", f"--go-grpc_out={folder}", *options)
    run(folder / "toehold", "go", "mod", "init", "toehold")
    run(folder / "toehold", "go", "mod", "tidy")
    run(folder / "toehold", "go", "vet", "./...")


def jvm(folder: Path) -> None:
    """Java, and Kotlin on top of it."""
    run(folder, "mvn", "-q", "-B", "compile", f"-Dprotos={PROTOS}")


def rust(folder: Path) -> None:
    """tonic and prost; protox reads the files, so that protoc is not needed."""
    run(folder, "cargo", "check", "--quiet", PROTOS=str(PROTOS))


def typescript(folder: Path) -> None:
    """protobuf-es, and ts-proto for grpc-js."""
    run(folder, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent")
    tools = folder / "node_modules/.bin"
    for name, plugin, options in (
        ("es", "protoc-gen-es", "target=ts,import_extension=js"),
        ("ts_proto", "protoc-gen-ts_proto", "outputServices=grpc-js,esModuleInterop=true,importSuffix=.js"),
    ):
        (folder / name).mkdir()
        generate(f"--plugin={tools / plugin}", f"--{name}_out={folder / name}", f"--{name}_opt={options}")
    run(folder, str(tools / "tsc"), "--project", ".")


@pytest.mark.soak("languages")
@pytest.mark.parametrize("build", [go, jvm, rust, typescript], ids=lambda build: build.__name__)
def test_the_generated_code_compiles(tmp_path: Path, soak: Soak, build: Callable[[Path], None]) -> None:
    project = PROJECTS / build.__name__
    folder = tmp_path / "project"
    if project.exists():
        shutil.copytree(project, folder)
    else:
        folder.mkdir()
    build(folder)
    soak.count(checked=1)
