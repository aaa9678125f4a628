"""`make crawl`: starts the practice web and becomes `toehold crawl` on it, in ./crawl.

Interrupted, it goes on when run again, on the same ports; finished, it moves the old crawl aside and starts
anew. Further arguments are handed to `toehold crawl`. Its exit code is this one's, but for 3: the web cannot
be served.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from toehold_client.watching.crawl_directory import is_finished

HERE = Path(__file__).resolve().parent
PAGES = HERE.parents[1] / "build" / "practice_pages"
DIRECTORY = Path("crawl")
STATE = Path("crawl-web")
"""The web's ports, certificates and access log. Not below DIRECTORY, which may be moved aside."""

CANNOT_SERVE = 3


def main() -> None:
    """Returns only if the web cannot be served."""
    STATE.mkdir(exist_ok=True)
    complaints = STATE / "serve.err"
    with complaints.open("w") as errors:
        web = subprocess.Popen(
            [
                *(sys.executable, str(HERE / "serve.py"), "--until-stdin-ends"),
                *("--pages", str(PAGES), "--state", str(STATE)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # a terminal's Ctrl-C is for the crawl, which may still be fetching then
        )
    assert web.stdin is not None and web.stdout is not None
    line = web.stdout.readline()
    if not line:
        print(f"The practice web did not start:\n{complaints.read_text().strip()}", file=sys.stderr)
        return
    ready = json.loads(line)
    command = [
        *(str(Path(sys.executable).with_name("toehold")), "crawl", "--resume-with", "make crawl"),
        *("--spec", str(HERE / "spec.toml"), "--dir", str(DIRECTORY), "--ca-file", ready["ca_file"]),
        *(argument for entry in ready["resolve"] for argument in ("--resolve", entry)),
        *(["--fresh"] if is_finished(DIRECTORY) else []),
        *sys.argv[1:],
        *ready["seeds"],
    ]
    # By becoming the crawl, not by starting it: signals and the exit code need nobody to pass them on. The
    # web's stdin stays open in it, and so ends when the crawl does.
    os.set_inheritable(web.stdin.fileno(), True)
    os.execv(command[0], command)


if __name__ == "__main__":
    try:
        main()
        sys.exit(CANNOT_SERVE)
    except KeyboardInterrupt:
        sys.exit(130)
