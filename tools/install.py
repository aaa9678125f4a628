"""Installs the packages of a requirements file, by hash, into the environment of this Python.

Prints a dot for each package, so that one sees it going on. Whatever pip says is shown if it fails.
"""

import subprocess
import sys


def main(requirements: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    pip = subprocess.Popen(
        [*command, "--require-hashes", "-r", requirements],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert pip.stdout is not None
    said: list[str] = []
    for line in pip.stdout:
        said.append(line)
        if line.startswith(("Collecting ", "Requirement already satisfied: ")):
            show(".")
        elif line.startswith("Installing collected packages"):
            show(" installing")
    show("\n")
    if pip.wait() != 0:
        sys.exit("".join(said))


def show(text: str) -> None:
    print(text, end="", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
